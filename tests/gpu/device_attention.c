#include "tests/gpu/device_attention.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "kernels/attention_grouped.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/launches.h"

enum { GUARD = 256, POISON = 0xff };
enum { DIVIDED = 0 }; /* instead of a number of launches */

static bool succeeded(cudaError_t error, const char *what, char *text, uint64_t size)
{
    if (error == cudaSuccess)
        return true;
    snprintf(text, size, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
    return false;
}

static bool copy_up(struct device_attention *device, int part, const void *from, uint64_t bytes,
                    char *text, uint64_t size)
{
    return succeeded(cudaMalloc(&device->memory[part], bytes), "cudaMalloc", text, size) &&
           succeeded(cudaMemcpyAsync(device->memory[part], from, bytes, cudaMemcpyHostToDevice,
                                     device->stream),
                     "the copy of an operand", text, size);
}

static void *start_of(const struct device_attention *device, const struct attention_sample *sample,
                      enum attention_part part, bool exact)
{
    return (char *)device->memory[part] + (exact ? 0 : sample->buffers[part].offset);
}

/* lens_q, then lens_kv. */
static bool copy_lengths(struct device_attention *device, char *text, uint64_t size)
{
    struct attention_problem *p = &device->problem;
    if (p->lens_q == NULL)
        return true;
    const uint64_t count = p->batch + (p->ragged ? 1 : 0), bytes = count * sizeof *p->lens_q;
    void *memory = NULL;
    if (!succeeded(cudaMalloc(&memory, 2 * bytes), "cudaMalloc", text, size))
        return false;
    device->memory[DEVICE_ATTENTION_LENGTHS] = memory;
    if (!succeeded(
            cudaMemcpyAsync(memory, p->lens_q, bytes, cudaMemcpyHostToDevice, device->stream),
            "the copy of the lengths", text, size) ||
        !succeeded(cudaMemcpyAsync((char *)memory + bytes, p->lens_kv, bytes,
                                   cudaMemcpyHostToDevice, device->stream),
                   "the copy of the lengths", text, size))
        return false;
    p->lens_q = memory;
    p->lens_kv = p->lens_q + count;
    return true;
}

static bool copy_mask(struct device_attention *device, char *text, uint64_t size)
{
    struct attention_problem *p = &device->problem;
    const struct attention_strides *s = &p->mask_strides;
    if (p->mask == NULL)
        return true;
    const uint64_t elements =
        (p->batch - 1) * s->batch + (p->heads - 1) * s->head + (p->sq - 1) * s->row + p->skv;
    const bool done = copy_up(device, DEVICE_ATTENTION_MASK, p->mask,
                              elements * dtype_size(p->mask_dtype), text, size);
    p->mask = device->memory[DEVICE_ATTENTION_MASK];
    return done;
}

/* Slopes or sinks. */
static bool copy_vector(struct device_attention *device, int part, const float **vector, char *text,
                        uint64_t size)
{
    if (*vector == NULL)
        return true;
    const bool done =
        copy_up(device, part, *vector, device->problem.heads * sizeof **vector, text, size);
    *vector = device->memory[part];
    return done;
}

bool device_attention_create(struct device_attention *device, const struct attention_sample *sample,
                             bool exact, void *stream)
{
    *device = (struct device_attention){.problem = sample->problem, .stream = stream};
    struct attention_problem *p = &device->problem;
    char text[256];
    bool done = copy_lengths(device, text, sizeof text) && copy_mask(device, text, sizeof text) &&
                copy_vector(device, DEVICE_ATTENTION_SLOPES, &p->slopes, text, sizeof text) &&
                copy_vector(device, DEVICE_ATTENTION_SINKS, &p->sinks, text, sizeof text);
    for (int part = 0; part < ATTENTION_PARTS && done; part++) {
        const struct product_buffer *buffer = &sample->buffers[part];
        const uint64_t cut = exact && part <= ATTENTION_V ? buffer->offset : 0;
        done =
            copy_up(device, part, buffer->data + cut, buffer->bytes - 2 * cut, text, sizeof text);
    }
    if (!done) {
        printf("%s\n", text);
        device_attention_destroy(device);
        return false;
    }
    p->q = start_of(device, sample, ATTENTION_Q, exact);
    p->k = start_of(device, sample, ATTENTION_K, exact);
    p->v = start_of(device, sample, ATTENTION_V, exact);
    p->o = start_of(device, sample, ATTENTION_O, false);
    if (p->lse != NULL)
        p->lse = start_of(device, sample, ATTENTION_LSE, false);
    return true;
}

void device_attention_destroy(struct device_attention *device)
{
    for (int part = 0; part < DEVICE_ATTENTION_PARTS; part++)
        (void)cudaFree(device->memory[part]);
    *device = (struct device_attention){.stream = NULL};
}

static bool spread(struct device_attention *device, enum attention_part part, const void **start,
                   struct attention_strides *strides, uint64_t width, uint64_t row)
{
    const uint64_t size = dtype_size(device->problem.dtype), rows = device->problem.skv;
    void *wide = NULL;
    char text[256];
    if (!succeeded(cudaMalloc(&wide, rows * row * size), "cudaMalloc", text, sizeof text) ||
        !succeeded(cudaMemcpy2D(wide, row * size, *start, strides->row * size, width * size, rows,
                                cudaMemcpyDeviceToDevice),
                   "spreading an operand", text, sizeof text)) {
        (void)cudaFree(wide);
        printf("%s\n", text);
        return false;
    }
    (void)cudaFree(device->memory[part]);
    device->memory[part] = wide;
    *start = wide;
    *strides = (struct attention_strides){rows * row, rows * row, row};
    return true;
}

bool device_attention_spread(struct device_attention *device, uint64_t row)
{
    struct attention_problem *p = &device->problem;
    return cudaStreamSynchronize(device->stream) == cudaSuccess &&
           spread(device, ATTENTION_K, &p->k, &p->k_strides, p->d, row) &&
           spread(device, ATTENTION_V, &p->v, &p->v_strides, p->dv, row);
}

static bool guard_intact(const void *guard, char *text, uint64_t size)
{
    unsigned char bytes[GUARD];
    if (!succeeded(cudaMemcpy(bytes, guard, GUARD, cudaMemcpyDeviceToHost), "the guard's copy",
                   text, size))
        return false;
    for (unsigned i = 0; i < GUARD; i++) {
        if (bytes[i] != POISON) {
            snprintf(text, size, "byte %u beyond the workspace was written", i);
            return false;
        }
    }
    return true;
}

/* O and lse with all around them, down or (their poison) up. */
static bool copy_results(struct device_attention *device, struct attention_sample *sample, bool up,
                         char *text, uint64_t size)
{
    for (int part = ATTENTION_O; part <= ATTENTION_LSE; part++) {
        const struct product_buffer *buffer = &sample->buffers[part];
        void *to = up ? device->memory[part] : buffer->data;
        const void *from = up ? buffer->data : device->memory[part];
        if (!succeeded(cudaMemcpyAsync(to, from, buffer->bytes, cudaMemcpyDefault, device->stream),
                       "the copy of a result", text, size))
            return false;
    }
    return true;
}

/* Runs up to three parts, or the whole if it cannot be divided. */
static enum gemmd_error run_divided(const struct operation_kernel *kernel,
                                    struct gemm_context *context, const struct attention_problem *p,
                                    void *workspace)
{
    const uint64_t units = operation_attention.units(kernel, p), at_once = (units + 2) / 3;
    enum gemmd_error code = GEMMD_OK;
    if (units < 2)
        return operation_run(kernel, context, p, workspace);
    for (uint64_t first = 0; first < units && code == GEMMD_OK; first += at_once) {
        const uint64_t left = units - first;
        const struct operation_range range = {first, left < at_once ? left : at_once};
        struct attention_problem part;
        operation_attention.divide(p, range, &part);
        code = kernel->takes(&part) ? operation_run(kernel, context, &part, workspace)
                                    : GEMMD_ERR_INTERNAL;
    }
    return code;
}

static bool run_in(struct device_attention *device, struct attention_sample *sample,
                   const struct operation_kernel *kernel, struct gemm_context *context,
                   char *workspace, uint64_t bytes, uint32_t launches, char *text, uint64_t size)
{
    attention_sample_poison(sample);
    if (!succeeded(cudaMemsetAsync(workspace, POISON, bytes + GUARD, device->stream), "cudaMemset",
                   text, size) ||
        !copy_results(device, sample, true, text, size))
        return false;
    const struct task task = {
        .operation = &operation_attention, .kernel = kernel, .problem.attention = device->problem};
    enum gemmd_error code = launches == DIVIDED
                                ? run_divided(kernel, context, &device->problem, workspace)
                                : launches_run(&task, context, launches, workspace);
    if (code != GEMMD_OK) {
        snprintf(text, size, "run returned %s (%s)", error_name(code),
                 cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    return copy_results(device, sample, false, text, size) &&
           succeeded(cudaStreamSynchronize(device->stream), "the kernel", text, size) &&
           guard_intact(workspace + bytes, text, size);
}

bool device_attention_run(struct device_attention *device, struct attention_sample *sample,
                          const struct operation_kernel *kernel, struct gemm_context *context,
                          uint32_t launches, char *text, uint64_t size)
{
    void *workspace = NULL;
    uint64_t bytes;
    if (!kernel->workspace_bytes(&device->problem, &bytes)) {
        snprintf(text, size, "the workspace's size overflows");
        return false;
    }
    if (!succeeded(cudaMalloc(&workspace, bytes + GUARD), "cudaMalloc of the workspace", text,
                   size))
        return false;
    const bool right =
        run_in(device, sample, kernel, context, workspace, bytes, launches, text, size);
    return succeeded(cudaFree(workspace), "cudaFree", text, size) && right;
}

bool device_attention_run_divided(struct device_attention *device, struct attention_sample *sample,
                                  const struct operation_kernel *kernel,
                                  struct gemm_context *context, char *text, uint64_t size)
{
    return device_attention_run(device, sample, kernel, context, DIVIDED, text, size);
}

/* What a member's workspace takes, its guard included. */
static uint64_t place_of(uint64_t bytes)
{
    return (bytes + GUARD - 1) / GUARD * GUARD + GUARD;
}

static bool run_together(struct device_attention devices[], struct attention_sample samples[],
                         uint32_t count, const struct operation_kernel *kernel,
                         struct gemm_context *context, struct operation_member members[],
                         char *text, uint64_t size)
{
    uint64_t bytes;
    for (uint32_t i = 0; i < count; i++) {
        devices[i].stream = devices[0].stream;
        attention_sample_poison(&samples[i]);
        if (!copy_results(&devices[i], &samples[i], true, text, size))
            return false;
    }
    enum gemmd_error code = kernel->run_group(context, members, count);
    if (code != GEMMD_OK) {
        snprintf(text, size, "run_group returned %s (%s)", error_name(code),
                 cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!copy_results(&devices[i], &samples[i], false, text, size))
            return false;
    if (!succeeded(cudaStreamSynchronize(devices[0].stream), "the kernel", text, size))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!kernel->workspace_bytes(members[i].problem, &bytes) ||
            !guard_intact((char *)members[i].workspace + bytes, text, size))
            return false;
    return true;
}

bool device_attention_run_group(struct device_attention devices[],
                                struct attention_sample samples[], uint32_t count,
                                const struct operation_kernel *kernel, struct gemm_context *context,
                                char *text, uint64_t size)
{
    struct operation_member members[ATTENTION_GROUP_MAX];
    uint64_t total = 0, bytes;
    char *workspace = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (kernel->workspace_bytes(&devices[i].problem, &bytes))
            total += place_of(bytes);
    if (!succeeded(cudaMalloc((void **)&workspace, total), "cudaMalloc of workspaces", text, size))
        return false;
    total = 0;
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct operation_member){&devices[i].problem, workspace + total};
        if (kernel->workspace_bytes(&devices[i].problem, &bytes))
            total += place_of(bytes);
    }
    const bool right = succeeded(cudaMemsetAsync(workspace, POISON, total, devices[0].stream),
                                 "cudaMemset", text, size) &&
                       run_together(devices, samples, count, kernel, context, members, text, size);
    return succeeded(cudaFree(workspace), "cudaFree", text, size) && right;
}
