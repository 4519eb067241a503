/*
 * gemmd-gpu-conv-check - every convolution kernel on CUDA against long double on the host.
 *
 * Types x shapes x layouts: odd sizes, strides, dilations, groups and paddings (conv_case of
 * tests/product), NaN and infinity, poisoned outputs and workspaces, guard zones; the same bytes
 * when run again on another stream, the same bytes for each image alone, and the same bytes for
 * every tile configuration of `implicit`. One line for each kernel and type; exit status 1 if
 * anything is wrong.
 *   --quick        every 7th shape, for a run under compute-sanitizer
 *   --kernels TEXT only those with TEXT in their name
 *   --dtype NAME   only this type
 *   --verbose      a line for each failure, instead of the first one only
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/sm90/conv/sm90_conv.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/streams.h"
#include "tests/product/conv_sample.h"

enum { GUARD = 256, POISON = 0xff, TRIALS_MAX = 128 };

static const struct conv_type {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    const char *name;
} types[] = {{GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, "f32"},
             {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, "tf32"},
             {GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL, "f16"},
             {GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, "bf16"},
             {GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, "i8-i32"},
             {GEMMD_I8, GEMMD_F32, GEMM_PRECISION_FULL, "i8-f32"}};
enum { TYPES = sizeof types / sizeof *types };

/* One kernel with one type, and how it has done. A tile configuration of `implicit` is a kernel of
 * its own. */
struct trial {
    const struct operation_kernel *kernel;
    const struct sm90_kernel *tile; /* or NULL */
    const char *name;
    uint64_t passed, failed;
    double worst;    /* largest error / what is allowed */
    char first[768]; /* what failed first */
};

struct check {
    struct test_stream streams[TEST_STREAMS];
    struct trial trials[TRIALS_MAX];
    unsigned count;
    bool quick, verbose;
};

/* A sample on the device. */
struct device_conv {
    struct conv_problem problem;
    void *memory[CONV_PARTS];
};

static bool cuda_succeeded(cudaError_t error, const char *what, char *text, uint64_t size)
{
    if (error == cudaSuccess)
        return true;
    snprintf(text, size, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
    return false;
}

static void device_conv_destroy(struct device_conv *device)
{
    for (unsigned part = 0; part < CONV_PARTS; part++)
        (void)cudaFree(device->memory[part]);
}

static bool device_conv_create(struct device_conv *device, const struct conv_sample *sample)
{
    char text[256];
    *device = (struct device_conv){.problem = sample->problem};
    struct conv_problem *p = &device->problem;
    for (unsigned part = 0; part < CONV_PARTS; part++) {
        const struct product_buffer *buffer = &sample->buffers[part];
        if (buffer->data == NULL)
            continue;
        if (!cuda_succeeded(cudaMalloc(&device->memory[part], buffer->bytes), "cudaMalloc", text,
                            sizeof text) ||
            !cuda_succeeded(cudaMemcpy(device->memory[part], buffer->data, buffer->bytes,
                                       cudaMemcpyHostToDevice),
                            "the copy of an operand", text, sizeof text)) {
            printf("%s\n", text);
            return false;
        }
        void *start = (char *)device->memory[part] + buffer->offset;
        const void **operands[] = {&p->x, &p->w, &p->bias};
        if (part == CONV_Y)
            p->y = start;
        else
            *operands[part] = start;
    }
    return true;
}

static enum gemmd_error run_trial_kernel(const struct trial *trial, struct gemm_context *context,
                                         const struct conv_problem *problem, void *workspace)
{
    return trial->tile != NULL ? conv_implicit_run_with(context, trial->tile, problem, workspace)
                               : operation_run(trial->kernel, context, problem, workspace);
}

static bool run_problem(const struct trial *trial, const struct test_stream *stream,
                        const struct conv_problem *problem, void *workspace, char *text,
                        uint64_t size)
{
    const enum gemmd_error code = run_trial_kernel(trial, stream->context, problem, workspace);
    if (code == GEMMD_OK)
        return true;
    snprintf(text, size, "run returned %s (%s)", error_name(code),
             cudaGetErrorName(cudaGetLastError()));
    return false;
}

/* Each image as a problem of its own, in memory of its own. */
static bool run_alone(const struct trial *trial, const struct test_stream *stream,
                      const struct device_conv *device, void *workspace, char *text, uint64_t size)
{
    const struct conv_problem *p = &device->problem;
    const uint64_t batch = p->shape.batch;
    struct conv_problem alone = conv_subproblem(p, 0, 1);
    uint64_t x, y;
    if (!conv_shape_x(&alone.shape, &x) || !conv_shape_y(&alone.shape, &y))
        return false;
    x *= dtype_size(p->dtype);
    y *= dtype_size(p->out);
    char *memory = NULL;
    const uint64_t x_room = (x + 255) / 256 * 256;
    bool right = cuda_succeeded(cudaMalloc((void **)&memory, x_room + y), "cudaMalloc", text, size);
    alone.x = memory;
    alone.y = memory + x_room;
    for (uint64_t image = 0; image < batch && right; image++)
        right = cuda_succeeded(cudaMemcpyAsync(memory, (const char *)p->x + image * x, x,
                                               cudaMemcpyDeviceToDevice, stream->stream),
                               "the copy of an image", text, size) &&
                run_problem(trial, stream, &alone, workspace, text, size) &&
                cuda_succeeded(cudaMemcpyAsync((char *)p->y + image * y, memory + x_room, y,
                                               cudaMemcpyDeviceToDevice, stream->stream),
                               "the copy of a result", text, size);
    return right && cuda_succeeded(cudaStreamSynchronize(stream->stream), "an image", text, size) &&
           cuda_succeeded(cudaFree(memory), "cudaFree", text, size);
}

/* Runs the kernel on poisoned memory, and copies Y to the sample. `alone`: each image by itself. */
static bool run_on_device(const struct trial *trial, const struct test_stream *stream,
                          const struct device_conv *device, struct conv_sample *sample, bool alone,
                          char *text, uint64_t size)
{
    const struct product_buffer *y = &sample->buffers[CONV_Y];
    unsigned char guard[GUARD];
    unsigned char *workspace = NULL;
    uint64_t bytes;
    if (!trial->kernel->workspace_bytes(&device->problem, &bytes)) {
        snprintf(text, size, "the workspace's size overflows");
        return false;
    }
    conv_sample_poison(sample);
    bool right =
        cuda_succeeded(cudaMalloc((void **)&workspace, bytes + GUARD), "cudaMalloc", text, size) &&
        cuda_succeeded(cudaMemset(workspace, POISON, bytes + GUARD), "cudaMemset", text, size) &&
        cuda_succeeded(
            cudaMemcpy(device->memory[CONV_Y], y->data, y->bytes, cudaMemcpyHostToDevice),
            "the poisoning of Y", text, size) &&
        cuda_succeeded(cudaDeviceSynchronize(), "the preparation", text, size);
    right = right && (alone ? run_alone(trial, stream, device, workspace, text, size)
                            : run_problem(trial, stream, &device->problem, workspace, text, size));
    right = right &&
            cuda_succeeded(cudaStreamSynchronize(stream->stream), "the kernel", text, size) &&
            cuda_succeeded(
                cudaMemcpy(y->data, device->memory[CONV_Y], y->bytes, cudaMemcpyDeviceToHost),
                "the result's copy", text, size) &&
            cuda_succeeded(cudaMemcpy(guard, workspace + bytes, GUARD, cudaMemcpyDeviceToHost),
                           "the guard's copy", text, size);
    for (unsigned i = 0; i < GUARD && right; i++)
        if (guard[i] != POISON) {
            snprintf(text, size, "byte %u beyond the workspace was written", i);
            right = false;
        }
    (void)cudaFree(workspace);
    return right;
}

/* The error that a sum may have relative to the sum of the magnitudes, as in gemm_check.c. */
static double conv_sum_error(const struct trial *trial, const struct conv_problem *p, uint64_t k)
{
    const double chain = product_sum_error(p->dtype, k);
    const bool tensor_cores = trial->tile != NULL || strcmp(trial->name, "implicit") == 0 ||
                              strcmp(trial->name, "product") == 0;
    if (tensor_cores && p->precision == GEMM_PRECISION_TF32)
        return 2 * chain + 0x1.1p-9;
    return chain;
}

static void record(const struct check *check, struct trial *trial, bool right,
                   const struct conv_problem *problem, const char *why)
{
    char what[320];
    if (right) {
        trial->passed++;
        return;
    }
    conv_describe(problem, what, sizeof what);
    if (trial->failed++ == 0)
        snprintf(trial->first, sizeof trial->first, "%s: %s", what, why);
    if (check->verbose)
        printf("  %s, %s: %s\n", trial->name, what, why);
}

static void check_trial(struct check *check, struct trial *trial, struct conv_sample *sample,
                        const struct device_conv *device, unsigned char *kept, bool *has_tiles,
                        unsigned char *tiles)
{
    const struct product_buffer *y = &sample->buffers[CONV_Y];
    const uint64_t k = sample->groups[0].problem.k, batch = sample->problem.shape.batch;
    const double error = conv_sum_error(trial, &sample->problem, k);
    char why[512] = "";
    bool right = run_on_device(trial, &check->streams[0], device, sample, false, why, sizeof why) &&
                 conv_sample_check(sample, error, &trial->worst, why, sizeof why);
    if (right) {
        memcpy(kept, y->data, y->bytes);
        right = run_on_device(trial, &check->streams[1], device, sample, false, why, sizeof why);
        if (right && memcmp(kept, y->data, y->bytes) != 0) {
            snprintf(why, sizeof why, "other bytes the next time");
            right = false;
        }
    }
    if (right && batch > 1) {
        right = run_on_device(trial, &check->streams[0], device, sample, true, why, sizeof why);
        if (right && memcmp(kept, y->data, y->bytes) != 0) {
            snprintf(why, sizeof why, "an image alone has other bytes than in a batch");
            right = false;
        }
    }
    if (right && trial->tile != NULL) {
        if (*has_tiles && memcmp(kept, tiles, y->bytes) != 0) {
            snprintf(why, sizeof why, "other bytes than in other tiles");
            right = false;
        }
        memcpy(tiles, kept, y->bytes);
        *has_tiles = true;
    }
    record(check, trial, right, &sample->problem, why);
}

/* All kernels on one problem. False if nothing more can be run. */
static bool check_problem(struct check *check, const struct conv_problem *like,
                          enum product_fill fill, uint64_t seed)
{
    struct conv_sample sample;
    struct device_conv device;
    if (!conv_sample_create(&sample, like, fill, seed)) {
        printf("no memory\n");
        return false;
    }
    const uint64_t bytes = sample.buffers[CONV_Y].bytes;
    unsigned char *kept = malloc(bytes), *tiles = malloc(bytes);
    bool has_tiles = false, done = kept != NULL && tiles != NULL;
    done = device_conv_create(&device, &sample) && done;
    for (unsigned i = 0; i < check->count && done; i++)
        if (check->trials[i].kernel->takes(&sample.problem))
            check_trial(check, &check->trials[i], &sample, &device, kept, &has_tiles, tiles);
    done = done && cudaDeviceSynchronize() == cudaSuccess;
    device_conv_destroy(&device);
    free(kept);
    free(tiles);
    conv_sample_destroy(&sample);
    return done;
}

static void add_trials(struct check *check, const struct gemm_device *gpu, enum gemmd_dtype dtype,
                       const char *text)
{
    check->count = 0;
    for (const struct operation_kernel *const *k = conv_cuda_kernels; *k != NULL; k++) {
        if (!operation_kernel_runs_on(&operation_conv2d, *k, gpu))
            continue;
        if (strstr((*k)->name, text) != NULL)
            check->trials[check->count++] = (struct trial){.kernel = *k, .name = (*k)->name};
        if (*k != &conv_cuda_implicit)
            continue;
        for (const struct sm90_kernel *tile = sm90_conv_kernels(dtype);
             tile != NULL && tile->name != NULL; tile++)
            if (strstr(tile->name, text) != NULL || strstr((*k)->name, text) != NULL)
                check->trials[check->count++] =
                    (struct trial){.kernel = *k, .tile = tile, .name = tile->name};
    }
}

static bool check_type(struct check *check, const struct conv_type *type)
{
    for (unsigned i = 0; i < conv_case_count(); i += check->quick ? 7 : 1) {
        const struct conv_problem problem = conv_case(i, type->dtype, type->out, type->precision);
        if (!check_problem(check, &problem, PRODUCT_UNIFORM, i + 1))
            return false;
        if (i % 5 == 4 && !check_problem(check, &problem, PRODUCT_SPECIAL, i + 1))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct check check;
    const char *kernels = "", *only = NULL;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0) {
            check.quick = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            check.verbose = true;
        } else if (strcmp(argv[i], "--kernels") == 0 && more) {
            kernels = argv[++i];
        } else if (strcmp(argv[i], "--dtype") == 0 && more) {
            only = argv[++i];
        } else {
            fprintf(stderr, "usage: gemmd-gpu-conv-check [--quick] [--verbose] [--kernels TEXT] "
                            "[--dtype f32|tf32|f16|bf16|i8-i32|i8-f32]\n");
            return 2;
        }
    }
    uint64_t passed = 0, failed = 0;
    bool done = streams_open(check.streams);
    const struct gemm_device gpu = streams_device();
    for (unsigned t = 0; t < TYPES && done; t++) {
        if (only != NULL && strcmp(only, types[t].name) != 0)
            continue;
        add_trials(&check, &gpu, types[t].dtype, kernels);
        done = check_type(&check, &types[t]);
        for (unsigned i = 0; i < check.count; i++) {
            const struct trial *trial = &check.trials[i];
            passed += trial->passed;
            failed += trial->failed;
            printf("%-20s %-6s  %5" PRIu64 " passed  %5" PRIu64
                   " failed  largest error %.2f of what is allowed\n",
                   trial->name, types[t].name, trial->passed, trial->failed, trial->worst);
            if (trial->failed > 0)
                printf("  first: %s\n", trial->first);
        }
        fflush(stdout);
    }
    if (!done)
        printf("the check could not go on\n");
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    streams_close(check.streams);
    return done && failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
