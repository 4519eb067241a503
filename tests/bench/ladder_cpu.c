/* Rungs on the CPU: the median of some products each, in turns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/dtype.h"
#include "tests/bench/ladder.h"

enum { ROUNDS = 3, SAMPLES = 64 };
static const double TOO_LONG_MS = 10000;

struct operands {
    struct gemm_problem problem;
    float *a, *b, *c;
    void *workspace;
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Uniform in [-1, 1]. */
static void fill(float *values, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(seed >> 40) * 0x1p-23f - 1;
    }
}

static bool set_up(struct operands *o, const struct gemm_problem *shape,
                   const struct operation_kernel *const kernels[], uint32_t count)
{
    struct gemm_problem *p = &o->problem;
    uint64_t workspace = 64;
    *o = (struct operands){.problem = *shape};
    p->batch = 1;
    p->alpha = 1;
    gemm_problem_contiguous(p);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        if (kernels[i]->workspace_bytes(p, &bytes) && bytes > workspace)
            workspace = bytes;
    }
    o->a = malloc(p->m * p->k * sizeof *o->a);
    o->b = malloc(p->k * p->n * sizeof *o->b);
    o->c = malloc(p->m * p->n * sizeof *o->c);
    o->workspace = aligned_alloc(64, (workspace + 63) / 64 * 64);
    if (o->a == NULL || o->b == NULL || o->c == NULL || o->workspace == NULL) {
        fprintf(stderr, "gemmd-bench: no memory\n");
        return false;
    }
    fill(o->a, p->m * p->k, 1);
    fill(o->b, p->k * p->n, 2);
    p->a = o->a;
    p->b = o->b;
    p->c = o->c;
    return true;
}

static void tear_down(struct operands *o)
{
    free(o->a);
    free(o->b);
    free(o->c);
    free(o->workspace);
}

/* A sample of C, spread over it, against sums in double. */
static bool is_right(const struct operands *o, const char *name)
{
    const struct gemm_problem *p = &o->problem;
    for (uint64_t s = 0; s < SAMPLES; s++) {
        const uint64_t row = s * 2654435761u % p->m, column = s * 40503u % p->n;
        double sum = 0;
        for (uint64_t i = 0; i < p->k; i++)
            sum += (double)o->a[row * p->k + i] * (double)o->b[i * p->n + column];
        const double got = (double)o->c[row * p->n + column];
        if (!(fabs(got - sum) <= 16 * 0x1p-24 * (double)p->k)) {
            fprintf(stderr, "gemmd-bench: %s: C[%llu][%llu] is %g, not %g\n", name,
                    (unsigned long long)row, (unsigned long long)column, got, sum);
            return false;
        }
    }
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool ladder_cpu_measure(const struct gemm_problem *shape,
                        const struct operation_kernel *const kernels[], uint32_t count,
                        const double before[], double milliseconds[], bool too_slow[])
{
    struct operands o;
    struct gemm_context *context = NULL;
    struct fault fault = {0};
    double times[LADDER_ROWS][ROUNDS];
    bool done = set_up(&o, shape, kernels, count);
    if (done && gemm_context_create(GEMM_BACKEND_CPU, NULL, 0, &context, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd-bench: %s\n", fault.detail);
        done = false;
    }
    for (uint32_t i = 0; i < count && done; i++)
        too_slow[i] = before[i] * 8 > TOO_LONG_MS;
    for (int r = 0; r < ROUNDS && done; r++) {
        for (uint32_t i = 0; i < count && done; i++) {
            if (too_slow[i])
                continue;
            memset(o.c, 0xff, o.problem.m * o.problem.n * sizeof *o.c);
            const double begun = now_ms();
            done = operation_run(kernels[i], context, &o.problem, o.workspace) == GEMMD_OK;
            times[i][r] = now_ms() - begun;
            done = done && (r > 0 || is_right(&o, kernels[i]->name));
        }
    }
    for (uint32_t i = 0; i < count && done; i++) {
        if (too_slow[i])
            continue;
        qsort(times[i], ROUNDS, sizeof times[i][0], compare_doubles);
        milliseconds[i] = times[i][ROUNDS / 2];
    }
    gemm_context_destroy(context);
    tear_down(&o);
    return done;
}
