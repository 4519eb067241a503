/* f32 with precision full: the error of each kernel against f64, next to that of a chain of FMAs,
 * which the kernel `naive` is. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "tests/bench/device.h"
#include "tests/bench/served.h"
#include "tests/product/random.h"

enum { SIDE = 256, K_MAX = 8192, OPERANDS = 8 };

static double uniform(uint64_t *seed)
{
    return (double)(random_next(seed) >> 11) * 0x1p-53;
}

static double sign(uint64_t *seed)
{
    return random_next(seed) & 1 ? 1 : -1;
}

static const char *const NAMES[OPERANDS] = {
    "uniform in [-1, 1]",  "uniform in [0, 1]",
    "pairs that cancel",   "halves that cancel",
    "exponents -40 to 40", "one in 16 not 0",
    "2^-140 times 2^120",  "2^100 times 2^27, halves that cancel",
};

/* The element of k `i` of a line of op(A) or op(B); `previous` is the line's element i - 1, `half`
 * the one k/2 before (NULL in the first half). */
static double element(int kind, bool of_a, uint64_t i, uint64_t k, const float *line,
                      uint64_t *seed)
{
    const bool odd = i % 2 == 1, second = i >= k / 2 && k > 1 && k % 2 == 0;
    switch (kind) {
    case 1:
        return uniform(seed);
    case 2: /* a b - a b (1 + small) */
        if (odd)
            return of_a ? -(double)line[i - 1]
                        : (double)line[i - 1] * (1 + 0x1p-14 * uniform(seed));
        return 2 * uniform(seed) - 1;
    case 3:
        if (second)
            return of_a ? -(double)line[i - k / 2]
                        : (double)line[i - k / 2] * (1 + 0x1p-14 * uniform(seed));
        return uniform(seed);
    case 4:
        return sign(seed) * exp2(80 * uniform(seed) - 40);
    case 5:
        return random_next(seed) % 16 == 0 || i == 0 ? 2 * uniform(seed) - 1 : 0;
    case 6:
        return sign(seed) * (1 + uniform(seed)) * (of_a ? 0x1p-140 : 0x1p120);
    case 7:
        if (second)
            return of_a ? -(double)line[i - k / 2] : (double)line[i - k / 2];
        return (1 + uniform(seed)) * (of_a ? 0x1p100 : 0x1p27);
    default:
        return 2 * uniform(seed) - 1;
    }
}

static void fill(float *data, int kind, bool of_a, uint64_t k, uint64_t *seed)
{
    for (uint64_t line = 0; line < SIDE; line++) {
        for (uint64_t i = 0; i < k; i++) {
            data[line * k + i] = (float)element(kind, of_a, i, k, data + line * k, seed);
        }
    }
}

/* Largest and mean square error against the sums in f64; infinite where one is a number and the
 * other is not. */
static void errors(const float *got, const double *wanted, double *largest, double *squares)
{
    *largest = *squares = 0;
    for (uint64_t i = 0; i < (uint64_t)SIDE * SIDE; i++) {
        const bool finite = fabs(wanted[i]) <= 0x1.fffffep127;
        double error = fabs((double)got[i] - wanted[i]);
        if (!finite || !isfinite(got[i])) {
            error = finite == (bool)isfinite(got[i]) ? 0 : INFINITY;
        }
        *largest = fmax(*largest, error);
        *squares += error * error;
    }
    *squares = sqrt(*squares / ((double)SIDE * SIDE));
}

struct error_bench {
    struct gemm_context *context;
    cudaStream_t stream;
    float *a, *b, *c; /* host */
    double *wanted;   /* host */
    void *device_a, *device_b, *device_c, *workspace;
    double *reference; /* device */
};

static bool run(const struct error_bench *e, const char *name, uint64_t k, double *largest,
                double *squares)
{
    const struct operation_kernel *const *kernel =
        operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
    struct gemm_problem problem = {.dtype = GEMMD_F32,
                                   .out = GEMMD_F32,
                                   .transb = true,
                                   .m = SIDE,
                                   .n = SIDE,
                                   .k = k,
                                   .batch = 1,
                                   .alpha = 1,
                                   .a = e->device_a,
                                   .b = e->device_b,
                                   .c = e->device_c};
    gemm_problem_contiguous(&problem);
    while (*kernel != NULL && strcmp((*kernel)->name, name) != 0) {
        kernel++;
    }
    if (*kernel == NULL || operation_run(*kernel, e->context, &problem, e->workspace) != GEMMD_OK ||
        cudaStreamSynchronize(e->stream) != cudaSuccess ||
        cudaMemcpy(e->c, e->device_c, SIDE * SIDE * sizeof(float), cudaMemcpyDeviceToHost) !=
            cudaSuccess) {
        return false;
    }
    errors(e->c, e->wanted, largest, squares);
    return true;
}

static bool compare(const struct error_bench *e, int kind, uint64_t k, uint64_t *seed, FILE *to)
{
    static const char *const kernels[] = {"naive", "wgmma", "cublas"};
    const uint64_t bytes = SIDE * k * sizeof(float);
    double largest[3], squares[3];
    fill(e->a, kind, true, k, seed);
    fill(e->b, kind, false, k, seed);
    const struct bench_product product = {.dtype = GEMMD_F32,
                                          .out = GEMMD_F32,
                                          .transb = 1,
                                          .m = SIDE,
                                          .n = SIDE,
                                          .k = k,
                                          .batch = 1,
                                          .lda = k,
                                          .ldb = k,
                                          .alpha = 1,
                                          .a = e->device_a,
                                          .b = e->device_b};
    if (cudaMemcpy(e->device_a, e->a, bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaMemcpy(e->device_b, e->b, bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
        bench_reference(&product, e->reference) != cudaSuccess ||
        cudaMemcpy(e->wanted, e->reference, SIDE * SIDE * sizeof(double), cudaMemcpyDeviceToHost) !=
            cudaSuccess) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!run(e, kernels[i], k, &largest[i], &squares[i])) {
            return false;
        }
    }
    fprintf(to, "| %s | %llu | %.2e | %.2f | %.2f | %.2e | %.2f | %.2f |\n", NAMES[kind],
            (unsigned long long)k, largest[0], largest[1] / largest[0], largest[2] / largest[0],
            squares[0], squares[1] / squares[0], squares[2] / squares[0]);
    return true;
}

int bench_error(const char *out)
{
    static struct error_bench e; /* the process ends with it */
    struct fault fault = {.detail = "no CUDA device"};
    const uint64_t operand = (uint64_t)SIDE * K_MAX * sizeof(float);
    const uint64_t workspace = 256 << 20;
    uint64_t seed = 20261121;
    e.a = malloc(operand);
    e.b = malloc(operand);
    e.c = malloc(SIDE * SIDE * sizeof(float));
    e.wanted = malloc(SIDE * SIDE * sizeof(double));
    bool good =
        e.a && e.b && e.c && e.wanted &&
        cudaStreamCreateWithFlags(&e.stream, cudaStreamNonBlocking) == cudaSuccess &&
        gemm_context_create(GEMM_BACKEND_CUDA, e.stream, 0, &e.context, &fault) == GEMMD_OK &&
        cudaMalloc(&e.device_a, operand) == cudaSuccess &&
        cudaMalloc(&e.device_b, operand) == cudaSuccess &&
        cudaMalloc(&e.device_c, SIDE * SIDE * sizeof(float)) == cudaSuccess &&
        cudaMalloc((void **)&e.reference, SIDE * SIDE * sizeof(double)) == cudaSuccess &&
        cudaMalloc(&e.workspace, workspace) == cudaSuccess;
    FILE *to = out != NULL ? fopen(out, "w") : stdout;
    if (!good || to == NULL) {
        fprintf(stderr, "gemmd-bench: %s\n", to == NULL ? out : fault.detail);
        return 1;
    }
    fprintf(to, "| operands | k | largest error of a chain | wgmma / chain | cublas / chain |"
                " root mean square of a chain | wgmma / chain | cublas / chain |\n"
                "|---|---|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < OPERANDS && good; kind++) {
        static const uint64_t depths[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 8192};
        for (size_t i = 0; i < sizeof depths / sizeof *depths && good; i++) {
            good = compare(&e, kind, depths[i], &seed, to);
        }
    }
    fputc('\n', to);
    good = bench_error_f8(to) == 0 && good;
    if (out != NULL) {
        fclose(to);
    }
    return good ? 0 : 1; /* the process ends here, and with it all that is still open */
}
