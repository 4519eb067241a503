#include "kernels/gemm.h"

#include "kernels/backend.h"

static const struct gemm_backend_entry *entry_of(enum gemm_backend backend)
{
    return backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
}

uint64_t gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                      bool stays)
{
    const struct gemm_backend_entry *entry = entry_of(device->backend);
    return entry->leading == NULL ? width : entry->leading(device, dtype, width, stays);
}

const char *gemm_backend_name(enum gemm_backend backend)
{
    return entry_of(backend)->name;
}

const char *gemm_select_version(void)
{
    return "20";
}

enum gemmd_error gemm_context_create(enum gemm_backend backend, void *stream, uint32_t threads,
                                     struct gemm_context **context, struct fault *fault)
{
    return entry_of(backend)->context_create(stream, threads, context, fault);
}

void gemm_context_destroy(struct gemm_context *context)
{
    if (context != NULL)
        context->backend->context_destroy(context);
}

const char *gemm_backend_library(enum gemm_backend backend)
{
    return entry_of(backend)->library();
}
