/*
 * 1024 products in one launch next to cublasSgemmGroupedBatched, both from device memory, f32, in
 * turn. Each product has operands of its own; every shape that cuBLAS has to be told is a group.
 */
#include <cublas_v2.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/group_check.h"
#include "tests/product/random.h"

enum { PRODUCTS = 1024, ROUNDS = 31 };

struct sides {
    uint32_t m, n, k;
};

struct throughput {
    struct group_bench *bench;
    cublasHandle_t blas;
    cudaEvent_t begun, ended;
    struct sides sides[PRODUCTS];
    struct gemm_problem problems[PRODUCTS];
    struct operation_member list[PRODUCTS];
    float *memory, *theirs, *host; /* operands and C; C by cuBLAS; on the host */
    uint64_t elements, results;
    double flops;

    /* For cuBLAS. */
    int groups, m[PRODUCTS], n[PRODUCTS], k[PRODUCTS], sizes[PRODUCTS];
    cublasOperation_t keep[PRODUCTS];
    float one[PRODUCTS], zero[PRODUCTS];
    const float **pointers; /* device: a, b, c */
};

static void draw_uniform(struct sides *sides, uint32_t side)
{
    for (uint32_t i = 0; i < PRODUCTS; i++)
        sides[i] = (struct sides){side, side, side};
}

static void draw_mixed(struct sides *sides, uint64_t *seed)
{
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        uint32_t side[3];
        for (unsigned j = 0; j < 3; j++)
            side[j] = 16 + (uint32_t)(random_next(seed) % 241);
        sides[i] = (struct sides){side[0], side[1], side[2]};
    }
}

/* Cubes of a few sides, shuffled, that cuBLAS can make large groups of. */
static void draw_few(struct sides *sides, uint64_t *seed)
{
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const uint32_t side = 16 * (1 + (uint32_t)(random_next(seed) % 16));
        sides[i] = (struct sides){side, side, side};
    }
}

/* Most are tiny, a few large. */
static void draw_skewed(struct sides *sides, uint64_t *seed)
{
    draw_mixed(sides, seed);
    for (uint32_t i = 0; i < PRODUCTS; i++)
        if (random_next(seed) % 40 == 0)
            sides[i] = (struct sides){256, 256, 256};
        else
            sides[i] =
                (struct sides){16 + sides[i].m % 16, 16 + sides[i].n % 16, 16 + sides[i].k % 16};
}

static int compare_sides(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct sides));
}

static bool make(struct throughput *t)
{
    uint64_t seed = 5;
    /* Sorted for cuBLAS, which wants groups; ours gets them shuffled. */
    qsort(t->sides, PRODUCTS, sizeof *t->sides, compare_sides);
    t->elements = t->results = 0;
    t->flops = 0;
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const struct sides s = t->sides[i];
        t->elements += (uint64_t)s.m * s.k + (uint64_t)s.k * s.n;
        t->results += (uint64_t)s.m * s.n;
        t->flops += 2.0 * s.m * s.n * s.k;
    }
    t->host = malloc((t->elements + 2 * t->results) * sizeof *t->host);
    if (t->host == NULL ||
        !group_succeeded(
            cudaMalloc((void **)&t->memory, (t->elements + 2 * t->results) * sizeof *t->host),
            "cudaMalloc") ||
        !group_succeeded(cudaMalloc((void **)&t->pointers, 3 * PRODUCTS * sizeof(float *)),
                         "cudaMalloc"))
        return false;
    for (uint64_t i = 0; i < t->elements; i++)
        t->host[i] = (float)random_unit(&seed);
    memset(t->host + t->elements, 0xff, 2 * t->results * sizeof *t->host);
    if (!group_copy(t->memory, t->host, (t->elements + 2 * t->results) * sizeof *t->host))
        return false;

    static const float *pointers[3 * PRODUCTS];
    const float *operand = t->memory;
    uint64_t result = 0;
    t->theirs = t->memory + t->elements + t->results;
    t->groups = 0;
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const struct sides s = t->sides[i];
        const float *a = operand, *b = a + (uint64_t)s.m * s.k;
        operand = b + (uint64_t)s.k * s.n;
        t->problems[i] = (struct gemm_problem){.dtype = GEMMD_F32,
                                               .out = GEMMD_F32,
                                               .m = s.m,
                                               .n = s.n,
                                               .k = s.k,
                                               .batch = 1,
                                               .alpha = 1,
                                               .a = a,
                                               .b = b,
                                               .c = t->memory + t->elements + result};
        gemm_problem_contiguous(&t->problems[i]);
        t->list[i] = (struct operation_member){&t->problems[i], NULL};
        pointers[i] = a;
        pointers[PRODUCTS + i] = b;
        pointers[2 * PRODUCTS + i] = t->theirs + result;
        result += (uint64_t)s.m * s.n;
        if (i > 0 && compare_sides(&s, &t->sides[i - 1]) == 0) {
            t->sizes[t->groups - 1]++;
            continue;
        }
        t->m[t->groups] = (int)s.m;
        t->n[t->groups] = (int)s.n;
        t->k[t->groups] = (int)s.k;
        t->one[t->groups] = 1;
        t->keep[t->groups] = CUBLAS_OP_N;
        t->sizes[t->groups++] = 1;
    }
    for (uint32_t i = PRODUCTS - 1; i > 0; i--) {
        const uint32_t j = (uint32_t)(random_next(&seed) % (i + 1));
        const struct operation_member other = t->list[i];
        t->list[i] = t->list[j];
        t->list[j] = other;
    }
    return group_copy(t->pointers, pointers, sizeof pointers);
}

static bool run_ours(struct throughput *t)
{
    return t->bench->kernel->run_group(t->bench->context, t->list, PRODUCTS) == GEMMD_OK;
}

/* Row-major products are column-major ones of the operands in the other order. */
static bool run_theirs(struct throughput *t)
{
    const cublasStatus_t status = cublasSgemmGroupedBatched(
        t->blas, t->keep, t->keep, t->n, t->m, t->k, t->one, t->pointers + PRODUCTS, t->n,
        t->pointers, t->k, t->zero, (float *const *)(t->pointers + 2 * PRODUCTS), t->n, t->groups,
        t->sizes);
    if (status != CUBLAS_STATUS_SUCCESS)
        printf("cublasSgemmGroupedBatched: %s\n", cublasGetStatusString(status));
    return status == CUBLAS_STATUS_SUCCESS;
}

/* `ms` is what the device says, `host_us` what the call takes. */
static bool timed(struct throughput *t, bool (*run)(struct throughput *t), double *ms,
                  double *host_us)
{
    cudaStream_t stream = t->bench->stream;
    float elapsed = 0;
    if (!group_succeeded(cudaEventRecord(t->begun, stream), "cudaEventRecord"))
        return false;
    const double begun_us = group_now_us();
    if (!run(t))
        return false;
    *host_us = group_now_us() - begun_us;
    if (!group_succeeded(cudaEventRecord(t->ended, stream), "cudaEventRecord") ||
        !group_succeeded(cudaEventSynchronize(t->ended), "the products") ||
        !group_succeeded(cudaEventElapsedTime(&elapsed, t->begun, t->ended), "the time"))
        return false;
    *ms = (double)elapsed;
    return true;
}

/* Both computed the same: sums of up to 256 products of numbers within [-1, 1]. */
static bool agree(struct throughput *t)
{
    float *ours = t->host + t->elements, *theirs = ours + t->results;
    if (!group_copy(ours, t->memory + t->elements, 2 * t->results * sizeof *ours))
        return false;
    for (uint64_t i = 0; i < t->results; i++)
        if (!(fabsf(ours[i] - theirs[i]) < 1e-3f)) {
            printf("element %llu is %g and cuBLAS says %g\n", (unsigned long long)i,
                   (double)ours[i], (double)theirs[i]);
            return false;
        }
    return true;
}

static bool measure(struct throughput *t, const char *name)
{
    double ours[ROUNDS], theirs[ROUNDS], our_host[ROUNDS], their_host[ROUNDS];
    bool done = make(t);
    for (uint32_t i = 0; i < 5 && done; i++)
        done = timed(t, run_ours, &ours[0], &our_host[0]) &&
               timed(t, run_theirs, &theirs[0], &their_host[0]);
    done = done && agree(t);
    for (uint32_t i = 0; i < ROUNDS && done; i++)
        done = timed(t, run_ours, &ours[i], &our_host[i]) &&
               timed(t, run_theirs, &theirs[i], &their_host[i]);
    if (done) {
        const double own_ms = group_median(ours, ROUNDS), their_ms = group_median(theirs, ROUNDS);
        printf("  %-28s %7.4f ms %6.2f TFLOP/s (calls %5.0f us)   cuBLAS, %4d groups %7.4f ms "
               "%6.2f (%5.0f us)   ratio %.2f\n",
               name, own_ms, t->flops / own_ms * 1e-9, group_median(our_host, ROUNDS), t->groups,
               their_ms, t->flops / their_ms * 1e-9, group_median(their_host, ROUNDS),
               their_ms / own_ms);
    }
    (void)cudaFree(t->memory);
    (void)cudaFree((void *)t->pointers);
    free(t->host);
    t->memory = t->host = NULL;
    t->pointers = NULL;
    return done;
}

bool group_time_throughput(struct group_bench *bench)
{
    struct throughput *t = calloc(1, sizeof *t);
    uint64_t seed = 3;
    if (t == NULL)
        return false;
    t->bench = bench;
    bool done = cublasCreate(&t->blas) == CUBLAS_STATUS_SUCCESS &&
                cublasSetStream(t->blas, bench->stream) == CUBLAS_STATUS_SUCCESS &&
                group_succeeded(cudaEventCreate(&t->begun), "cudaEventCreate") &&
                group_succeeded(cudaEventCreate(&t->ended), "cudaEventCreate");
    printf("%d products in one launch from device memory, f32, medians of %d:\n", PRODUCTS, ROUNDS);
    static const uint32_t uniform[] = {16, 32, 64, 128, 256};
    for (unsigned i = 0; i < sizeof uniform / sizeof uniform[0] && done; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u³", uniform[i]);
        draw_uniform(t->sides, uniform[i]);
        done = measure(t, name);
    }
    if (done) {
        draw_mixed(t->sides, &seed);
        done = measure(t, "any sides of 16...256");
    }
    if (done) {
        draw_few(t->sides, &seed);
        done = measure(t, "cubes of 16, 32, ... 256");
    }
    if (done) {
        draw_skewed(t->sides, &seed);
        done = measure(t, "16...31, 1 in 40 of 256³");
    }
    if (t->blas != NULL)
        (void)cublasDestroy(t->blas);
    (void)cudaEventDestroy(t->begun);
    (void)cudaEventDestroy(t->ended);
    free(t);
    return done;
}
