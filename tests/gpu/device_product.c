#include "tests/gpu/device_product.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/gpu/launches.h"

enum { GUARD = 256, POISON = 0xff };

static bool succeeded(cudaError_t error, const char *what, char *text, uint64_t size)
{
    if (error == cudaSuccess)
        return true;
    snprintf(text, size, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError();
    return false;
}

bool device_product_create(struct device_product *device, const struct product *product, bool exact,
                           void *stream)
{
    *device = (struct device_product){.problem = product->problem, .stream = stream};
    struct gemm_problem *p = &device->problem;
    char text[256];
    for (unsigned part = 0; part < PRODUCT_PARTS; part++) {
        const struct product_buffer *buffer = &product->buffers[part];
        const uint64_t cut = exact && part != PRODUCT_C ? buffer->offset : 0;
        if (buffer->data == NULL)
            continue;
        const uint64_t bytes = buffer->bytes - 2 * cut;
        const uint64_t room = (bytes + 15) / 16 * 16; /* kernels/gemm.h: pieces of 16 bytes */
        if (!succeeded(cudaMalloc(&device->memory[part], room), "cudaMalloc", text, sizeof text) ||
            !succeeded(cudaMemcpyAsync(device->memory[part], buffer->data + cut, bytes,
                                       cudaMemcpyHostToDevice, stream),
                       "the copy of an operand", text, sizeof text)) {
            printf("%s\n", text);
            device_product_destroy(device);
            return false;
        }
        void *start = (char *)device->memory[part] + buffer->offset - cut;
        product_point(p, (enum product_part)part, start);
    }
    return true;
}

void device_product_destroy(struct device_product *device)
{
    for (unsigned part = 0; part < PRODUCT_PARTS; part++)
        (void)cudaFree(device->memory[part]);
    *device = (struct device_product){.stream = NULL};
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

static bool run_in(struct device_product *device, struct product *product,
                   const struct operation_kernel *kernel, struct gemm_context *context,
                   char *workspace, uint64_t bytes, uint32_t launches, char *text, uint64_t size)
{
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    cudaStream_t stream = device->stream;
    product_poison(product);
    if (!succeeded(cudaMemsetAsync(workspace, POISON, bytes + GUARD, stream), "cudaMemset", text,
                   size) ||
        !succeeded(cudaMemcpyAsync(device->memory[PRODUCT_C], c->data, c->bytes,
                                   cudaMemcpyHostToDevice, stream),
                   "the poisoning of C", text, size))
        return false;
    const struct task task = {
        .operation = &operation_gemm, .kernel = kernel, .problem.gemm = device->problem};
    enum gemmd_error code = launches_run(&task, context, launches, workspace);
    if (code != GEMMD_OK) {
        snprintf(text, size, "run returned %s (%s)", error_name(code),
                 cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    return succeeded(cudaMemcpyAsync(c->data, device->memory[PRODUCT_C], c->bytes,
                                     cudaMemcpyDeviceToHost, stream),
                     "the result's copy", text, size) &&
           succeeded(cudaStreamSynchronize(stream), "the kernel", text, size) &&
           guard_intact(workspace + bytes, text, size);
}

bool device_product_run(struct device_product *device, struct product *product,
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
    bool right = run_in(device, product, kernel, context, workspace, bytes, launches, text, size);
    return succeeded(cudaFree(workspace), "cudaFree", text, size) && right;
}
