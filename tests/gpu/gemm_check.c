/*
 * gemmd-gpu-check - every CUDA kernel against long double on the host.
 *
 * Types x transposes x scalars x bias x activations x batches x odd sizes, random operands,
 * NaN and infinity, poisoned outputs, guard zones; the same bytes when run again on another
 * stream. One line for each kernel and pair of types, as soon as the pair is done; exit status 1 if
 * anything is wrong. Then shared_launch_check.h.
 *   --quick    little of everything, for a run under compute-sanitizer, and no shared
 *              launches
 *   --company  only shared_launch_check.h
 *   --large    also products of more than 2^31 elements
 *   --share I/N  every N-th pair of types from the I-th on, counted from 0: as much as one of N
 *              processes takes, most of whose time is the host's. The check of
 *              shared launches and the large products are in share 0
 *   --kernels TEXT  only those with TEXT in their name
 */
#include "tests/gpu/gemm_check.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/context.h"
#include "proto/dtype.h"
#include "tests/gpu/device_product.h"
#include "tests/gpu/share.h"
#include "tests/gpu/shared_launch_check.h"
#include "tests/gpu/streams.h"
#include "tests/gpu/tile_kernels.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { TRIALS_MAX = 160 };
enum { LAUNCHES = 5 }; /* of a product that is cut */

struct check {
    struct test_stream streams[TEST_STREAMS];
    struct trial trials[TRIALS_MAX];
    unsigned count;
    uint32_t share, shares; /* pairs of types whose number leaves `share` when divided */
    bool quick;
};

/* Others that take tf32 compute it as f32. */
static bool has_tensor_cores(const struct operation_kernel *kernel)
{
    return strcmp(kernel->name, "cublas") == 0 || strcmp(kernel->name, "wgmma") == 0 ||
           strncmp(kernel->name, "tensor_core", strlen("tensor_core")) == 0;
}

/* The error that a sum may have relative to the sum of the magnitudes: with precision full that of
 * chains of multiply-adds (proto/PROTOCOL.md, "Errors"). TF32 cuts both operands to 11 bits. Tensor
 * cores keep about 13 bits of a sum of f8 with precision f8. */
static double sum_error(const struct trial *trial, uint64_t k)
{
    const double chain = product_sum_error(trial->dtype, k);
    if (!has_tensor_cores(trial->kernel) || trial->dtype == GEMMD_F64)
        return chain;
    if (trial->precision == GEMM_PRECISION_TF32)
        return 2 * chain + 0x1.1p-9;
    if (trial->precision == GEMM_PRECISION_F8) /* of random operands */
        return 2 * chain + 0x1p-10;
    return chain;
}

static void add_trials(struct check *check, const struct operation_kernel *kernel,
                       const char *family)
{
    for (uint32_t i = 0; i < case_types_count(); i++) {
        const struct case_types types = case_types[i];
        struct gemm_problem small = {
            .dtype = types.dtype, .out = types.out, .m = 1, .n = 1, .k = 1, .batch = 1, .alpha = 1};
        struct trial trial = {
            .kernel = kernel, .dtype = types.dtype, .out = types.out, .family = family};
        if (kernel->takes(&small))
            check->trials[check->count++] = trial;
        small.precision = trial.precision = GEMM_PRECISION_TF32;
        if (types.dtype == GEMMD_F32 && has_tensor_cores(kernel) && kernel->takes(&small))
            check->trials[check->count++] = trial;
        small.precision = trial.precision = GEMM_PRECISION_F8;
        if (types.dtype == GEMMD_F8_E4M3 && has_tensor_cores(kernel) && kernel->takes(&small))
            check->trials[check->count++] = trial;
    }
}

/* Those with `text` in their name. A kernel that comes in several tiles also tile by tile. */
static void add_all(struct check *check, const struct gemm_device *device, const char *text)
{
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
         *k != NULL; k++)
        if (operation_kernel_runs_on(&operation_gemm, *k, device) &&
            strstr((*k)->name, text) != NULL)
            add_trials(check, *k, NULL);
    for (const struct operation_kernel *tile = tile_kernels; tile->name != NULL; tile++)
        if (operation_kernel_runs_on(&operation_gemm, tile, device) &&
            strstr(tile->name, text) != NULL)
            add_trials(check, tile, tile_kernel_family(tile));
}

static void record(struct trial *trial, bool right, const struct gemm_problem *problem,
                   const char *why)
{
    char what[256];
    if (right) {
        trial->passed++;
        return;
    }
    if (trial->failed++ == 0) {
        product_describe(problem, what, sizeof what);
        snprintf(trial->first, sizeof trial->first, "%s: %s", what, why);
    }
}

/* Runs one trial on one product: on the first stream against the host, then, if asked for, on all
 * streams for the same bytes, the last time in several launches. */
static void run_trial(struct check *check, struct trial *trial, struct product *product,
                      struct device_product *device, bool again)
{
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    unsigned char *first = again ? malloc(c->bytes) : NULL;
    char why[512] = "no memory";
    bool right = !again || first != NULL;
    device->problem.precision = trial->precision;
    for (unsigned i = 0; i < (again ? 2 * TEST_STREAMS : 1) && right; i++) {
        struct test_stream *stream = &check->streams[i % TEST_STREAMS];
        device->stream = stream->stream;
        right = device_product_run(device, product, trial->kernel, stream->context,
                                   i + 1 == 2 * TEST_STREAMS ? LAUNCHES : 1, why, sizeof why);
        if (right && i == 0)
            right = product_check(product, sum_error(trial, product->problem.k), &trial->worst, why,
                                  sizeof why);
        if (i == 0 && again && right)
            memcpy(first, c->data, c->bytes);
        else if (right && again && memcmp(first, c->data, c->bytes) != 0) {
            snprintf(why, sizeof why, "other bytes the next time");
            right = false;
        }
    }
    record(trial, right, &product->problem, why);
    free(first);
}

/* Whether the result, which is in `product`, has the bytes that the first of the family had. */
static void compare_family(struct trial *trial, const struct product *product, const char **family,
                           unsigned char *bytes)
{
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    if (trial->family == NULL)
        return;
    if (*family == NULL || strcmp(*family, trial->family) != 0) {
        *family = trial->family;
        memcpy(bytes, c->data, c->bytes);
        return;
    }
    record(trial, memcmp(bytes, c->data, c->bytes) == 0, &product->problem,
           "other bits than the other tiles");
}

/* Computes one product with every kernel that takes its types. */
static bool check_product(struct check *check, const struct gemm_problem *like, uint64_t gap,
                          enum product_fill fill, uint64_t seed, bool again)
{
    struct product product;
    struct device_product device;
    const char *family = NULL;
    if (!product_create(&product, like, gap, fill, seed)) {
        printf("no memory\n");
        return false;
    }
    unsigned char *bytes = malloc(product.buffers[PRODUCT_C].bytes);
    if (bytes == NULL) {
        printf("no memory\n");
        product_destroy(&product);
        return false;
    }
    bool done = device_product_create(&device, &product, check->quick, check->streams[0].stream) &&
                cudaStreamSynchronize(check->streams[0].stream) == cudaSuccess;
    for (unsigned i = 0; i < check->count && done; i++) {
        struct trial *trial = &check->trials[i];
        if (trial->dtype != like->dtype || trial->out != like->out)
            continue;
        run_trial(check, trial, &product, &device, again);
        compare_family(trial, &product, &family, bytes);
    }
    free(bytes);
    device_product_destroy(&device);
    product_destroy(&product);
    return done;
}

static uint64_t draw(uint64_t *seed, const uint64_t *values, uint64_t count)
{
    return values[random_next(seed) % count];
}

static bool check_options(struct check *check, struct case_types types, enum product_fill fill)
{
    uint64_t seed = (uint64_t)types.dtype * 100 + types.out;
    for (uint32_t number = 0; number < case_options_count(); number++) {
        struct gemm_problem problem = {
            .dtype = types.dtype,
            .out = types.out,
            .m = draw(&seed, case_sizes, 5),
            .n = draw(&seed, case_sizes, 5),
            .k = draw(&seed, case_sizes, 5),
        };
        if (fill == PRODUCT_SPECIAL) { /* few enough terms that not all is NaN */
            problem.m = number % 2 ? 7 : 16;
            problem.n = number % 2 ? 33 : 32;
            problem.k = number % 2 ? 3 : 16;
        }
        if (check->quick && number % 37 != 0)
            continue;
        if (case_set_options(&problem, number) &&
            !check_product(check, &problem, number % 3, fill, seed, false))
            return false;
    }
    return true;
}

static bool check_sizes(struct check *check, struct case_types types)
{
    const uint32_t sizes = case_sizes_count();
    uint64_t seed = 7777 + (uint64_t)types.dtype * 100 + types.out;
    for (uint32_t number = 0; number < sizes * sizes * sizes; number++) {
        struct gemm_problem problem = {
            .dtype = types.dtype,
            .out = types.out,
            .m = case_sizes[number % sizes],
            .n = case_sizes[number / sizes % sizes],
            .k = case_sizes[number / sizes / sizes],
        };
        while (!case_set_options(&problem, (uint32_t)(random_next(&seed) % case_options_count())))
            continue;
        if (check->quick && number % 51 != 0)
            continue;
        if (!check_product(check, &problem, random_next(&seed) % 2, PRODUCT_UNIFORM, seed, false))
            return false;
    }
    return true;
}

/* Sizes that libraries have fast kernels for, skinny and deep ones, and more problems and rows than
 * a grid has blocks. */
static bool check_shapes(struct check *check, struct case_types types)
{
    static const struct {
        uint64_t m, n, k, batch;
    } shapes[] = {
        {256, 256, 256, 1}, {128, 512, 64, 2},   {16, 16, 4096, 1}, {1, 4096, 512, 1},
        {4096, 1, 512, 1},  {257, 129, 1023, 1}, {3, 2, 5, 70000},  {2200000, 1, 2, 1},
        {1, 2200000, 2, 1}, {64, 64, 64, 64},    {512, 8, 1000, 1}, {1, 1, 100000, 1},
    };
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint32_t transposes = 0; transposes < 4; transposes++) {
            struct gemm_problem problem = {
                .dtype = types.dtype,
                .out = types.out,
                .m = shapes[i].m,
                .n = shapes[i].n,
                .k = shapes[i].k,
                .batch = shapes[i].batch,
                .alpha = 1,
                .beta = transposes == 2 ? -1 : 0,
                .transa = transposes & 1,
                .transb = transposes & 2,
            };
            const bool huge = problem.m * problem.n * problem.batch > 200000;
            if (transposes != 0 && (huge || types.out != dtype_default_out(types.dtype)))
                continue; /* the host is slow */
            if (check->quick && (huge || problem.m * problem.n * problem.k > 1000000))
                continue;
            if (!check_product(check, &problem, 0, PRODUCT_UNIFORM, i, true))
                return false;
        }
    }
    return true;
}

/* Few columns and a k that is computed in chunks, the last one short or whole, with all that can
 * follow a sum. */
static bool check_deep(struct check *check, struct case_types types)
{
    static const uint64_t shapes[][3] = {
        {5, 33, 8200},   {70, 64, 8192},  {1, 1, 9001},     {9, 130, 25000},  {3, 200, 32768},
        {150, 97, 3100}, {20, 500, 7001}, {66, 700, 16400}, {33, 1000, 3100},
    };
    enum { TIMES = 4 }; /* the host is slow */
    uint64_t seed = 999 + (uint64_t)types.dtype * 100 + types.out;
    for (uint32_t i = 0; i < TIMES * sizeof shapes / sizeof shapes[0]; i++) {
        const uint64_t *shape = shapes[i / TIMES];
        struct gemm_problem problem = {
            .dtype = types.dtype, .out = types.out, .m = shape[0], .n = shape[1], .k = shape[2]};
        while (!case_set_options(&problem, (uint32_t)(random_next(&seed) % case_options_count())))
            continue;
        if (check->quick && i != 0)
            continue;
        if (!check_product(check, &problem, random_next(&seed) % 2, PRODUCT_UNIFORM, seed, true))
            return false;
    }
    return true;
}

/* Shapes whose last rows the kernels of sm_90 compute in half tiles on an H100 (sm90_tile_rows).
 * Tiles of each size have half tiles in one of the shapes at least. */
static bool check_half_tiles(struct check *check, struct case_types types)
{
    static const uint64_t shapes[][3] = {{8453, 200, 24}, {4741, 776, 72}, {6663, 648, 200}};
    enum { TIMES = 2 }; /* the host is slow */
    const bool rounds = types.out != GEMMD_I32;
    for (uint32_t i = 0; i < TIMES * sizeof shapes / sizeof shapes[0]; i++) {
        if (check->quick && i != 1)
            continue;
        const uint64_t *shape = shapes[i / TIMES];
        /* Both operands along k and both across k, or one of them. */
        const bool transb = i % TIMES, transa = transb != (i / TIMES % 2 == 0);
        struct gemm_problem problem = {.dtype = types.dtype,
                                       .out = types.out,
                                       .m = shape[0],
                                       .n = shape[1],
                                       .k = shape[2],
                                       .batch = 1,
                                       .transa = transa,
                                       .transb = transb,
                                       .alpha = transb ? 1 : 2,
                                       .beta = i == TIMES ? -1 : 0,
                                       .act =
                                           rounds && transb ? GEMM_ACT_GELU_TANH : GEMM_ACT_NONE};
        if (!check_product(check, &problem, 0, PRODUCT_UNIFORM, i, false))
            return false;
    }
    return true;
}

static bool check_extremes(struct check *check, struct case_types types)
{
    struct gemm_problem problem = {.dtype = types.dtype,
                                   .out = types.out,
                                   .m = 20,
                                   .n = 20,
                                   .k = types.dtype == GEMMD_I8 ? 140000 : 3,
                                   .alpha = types.dtype == GEMMD_I8 ? 3 : 1,
                                   .batch = 1};
    return check->quick || check_product(check, &problem, 0, PRODUCT_EXTREME, 1, false);
}

static bool check_types(struct check *check, struct case_types types)
{
    return check_options(check, types, PRODUCT_UNIFORM) &&
           check_options(check, types, PRODUCT_SPECIAL) && check_sizes(check, types) &&
           check_shapes(check, types) && check_deep(check, types) &&
           check_half_tiles(check, types) && check_extremes(check, types);
}

/* Prints the lines of one pair of types. */
static void report(const struct check *check, struct case_types types, uint64_t *passed,
                   uint64_t *failed)
{
    for (unsigned i = 0; i < check->count; i++) {
        const struct trial *trial = &check->trials[i];
        if (trial->dtype != types.dtype || trial->out != types.out)
            continue;
        *passed += trial->passed;
        *failed += trial->failed;
        printf("%-8s %-8s to %-5s%s  %5" PRIu64 " passed  %5" PRIu64
               " failed  largest error %.2g of what rounding explains\n",
               trial->kernel->name, dtype_name(trial->dtype), dtype_name(trial->out),
               trial->precision == GEMM_PRECISION_TF32 ? " tf32"
               : trial->precision == GEMM_PRECISION_F8 ? " f8"
                                                       : "",
               trial->passed, trial->failed, trial->worst);
        if (trial->failed > 0)
            printf("         first: %s\n", trial->first);
    }
}

/* The share's pairs of types. False if nothing more can be run. */
static bool check_share(struct check *check, uint64_t *passed, uint64_t *failed)
{
    bool done = true;
    for (uint32_t i = check->share; i < case_types_count() && done; i += check->shares) {
        done = check_types(check, case_types[i]);
        report(check, case_types[i], passed, failed);
    }
    return done;
}

int main(int count, char **arguments)
{
    static struct check check; /* large, and there is one */
    bool large = false, only_shared_launches = false;
    const char *kernels = "";
    check.shares = 1;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--quick") == 0) {
            check.quick = true;
        } else if (strcmp(arguments[i], "--large") == 0) {
            large = true;
        } else if (strcmp(arguments[i], "--company") == 0) {
            only_shared_launches = true;
        } else if (strcmp(arguments[i], "--kernels") == 0 && i + 1 < count) {
            kernels = arguments[++i];
        } else if (strcmp(arguments[i], "--share") == 0 && i + 1 < count &&
                   share_parse(arguments[i + 1], &check.share, &check.shares)) {
            i++;
        } else {
            fprintf(stderr,
                    "usage: gemmd-gpu-check [--quick | --company] [--large] [--kernels TEXT] "
                    "[--share I/N]\n"
                    "Share I of N, from 0, takes every N-th pair of types from the I-th on; share "
                    "0 also company\nand --large.\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log that is cut off has what was done */
    uint64_t passed = 0, failed = 0;
    bool done = streams_open(check.streams);
    const struct gemm_device device = streams_device();
    if (done) {
        printf("%s\n", gemm_backend_library(GEMM_BACKEND_CUDA));
        add_all(&check, &device, kernels);
        done = only_shared_launches || check_share(&check, &passed, &failed);
    }
    if (done && !check.quick && *kernels == '\0' && check.share == 0)
        shared_launch_check(&device, &passed, &failed);
    if (done && !only_shared_launches && !check.quick && strstr("wgmma", kernels) != NULL &&
        check.share == 0)
        gemm_check_f8_error(&device, check.streams[0].context, check.streams[0].stream, &passed,
                            &failed);
    if (done && !only_shared_launches && check.share == 0)
        gemm_check_scales(&device, check.streams, check.quick, kernels, &passed, &failed);
    if (done && !only_shared_launches && check.share == 0)
        gemm_check_packed(&device, check.streams, kernels, &passed, &failed);
    if (done && large && check.share == 0)
        gemm_check_large(&device, check.streams[0].context, check.streams[0].stream, &passed,
                         &failed);
    streams_close(check.streams);
    printf("%" PRIu64 " passed, %" PRIu64 " failed%s\n", passed, failed + !done,
           done ? "" : " (stopped early)");
    return done && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
