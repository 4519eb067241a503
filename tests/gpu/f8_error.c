/* The error of f8_e4m3 with precision f8, as proto/PROTOCOL.md states it. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/context.h"
#include "proto/dtype.h"
#include "tests/gpu/gemm_check.h"
#include "tests/product/random.h"

enum { SIDE = 128, K_MAX = 16384 };

struct f8_case {
    struct gemm_context *context;
    cudaStream_t stream;
    const struct operation_kernel *kernel;
    uint8_t *a, *b;     /* host, SIDE lines of k */
    float *c;           /* host */
    double *line_a;     /* a line of A as numbers */
    double *lines_b;    /* all of B as numbers */
    void *on_device[3]; /* A, B, C */
};

/* The f8_e4m3 number nearest to x, |x| <= 1, and never NaN. */
static uint8_t rounded(double x)
{
    const double magnitude = fabs(x);
    int exponent = 0;
    (void)frexp(magnitude, &exponent);
    const int least = magnitude < 0x1p-6 ? -6 : exponent - 1; /* steps are no smaller below */
    const int steps = (int)lrint(magnitude * exp2(3 - least));
    const int bits = (least + 6) * 8 + steps; /* a carry goes into the exponent */
    return (uint8_t)(bits | (x < 0 ? 0x80 : 0));
}

static double number(uint8_t f8)
{
    const int exponent = f8 >> 3 & 15, mantissa = f8 & 7;
    const double magnitude =
        exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    return f8 & 0x80 ? -magnitude : magnitude;
}

static void fill(uint8_t *data, uint64_t count, bool positive, uint64_t *seed)
{
    for (uint64_t i = 0; i < count; i++) {
        const double x = (double)(random_next(seed) >> 11) * 0x1p-53;
        data[i] = rounded(positive ? x : 2 * x - 1);
    }
}

/* The root mean square of the errors, relative to that of the results. Negative: the product could
 * not be computed. */
static double error_of(struct f8_case *f, bool positive, uint64_t k)
{
    struct gemm_problem p = {.dtype = GEMMD_F8_E4M3,
                             .out = GEMMD_F32,
                             .precision = GEMM_PRECISION_F8,
                             .transb = true,
                             .m = SIDE,
                             .n = SIDE,
                             .k = k,
                             .batch = 1,
                             .alpha = 1,
                             .a = f->on_device[0],
                             .b = f->on_device[1],
                             .c = f->on_device[2]};
    uint64_t seed = 31 * k + positive, bytes = 0;
    void *workspace = NULL;
    gemm_problem_contiguous(&p);
    fill(f->a, SIDE * k, positive, &seed);
    fill(f->b, SIDE * k, positive, &seed);
    bool done =
        f->kernel->takes(&p) && f->kernel->workspace_bytes(&p, &bytes) &&
        cudaMalloc(&workspace, bytes + 1) == cudaSuccess &&
        cudaMemcpy(f->on_device[0], f->a, SIDE * k, cudaMemcpyHostToDevice) == cudaSuccess &&
        cudaMemcpy(f->on_device[1], f->b, SIDE * k, cudaMemcpyHostToDevice) == cudaSuccess &&
        /* A copy of up to 64 KiB may still be on its way, and the stream waits for no other. */
        cudaDeviceSynchronize() == cudaSuccess &&
        operation_run(f->kernel, f->context, &p, workspace) == GEMMD_OK &&
        cudaStreamSynchronize(f->stream) == cudaSuccess &&
        cudaMemcpy(f->c, f->on_device[2], SIDE * SIDE * sizeof(float), cudaMemcpyDeviceToHost) ==
            cudaSuccess;
    cudaFree(workspace);
    if (!done)
        return -1;
    double errors = 0, results = 0;
    for (uint64_t i = 0; i < SIDE * k; i++)
        f->lines_b[i] = number(f->b[i]);
    for (uint64_t i = 0; i < SIDE; i++) {
        for (uint64_t l = 0; l < k; l++)
            f->line_a[l] = number(f->a[i * k + l]);
        for (uint64_t j = 0; j < SIDE; j++) {
            double sum = 0;
            for (uint64_t l = 0; l < k; l++)
                sum += f->line_a[l] * f->lines_b[j * k + l];
            const double error = (double)f->c[i * SIDE + j] - sum;
            errors += error * error;
            results += sum * sum;
        }
    }
    return sqrt(errors / results);
}

static void check_case(struct f8_case *f, bool positive, uint64_t k, uint64_t *passed,
                       uint64_t *failed)
{
    const double bound = positive ? 5.5e-4 : 1.2e-4, error = error_of(f, positive, k);
    const bool right = error >= 0 && error <= bound;
    printf("f8 in %s, k %" PRIu64 ": error %.2e, at most %.1e%s\n", positive ? "[0, 1]" : "[-1, 1]",
           k, error, bound, right ? "" : ", FAILED");
    *(right ? passed : failed) += 1;
}

void gemm_check_f8_error(const struct gemm_device *device, struct gemm_context *context,
                         void *stream, uint64_t *passed, uint64_t *failed)
{
    static const uint64_t depths[] = {257, 384, 1000, 4096, K_MAX};
    struct f8_case f = {.context = context, .stream = stream, .kernel = &gemm_cuda_wgmma};
    if (!operation_kernel_runs_on(&operation_gemm, f.kernel, device))
        return;
    f.a = malloc(SIDE * K_MAX);
    f.b = malloc(SIDE * K_MAX);
    f.c = malloc(SIDE * SIDE * sizeof(float));
    f.line_a = malloc(K_MAX * sizeof(double));
    f.lines_b = malloc(SIDE * K_MAX * sizeof(double));
    bool there = f.a && f.b && f.c && f.line_a && f.lines_b;
    for (int i = 0; i < 3 && there; i++)
        there = cudaMalloc(&f.on_device[i], SIDE * K_MAX) == cudaSuccess;
    *failed += !there;
    for (size_t i = 0; i < sizeof depths / sizeof *depths && there; i++) {
        check_case(&f, false, depths[i], passed, failed);
        check_case(&f, true, depths[i], passed, failed);
    }
    for (int i = 0; i < 3; i++)
        cudaFree(f.on_device[i]);
    free(f.a);
    free(f.b);
    free(f.c);
    free(f.line_a);
    free(f.lines_b);
}
