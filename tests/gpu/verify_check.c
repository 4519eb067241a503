/*
 * gemmd-gpu-verify-check - the check of products on the GPU (kernels/cuda/freivalds) against the
 * check on the host, which must have the same residual.
 *
 * Types x transposes x scalars x bias x batches x odd sizes, with and without gaps between rows,
 * with NaN and infinity among the operands; each product as it was computed, and with faults
 * planted in C: a flipped bit, another element's value, a NaN. Small products are also checked
 * together in one launch. One line for each pair of types; exit status 1 if anything is wrong.
 *   --time  prints instead how long the check takes next to the product, for squares of several
 *           sizes and types
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/freivalds/freivalds.h"
#include "kernels/freivalds.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/device_product.h"
#include "tests/gpu/streams.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { FAULTS = 4, OPTIONS_STEP = 5 };

/* How far the residuals may be from each other: both checks round in f64, in another order, and the
 * bound includes what such rounding explains. Relative to residuals above 1. */
static const double TOLERANCE = 0.05;

static unsigned passed, failed, smalls;
static struct gemm_context *host_context;

static bool succeeded(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        printf("%s: %s\n", what, cudaGetErrorString(error));
    return error == cudaSuccess;
}

/* The largest residual by the device, and those of the rows; negative if that failed. */
static double device_residual(const struct gemm_problem *problem, uint64_t seed,
                              cudaStream_t stream, double *rows)
{
    unsigned char *workspace = NULL;
    uint64_t bytes;
    double residual = -1;
    if (!freivalds_bytes(problem, &bytes) ||
        !succeeded(cudaMalloc((void **)&workspace, bytes), "cudaMalloc"))
        return -1;
    /* The workspace need not be zeros. */
    if (!succeeded(cudaMemsetAsync(workspace, 0xff, bytes, stream), "cudaMemset") ||
        freivalds_launch(stream, problem, seed, NULL, workspace) != GEMMD_OK ||
        !succeeded(
            cudaMemcpyAsync(&residual, workspace, sizeof residual, cudaMemcpyDeviceToHost, stream),
            "the copy of the residual") ||
        !succeeded(cudaMemcpyAsync(rows, workspace + FREIVALDS_ROWS_OFFSET,
                                   problem->batch * problem->m * sizeof *rows,
                                   cudaMemcpyDeviceToHost, stream),
                   "the copy of the residuals of rows") ||
        !succeeded(cudaStreamSynchronize(stream), "the check"))
        residual = -1;
    (void)cudaFree(workspace);
    return residual;
}

/* The residual by the check of small products, among others that are wrong in another way; negative
 * if that failed. */
static double small_residual(const struct gemm_problem *problem, uint64_t seed, cudaStream_t stream)
{
    enum { COUNT = 3, MINE = 1 };
    static struct operation_small_check *checks; /* pinned, to the end of the program */
    if (checks == NULL &&
        !succeeded(cudaMallocHost((void **)&checks, COUNT * sizeof *checks), "cudaMallocHost"))
        return -1;
    for (int i = 0; i < COUNT; i++)
        checks[i] =
            (struct operation_small_check){.problem.gemm = *problem, .seed = seed, .residual = -1};
    checks[0].problem.gemm.m = checks[2].problem.gemm.n = 1;
    if (freivalds_small_launch(stream, checks, COUNT) != GEMMD_OK ||
        !succeeded(cudaStreamSynchronize(stream), "the check of small products"))
        return -1;
    return checks[MINE].residual;
}

static bool agree(double host, double device)
{
    if (isinf(host) || isinf(device))
        return isinf(host) && isinf(device) && device > 0;
    return device >= 0 && fabs(host - device) <= TOLERANCE * fmax(1, host);
}

static void compare(const struct product *product, const struct device_product *device,
                    uint64_t seed, const char *what)
{
    char text[256];
    const uint64_t rows = product->problem.batch * product->problem.m;
    double *of_host = malloc(rows * sizeof *of_host), *of_device = malloc(rows * sizeof *of_device);
    double host = -2, found = -1;
    bool same = of_host != NULL && of_device != NULL;
    if (same) {
        host = product_residual(host_context, &product->problem, seed, of_host);
        found = device_residual(&device->problem, seed, device->stream, of_device);
        same = agree(host, found);
    }
    for (uint64_t i = 0; i < rows && same; i++)
        if (!agree(of_host[i], of_device[i])) {
            same = false;
            host = of_host[i], found = of_device[i];
        }
    if (same && operation_gemm.is_small(&product->problem) &&
        operation_gemm.can_check_small(&product->problem)) {
        smalls++;
        found = small_residual(&device->problem, seed, device->stream);
        same = agree(host, found);
    }
    free(of_host);
    free(of_device);
    if (same) {
        passed++;
        return;
    }
    if (failed++ < 8) {
        product_describe(&product->problem, text, sizeof text);
        printf("first: %s: %s: the host has %g and the device %g\n", text, what, host, found);
    }
}

/* Plants a fault in C, on the host and on the device. Returns what it is. */
static const char *plant(struct product *product, const struct device_product *device,
                         unsigned number, uint64_t *seed)
{
    struct product_buffer *c = &product->buffers[PRODUCT_C];
    const struct gemm_problem *p = &product->problem;
    const uint64_t size = dtype_size(p->out);
    const uint64_t at = random_next(seed) % p->batch * p->stride_c +
                        random_next(seed) % p->m * p->ldc + random_next(seed) % p->n;
    unsigned char *element = (unsigned char *)p->c + at * size;
    const char *what = "a flipped bit";
    if (number == 2) {
        what = "another element";
        memcpy(element, p->c, size);
    } else if (number == 3) {
        what = "a NaN";
        memset(element, 0xff, size);
    } else {
        const uint64_t bit = random_next(seed) % (8 * size);
        element[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    (void)succeeded(
        cudaMemcpy(device->memory[PRODUCT_C], c->data, c->bytes, cudaMemcpyHostToDevice),
        "the copy of a fault");
    /* A copy of up to 64 KiB may still be on its way, and the stream waits for no other. */
    (void)succeeded(cudaDeviceSynchronize(), "the copy of a fault");
    return what;
}

static void check_one(const struct gemm_problem *like, uint64_t gap, enum product_fill fill,
                      uint64_t *seed, const struct test_stream *stream)
{
    const struct gemm_device gpu = streams_device();
    const struct operation_kernel *kernel;
    struct product product;
    struct device_product device;
    char why[512];
    if (!product_create(&product, like, gap, fill, random_next(seed))) {
        failed++;
        return;
    }
    if (operation_select(&operation_gemm, &gpu, "auto", &product.problem, &kernel, NULL) !=
        GEMMD_OK) {
        product_destroy(&product);
        return;
    }
    if (device_product_create(&device, &product, false, stream->stream) &&
        device_product_run(&device, &product, kernel, stream->context, 1, why, sizeof why)) {
        compare(&product, &device, random_next(seed), "as computed");
        for (unsigned i = 0; i < FAULTS; i++) {
            const char *what = plant(&product, &device, i, seed);
            compare(&product, &device, random_next(seed), what);
        }
    } else {
        failed++;
        printf("first: %s\n", why);
    }
    device_product_destroy(&device);
    product_destroy(&product);
}

static void check_types(struct case_types types, const struct test_stream *stream)
{
    static const uint64_t sides[] = {1, 3, 31, 64, 65, 255, 300, 1030};
    static const enum product_fill fills[] = {PRODUCT_UNIFORM, PRODUCT_UNIFORM, PRODUCT_SPECIAL,
                                              PRODUCT_EXTREME};
    uint64_t seed = 7;
    const unsigned good = passed, bad = failed;
    for (uint32_t number = 0; number < case_options_count(); number += OPTIONS_STEP) {
        struct gemm_problem like = {.dtype = types.dtype,
                                    .out = types.out,
                                    .m = sides[random_next(&seed) % 8],
                                    .n = sides[random_next(&seed) % 8],
                                    .k = sides[random_next(&seed) % 8]};
        if (!case_set_options(&like, number) || like.act != GEMM_ACT_NONE)
            continue;
        check_one(&like, random_next(&seed) % 3, fills[random_next(&seed) % 4], &seed, stream);
    }
    if (types.dtype == GEMMD_I8) { /* sums that wrap */
        const struct gemm_problem like = {.dtype = types.dtype,
                                          .out = types.out,
                                          .m = 3,
                                          .n = 5,
                                          .k = 140000,
                                          .alpha = 1,
                                          .batch = 1};
        check_one(&like, 0, PRODUCT_EXTREME, &seed, stream);
    }
    printf("%s to %s: %u passed, %u failed\n", dtype_name(types.dtype), dtype_name(types.out),
           passed - good, failed - bad);
    fflush(stdout);
}

/* Milliseconds of one run of the product, or of the check, in a row of `times`. */
static float time_of(const struct gemm_problem *p, const struct operation_kernel *kernel,
                     void *workspace, void *check, const struct test_stream *stream, int times)
{
    cudaEvent_t begin, end;
    float ms = -1;
    (void)cudaEventCreate(&begin);
    (void)cudaEventCreate(&end);
    for (int i = -2; i < times; i++) {
        if (i == 0)
            (void)cudaEventRecord(begin, stream->stream);
        if (kernel != NULL)
            (void)operation_run(kernel, stream->context, p, workspace);
        else
            (void)freivalds_launch(stream->stream, p, (uint64_t)i, NULL, check);
    }
    (void)cudaEventRecord(end, stream->stream);
    if (succeeded(cudaStreamSynchronize(stream->stream), "a timed run"))
        (void)cudaEventElapsedTime(&ms, begin, end);
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return ms / (float)times;
}

static void time_square(uint64_t side, struct case_types types, const struct test_stream *stream)
{
    const struct gemm_device gpu = streams_device();
    const struct operation_kernel *kernel;
    struct gemm_problem p = {.dtype = types.dtype,
                             .out = types.out,
                             .m = side,
                             .n = side,
                             .k = side,
                             .batch = 1,
                             .alpha = 1};
    void *memory[5] = {NULL};
    uint64_t sizes[5] = {side * side * dtype_size(types.dtype), 0,
                         side * side * dtype_size(types.out)};
    const int times = side >= 4096 ? 20 : 200;
    sizes[1] = sizes[0];
    gemm_problem_contiguous(&p);
    if (operation_select(&operation_gemm, &gpu, "auto", &p, &kernel, NULL) != GEMMD_OK ||
        !kernel->workspace_bytes(&p, &sizes[3]) || !freivalds_bytes(&p, &sizes[4]))
        return;
    for (int i = 0; i < 5; i++)
        if (!succeeded(cudaMalloc(&memory[i], sizes[i] + 256), "cudaMalloc") ||
            !succeeded(cudaMemset(memory[i], 0x3c, sizes[i]), "cudaMemset"))
            goto out;
    p.a = memory[0], p.b = memory[1], p.c = memory[2];
    const float product = time_of(&p, kernel, memory[3], NULL, stream, times);
    const float check = time_of(&p, NULL, NULL, memory[4], stream, times);
    const double bytes = (double)(sizes[0] + sizes[1] + sizes[2]);
    printf("| %s to %s | %" PRIu64 "³ | %s | %.4f | %.4f | %.1f %% | %.2f |\n",
           dtype_name(types.dtype), dtype_name(types.out), side, kernel->name, (double)product,
           (double)check, 100 * (double)check / (double)product, bytes / (double)check * 1e-9);
    fflush(stdout);
out:
    for (int i = 0; i < 5; i++)
        (void)cudaFree(memory[i]);
}

static void time_all(const struct test_stream *stream)
{
    static const uint64_t sides[] = {8192, 4096, 1024, 64};
    static const struct case_types types[] = {{GEMMD_BF16, GEMMD_BF16},    {GEMMD_F16, GEMMD_F16},
                                              {GEMMD_F8_E4M3, GEMMD_BF16}, {GEMMD_I8, GEMMD_I32},
                                              {GEMMD_F32, GEMMD_F32},      {GEMMD_F64, GEMMD_F64}};
    printf("| types | size | kernel | product, ms | check, ms | check of product | check, TB/s |\n"
           "|---|---:|---|---:|---:|---:|---:|\n");
    for (int t = 0; t < 6; t++)
        for (int s = 0; s < 4; s++)
            time_square(sides[s], types[t], stream);
}

int main(int argc, char **argv)
{
    struct test_stream streams[TEST_STREAMS] = {{NULL}};
    const bool timed = argc == 2 && strcmp(argv[1], "--time") == 0;
    if (argc > 1 && !timed) {
        fprintf(stderr, "Usage: gemmd-gpu-verify-check [--time]\n");
        return 2;
    }
    struct fault fault;
    if (!streams_open(streams) ||
        gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &host_context, &fault) != GEMMD_OK) {
        streams_close(streams);
        return 1;
    }
    if (timed) {
        time_all(&streams[0]);
    } else {
        for (uint32_t i = 0; i < case_types_count(); i++)
            check_types(case_types[i], &streams[0]);
        printf("%u passed, %u failed, %u also by the check of small products\n", passed, failed,
               smalls);
    }
    gemm_context_destroy(host_context);
    streams_close(streams);
    return failed == 0 ? 0 : 1;
}
