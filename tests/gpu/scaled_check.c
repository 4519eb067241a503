/* Products with scales: every kernel that takes them against long double, the same bytes on another
 * stream and in several launches, and rows that have the bits that they have alone. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/gpu/device_product.h"
#include "tests/gpu/gemm_check.h"
#include "tests/product/cases.h"
#include "tests/product/random.h"

enum { LAUNCHES = 5 };

static const struct scaled_types {
    enum gemmd_dtype dtype;
    enum gemm_precision precision;
    enum gemm_scales scales;
} kinds[] = {
    {GEMMD_F8_E4M3, GEMM_PRECISION_FULL, GEMM_SCALES_ROWCOL},
    {GEMMD_F8_E4M3, GEMM_PRECISION_F8, GEMM_SCALES_ROWCOL},
    {GEMMD_F8_E4M3, GEMM_PRECISION_FULL, GEMM_SCALES_BLOCK},
    {GEMMD_F8_E4M3, GEMM_PRECISION_F8, GEMM_SCALES_BLOCK},
    {GEMMD_I8, GEMM_PRECISION_FULL, GEMM_SCALES_ROWCOL},
    /* Few rows have kernels of their own, with the bits of the others. */
    {GEMMD_F8_E4M3, GEMM_PRECISION_FULL, GEMM_SCALES_NONE},
};
static const enum gemmd_dtype outs[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};

/* One kernel with one kind of scales. */
struct scaled_trial {
    const struct operation_kernel *kernel;
    struct test_stream *streams;
    struct scaled_types kind;
    bool quick;
    uint64_t passed, failed;
    double worst;
    char first[768];
};

static void note(struct scaled_trial *trial, bool right, const struct gemm_problem *problem,
                 const char *why)
{
    char what[256];
    trial->passed += right;
    if (right || trial->failed++ > 0)
        return;
    product_describe(problem, what, sizeof what);
    snprintf(trial->first, sizeof trial->first, "%s: %s", what, why);
}

static double error_of_sum(const struct scaled_trial *trial, uint64_t k)
{
    const double chain = product_sum_error(trial->kind.dtype, k);
    if (strcmp(trial->kernel->name, "wgmma") != 0 || trial->kind.precision != GEMM_PRECISION_F8)
        return chain;
    return 2 * chain + 0x1p-10; /* as in gemm_check.c */
}

/* Whether some rows of a product have the same bytes in a product of their own. `whole` is the
 * result's buffer. */
static bool rows_are_the_same(struct scaled_trial *trial, struct product *product,
                              struct device_product *device, const unsigned char *whole, char *why,
                              uint64_t size)
{
    const struct gemm_problem p = device->problem;
    const uint64_t out = dtype_size(p.out);
    const struct {
        uint64_t first, count;
    } parts[] = {{0, 1}, {p.m / 2, 1}, {p.m - 1, 1}, {2, 7}, {1, 16}, {0, 31}, {2, 64}};
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct gemm_problem *q = &device->problem;
        const uint64_t first = parts[i].first, left = p.m - first;
        q->m = parts[i].count < left ? parts[i].count : left;
        q->a = (const char *)p.a + first * (p.transa ? 1 : p.lda) * dtype_size(p.dtype);
        q->c0 = (const char *)p.c0 + first * p.ldc0 * out;
        if (p.scales != GEMM_SCALES_NONE)
            q->a_scale.data = p.a_scale.data + first * p.a_scale.step;
        const bool done = device_product_run(device, product, trial->kernel,
                                             trial->streams[0].context, 1, why, size);
        const uint64_t rows = q->m;
        *q = p;
        if (!done)
            return false;
        for (uint64_t row = 0; row < rows; row++) {
            const uint64_t own = c->offset + row * p.ldc * out;
            if (memcmp(c->data + own, whole + own + first * p.ldc * out, p.n * out) != 0) {
                snprintf(why, size, "row %" PRIu64 " has other bytes among %" PRIu64 " rows",
                         first + row, rows);
                return false;
            }
        }
    }
    return true;
}

static void try_product(struct scaled_trial *trial, const struct gemm_problem *like, uint64_t gap,
                        uint64_t seed)
{
    struct product product;
    struct device_product device;
    char why[512] = "no memory";
    if (!product_create(&product, like, gap, PRODUCT_UNIFORM, seed)) {
        note(trial, false, like, why);
        return;
    }
    const struct product_buffer *c = &product.buffers[PRODUCT_C];
    unsigned char *first = malloc(c->bytes);
    bool right = first != NULL &&
                 device_product_create(&device, &product, trial->quick, trial->streams[0].stream);
    for (unsigned i = 0; i < 3 && right; i++) {
        struct test_stream *stream = &trial->streams[i % TEST_STREAMS];
        device.stream = stream->stream;
        right = cudaDeviceSynchronize() == cudaSuccess &&
                device_product_run(&device, &product, trial->kernel, stream->context,
                                   i == 2 ? LAUNCHES : 1, why, sizeof why);
        if (right && i == 0) {
            right = product_check(&product, error_of_sum(trial, like->k), &trial->worst, why,
                                  sizeof why);
            memcpy(first, c->data, c->bytes);
        } else if (right && memcmp(first, c->data, c->bytes) != 0) {
            snprintf(why, sizeof why, "other bytes the next time (%u)", i);
            right = false;
        }
    }
    device.stream = trial->streams[0].stream;
    if (right && like->batch == 1 && like->m > 2)
        right = rows_are_the_same(trial, &product, &device, first, why, sizeof why);
    note(trial, right, &product.problem, why);
    if (first != NULL)
        device_product_destroy(&device);
    free(first);
    product_destroy(&product);
}

static void try_all(struct scaled_trial *trial)
{
    static const uint64_t shapes[][3] = {
        {1, 1, 1},      {3, 5, 7},       {65, 33, 129},    {130, 257, 300},  {16, 130, 4100},
        {1, 400, 1000}, {256, 200, 128}, {300, 384, 1024}, {70, 129, 383},   {200, 72, 640},
        {64, 520, 512}, {33, 64, 2000},  {80, 800, 1104},  {100, 1040, 272},
    };
    const unsigned times = trial->quick ? 1 : 4;
    uint64_t seed = 4711;
    for (unsigned i = 0; i < times * sizeof shapes / sizeof shapes[0]; i++) {
        const uint64_t *shape = shapes[i / times];
        struct gemm_problem problem = {.dtype = trial->kind.dtype,
                                       .out = outs[i % 3],
                                       .precision = trial->kind.precision,
                                       .scales = trial->kind.scales,
                                       .m = shape[0],
                                       .n = shape[1],
                                       .k = shape[2]};
        (void)case_set_options(&problem, (uint32_t)(random_next(&seed) % case_options_count()));
        problem.transa = i & 1;
        problem.transb = i & 2;
        if (shape[0] * shape[1] * shape[2] > 20000000)
            problem.batch = 1; /* the host is slow */
        try_product(trial, &problem, i % 5 == 0 ? 3 : 0, seed);
    }
}

/* Each kernel for few rows (few_rows.h): for both widths of a block, all results and layouts of B,
 * products of more rows, whose parts of up to 8, 16, 32 and 64 rows are computed alone. No size is
 * a multiple of a tile, and k is longer than a ring of stages. Only as a batch has the last one
 * more blocks of 32 columns than there are multiprocessors. */
static void try_few_rows(struct scaled_trial *trial)
{
    static const uint64_t shapes[][4] = {
        {70, 1040, 2704, 1}, {67, 4304, 912, 1}, {40, 1456, 272, 3}};
    uint64_t seed = 815;
    for (unsigned i = 0; i < 6 * sizeof shapes / sizeof shapes[0]; i++) {
        const uint64_t *shape = shapes[i / 6];
        struct gemm_problem problem = {.dtype = trial->kind.dtype,
                                       .out = outs[i % 3],
                                       .precision = trial->kind.precision,
                                       .m = shape[0],
                                       .n = shape[1],
                                       .k = shape[2]};
        (void)case_set_options(&problem, (uint32_t)(random_next(&seed) % case_options_count()));
        problem.transa = false;
        problem.transb = i % 6 < 3;
        problem.batch = shape[3];
        try_product(trial, &problem, 0, seed);
    }
}

void gemm_check_scales(const struct gemm_device *device, struct test_stream *streams, bool quick,
                       const char *kernels, uint64_t *passed, uint64_t *failed)
{
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
         *k != NULL; k++) {
        if (!operation_kernel_runs_on(&operation_gemm, *k, device) ||
            strstr((*k)->name, kernels) == NULL)
            continue;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            const struct gemm_problem small = {.dtype = kinds[i].dtype,
                                               .out = GEMMD_F32,
                                               .precision = kinds[i].precision,
                                               .scales = kinds[i].scales,
                                               .m = 1,
                                               .n = 1,
                                               .k = 1,
                                               .batch = 1,
                                               .alpha = 1};
            struct scaled_trial trial = {
                .kernel = *k, .streams = streams, .kind = kinds[i], .quick = quick};
            if (!(*k)->takes(&small) ||
                (kinds[i].scales == GEMM_SCALES_NONE && strcmp((*k)->name, "wgmma") != 0))
                continue;
            try_all(&trial);
            if (kinds[i].scales == GEMM_SCALES_NONE && !quick)
                try_few_rows(&trial);
            printf("%-8s %-8s scales=%s%s  %5" PRIu64 " passed  %5" PRIu64
                   " failed  largest error %.2g of what rounding explains\n",
                   (*k)->name, dtype_name(trial.kind.dtype), gemm_scales_name(trial.kind.scales),
                   trial.kind.precision == GEMM_PRECISION_F8 ? " f8" : "", trial.passed,
                   trial.failed, trial.worst);
            if (trial.failed > 0)
                printf("         first: %s\n", trial.first);
            *passed += trial.passed;
            *failed += trial.failed;
        }
    }
}
