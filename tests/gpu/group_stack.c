/*
 * Rows stacked on one B in device memory, read from and written to mapped host memory: the bytes of
 * each request alone, by the kernel that "auto" gives to it; and how long a stack takes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/stacked.h"
#include "proto/dtype.h"
#include "tests/gpu/group_check.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { REQUESTS_MAX = 512, GUARD = 256 };
static const uint64_t WORKSPACE_BYTES = UINT64_C(256) << 20;

struct stack {
    struct group_bench *bench;
    const struct operation_kernel *kernel;
    struct product product;
    struct gemm_problem problem;                /* B and bias in device memory, the rest mapped */
    struct gemm_problem requests[REQUESTS_MAX]; /* some rows each */
    struct operation_member members[REQUESTS_MAX];
    uint32_t count;
    unsigned char *mapped[PRODUCT_PARTS], *device[PRODUCT_PARTS];
    unsigned char *alone, *workspace;
    double *residuals; /* of the rows of a stack that is checked; pinned [REQUESTS_MAX] */
    uint64_t seed;
};

/* All parts in both memories. */
static bool place(struct stack *s)
{
    s->problem = s->product.problem;
    struct gemm_problem *p = &s->problem;
    for (unsigned part = 0; part < PRODUCT_PARTS; part++) {
        const struct product_buffer *buffer = &s->product.buffers[part];
        if (buffer->data == NULL)
            continue;
        if (!group_succeeded(
                cudaHostAlloc((void **)&s->mapped[part], buffer->bytes, cudaHostAllocMapped),
                "cudaHostAlloc") ||
            !group_succeeded(cudaMalloc((void **)&s->device[part], buffer->bytes), "cudaMalloc") ||
            !group_copy(s->mapped[part], buffer->data, buffer->bytes) ||
            !group_copy(s->device[part], buffer->data, buffer->bytes))
            return false;
        unsigned char *from =
            (part == PRODUCT_B || part == PRODUCT_BIAS ? s->device : s->mapped)[part] +
            buffer->offset;
        const void **operands[] = {&p->a, &p->b, &p->bias, &p->c0};
        if (part == PRODUCT_C)
            p->c = from;
        else
            *operands[part] = from;
    }
    s->alone = malloc(s->product.buffers[PRODUCT_C].bytes);
    return s->alone != NULL;
}

static void clear(struct stack *s)
{
    for (unsigned part = 0; part < PRODUCT_PARTS; part++) {
        (void)cudaFreeHost(s->mapped[part]);
        (void)cudaFree(s->device[part]);
        s->mapped[part] = s->device[part] = NULL;
    }
    free(s->alone);
    s->alone = NULL;
    product_destroy(&s->product);
}

static void cut(struct stack *s, uint64_t most)
{
    const struct gemm_problem *p = &s->problem;
    const uint64_t in = dtype_size(p->dtype), out = dtype_size(p->out);
    s->count = 0;
    for (uint64_t first = 0; first < p->m && s->count < REQUESTS_MAX;) {
        const uint64_t drawn = 1 + random_next(&s->seed) % most;
        const uint64_t some = drawn < p->m - first ? drawn : p->m - first;
        struct gemm_problem *request = &s->requests[s->count];
        *request = *p;
        request->m = some;
        request->a = (const char *)p->a + first * p->lda * in;
        request->c0 = p->c0 != NULL ? (const char *)p->c0 + first * p->ldc0 * out : NULL;
        request->c = (char *)p->c + first * p->ldc * out;
        s->members[s->count++] = (struct operation_member){request, NULL};
        first += some;
    }
}

/* As the daemon computes a request that is alone: operands contiguous at multiples of 256 bytes in
 * device memory, and copies each way. */
static bool run_alone(struct stack *s, const struct gemm_problem *rows)
{
    struct gemm_problem p = *rows;
    const uint64_t in = dtype_size(p.dtype), out = dtype_size(p.out);
    unsigned char *at = s->workspace;
    p.lda = p.k;
    p.ldc0 = p.ldc = p.n;
    p.a = at;
    at += (p.m * p.k * in + 255) / 256 * 256;
    p.c0 = rows->c0 != NULL ? at : NULL;
    at += (p.m * p.n * out + 255) / 256 * 256;
    p.c = at;
    at += (p.m * p.n * out + 255) / 256 * 256;
    cudaStream_t stream = s->bench->stream;
    cudaError_t error = cudaMemcpy2DAsync((void *)(uintptr_t)p.a, p.k * in, rows->a, rows->lda * in,
                                          p.k * in, p.m, cudaMemcpyDefault, stream);
    if (error == cudaSuccess && p.c0 != NULL)
        error = cudaMemcpy2DAsync((void *)(uintptr_t)p.c0, p.n * out, rows->c0, rows->ldc0 * out,
                                  p.n * out, p.m, cudaMemcpyDefault, stream);
    if (error == cudaSuccess && operation_run(s->kernel, s->bench->context, &p, at) != GEMMD_OK)
        error = cudaErrorLaunchFailure;
    if (error == cudaSuccess)
        error = cudaMemcpy2DAsync(rows->c, rows->ldc * out, p.c, p.n * out, p.n * out, p.m,
                                  cudaMemcpyDefault, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    return group_succeeded(error, "a request alone");
}

static void poison(struct stack *s)
{
    product_poison(&s->product);
    memcpy(s->mapped[PRODUCT_C], s->product.buffers[PRODUCT_C].data,
           s->product.buffers[PRODUCT_C].bytes);
}

/* Runs the stack with its check. Every row must pass. */
static bool run_stacked(struct stack *s, uint64_t bytes)
{
    const struct operation_check all_rows = {.seed = random_next(&s->seed),
                                             .residuals = s->residuals};
    unsigned char guard[GUARD];
    for (uint64_t i = 0; i < s->problem.m; i++)
        s->residuals[i] = (double)NAN;
    if (!group_succeeded(cudaMemsetAsync(s->workspace, 0xff, bytes + GUARD, s->bench->stream),
                         "cudaMemset") ||
        gemm_stacked(s->bench->context, s->kernel, s->members, s->count, &all_rows, s->workspace) !=
            GEMMD_OK ||
        !group_succeeded(cudaStreamSynchronize(s->bench->stream), "a stack") ||
        !group_copy(guard, s->workspace + bytes, GUARD))
        return false;
    for (unsigned i = 0; i < GUARD; i++)
        if (guard[i] != 0xff) {
            printf("FAILED: byte %u beyond a stack's workspace was written\n", i);
            return false;
        }
    for (uint64_t i = 0; i < s->problem.m; i++)
        if (!(s->residuals[i] >= 0 && s->residuals[i] <= 1)) {
            printf("FAILED: row %" PRIu64 " of a stack has the residual %g\n", i, s->residuals[i]);
            return false;
        }
    return true;
}

static bool check(struct stack *s, const struct gemm_problem *like, uint64_t gap, uint64_t most)
{
    char what[256], text[256];
    struct fault fault = {.detail = ""};
    int major = 0, minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    const struct gemm_device device = {.backend = GEMM_BACKEND_CUDA,
                                       .compute_capability = (uint32_t)(10 * major + minor)};
    if (!product_create(&s->product, like, gap, PRODUCT_UNIFORM, random_next(&s->seed)))
        return false;
    bool right = false;
    uint64_t bytes;
    product_describe(&s->product.problem, what, sizeof what);
    if (!place(s) ||
        operation_select(&operation_gemm, &device, "auto", &s->problem, &s->kernel, &fault) !=
            GEMMD_OK ||
        !gemm_can_stack(s->kernel, &s->problem) ||
        !gemm_stacked_bytes(s->kernel, &s->problem, &bytes) || bytes + GUARD > WORKSPACE_BYTES) {
        printf("FAILED: %s: no stack by %s\n", what,
               s->kernel != NULL ? s->kernel->name : fault.detail);
        goto out;
    }
    cut(s, most);
    struct product_buffer *c = &s->product.buffers[PRODUCT_C];
    poison(s);
    for (uint32_t i = 0; i < s->count; i++)
        if (!run_alone(s, &s->requests[i]))
            goto out;
    memcpy(s->alone, s->mapped[PRODUCT_C], c->bytes);
    poison(s);
    if (!run_stacked(s, bytes))
        goto out;
    memcpy(c->data, s->mapped[PRODUCT_C], c->bytes);
    right = memcmp(c->data, s->alone, c->bytes) == 0;
    if (!right)
        printf("FAILED: %s: other bytes in a stack of %" PRIu32 " by %s\n", what, s->count,
               s->kernel->name);
    else if (!product_check(&s->product, product_sum_error(like->dtype, like->k), NULL, text,
                            sizeof text)) {
        printf("FAILED: %s: %s\n", what, text);
        right = false;
    }
out:
    clear(s);
    return right;
}

static void close_stack(struct stack *s)
{
    (void)cudaFreeHost(s->residuals);
    (void)cudaFree(s->workspace);
    free(s);
}

static struct stack *open_stack(struct group_bench *bench)
{
    struct stack *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->bench = bench;
    s->seed = 41;
    if (group_succeeded(cudaMalloc((void **)&s->workspace, WORKSPACE_BYTES), "cudaMalloc") &&
        group_succeeded(cudaHostAlloc((void **)&s->residuals, REQUESTS_MAX * sizeof *s->residuals,
                                      cudaHostAllocMapped),
                        "cudaHostAlloc"))
        return s;
    close_stack(s);
    return NULL;
}

void group_check_stacks(struct group_bench *bench, uint64_t *passed, uint64_t *failed)
{
    static const struct {
        enum gemmd_dtype dtype, out;
        uint64_t m, n, k, most;
        bool transb, with_bias;
        double beta;
    } cases[] = {
        {GEMMD_BF16, GEMMD_BF16, 128, 512, 1024, 1, false, false, 0},
        {GEMMD_BF16, GEMMD_BF16, 130, 520, 304, 3, true, true, 0},
        {GEMMD_BF16, GEMMD_F32, 77, 333, 777, 5, false, true, 2},
        {GEMMD_F16, GEMMD_F16, 257, 259, 1001, 9, true, false, -1},
        {GEMMD_F8_E4M3, GEMMD_BF16, 40, 300, 500, 2, false, true, 0},
        {GEMMD_BF16, GEMMD_BF16, 300, 264, 72, 1, false, false, 1},
        {GEMMD_F32, GEMMD_F32, 33, 100, 90, 4, false, true, 1},
        {GEMMD_I8, GEMMD_I32, 20, 40, 60, 2, true, false, 0},
        {GEMMD_F64, GEMMD_F64, 9, 33, 65, 2, false, true, 1},
    };
    static const char bias; /* its address says that there is one */
    struct stack *s = open_stack(bench);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned gap = 0; gap < 2; gap++) {
            const struct gemm_problem like = {.dtype = cases[i].dtype,
                                              .out = cases[i].out,
                                              .m = cases[i].m,
                                              .n = cases[i].n,
                                              .k = cases[i].k,
                                              .batch = 1,
                                              .alpha = 1,
                                              .beta = cases[i].beta,
                                              .bias = cases[i].with_bias ? &bias : NULL,
                                              .act = GEMM_ACT_NONE,
                                              .transb = cases[i].transb};
            (*(s != NULL && check(s, &like, gap, cases[i].most) ? passed : failed))++;
        }
    if (s != NULL)
        close_stack(s);
}

/* The time of a stack from the call to the end, in microseconds; negative if the stack fails. */
static double time_stack(struct stack *s, uint32_t count, const struct operation_check *check)
{
    enum { RUNS = 301 };
    double times[RUNS];
    for (unsigned run = 0; run < RUNS; run++) {
        const double begun_us = group_now_us();
        if (gemm_stacked(s->bench->context, s->kernel, s->members, count, check, s->workspace) !=
                GEMMD_OK ||
            !group_succeeded(cudaStreamSynchronize(s->bench->stream), "a stack"))
            return -1;
        times[run] = group_now_us() - begun_us;
    }
    return group_median(times, RUNS);
}

/* bf16, one row each on a B of 4096 x 4096, without and with the check of all rows. */
bool group_time_stacks(struct group_bench *bench)
{
    enum { SIDE = 4096, MOST = 256 };
    static const uint32_t counts[] = {1, 16, 64, 128, 256};
    struct stack *s = open_stack(bench);
    uint16_t *rows = NULL, *b = NULL;
    bool done = s != NULL &&
                group_succeeded(cudaHostAlloc((void **)&rows, 2 * MOST * SIDE * sizeof *rows,
                                              cudaHostAllocMapped),
                                "cudaHostAlloc") &&
                group_succeeded(cudaMalloc((void **)&b, SIDE * SIDE * sizeof *b), "cudaMalloc");
    for (uint64_t i = 0; done && i < 2 * MOST * SIDE; i++)
        rows[i] = (uint16_t)(0x3c00 + random_next(&s->seed) % 0x400);
    for (uint64_t i = 0; done && i < SIDE; i++)
        done = group_copy(b + i * SIDE, rows + i % MOST * SIDE, SIDE * sizeof *b);
    if (done)
        printf("rows of bf16 stacked on a B of 4096 x 4096, from and to host memory, medians:\n");
    for (unsigned c = 0; c < sizeof counts / sizeof counts[0] && done; c++) {
        struct gemm_problem p = {.dtype = GEMMD_BF16,
                                 .out = GEMMD_BF16,
                                 .m = counts[c],
                                 .n = SIDE,
                                 .k = SIDE,
                                 .batch = 1,
                                 .alpha = 1,
                                 .b = b};
        const struct gemm_device device = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};
        gemm_problem_contiguous(&p);
        done = operation_select(&operation_gemm, &device, "auto", &p, &s->kernel, NULL) == GEMMD_OK;
        for (uint32_t i = 0; i < counts[c]; i++) {
            struct gemm_problem *request = &s->requests[i];
            *request = p;
            request->m = 1;
            request->a = rows + i * SIDE;
            request->c = rows + (MOST + i) * SIDE;
            s->members[i] = (struct operation_member){request, NULL};
        }
        if (!done)
            break;
        const struct operation_check check = {.seed = 1, .residuals = s->residuals};
        const double us = time_stack(s, counts[c], NULL);
        const double checked_us = time_stack(s, counts[c], &check);
        done = us > 0 && checked_us > 0;
        printf("  %3u requests %7.1f us, %9.0f rows/s by %s; verified %7.1f us, %.2f times\n",
               counts[c], us, counts[c] / us * 1e6, s->kernel->name, checked_us, checked_us / us);
    }
    (void)cudaFreeHost(rows);
    (void)cudaFree(b);
    if (s != NULL)
        close_stack(s);
    return done;
}
