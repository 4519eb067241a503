#include "kernels/gemm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "proto/dtype.h"

static const struct gemm_backend_entry *entry_of(enum gemm_backend backend)
{
    return backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
}

const struct gemm_kernel *const *gemm_kernels(enum gemm_backend backend)
{
    return entry_of(backend)->kernels;
}

static bool gemm_is_left_out(const struct gemm_kernel *kernel, const struct gemm_device *device)
{
    if (device->without_gemm == 0)
        return false;
    const struct gemm_kernel *const *kernels = gemm_kernels(device->backend);
    for (uint32_t left = device->without_gemm; left != 0 && *kernels != NULL; left >>= 1, kernels++)
        if ((left & 1) != 0 && *kernels == kernel)
            return true;
    return false;
}

bool gemm_kernel_runs_on(const struct gemm_kernel *kernel, const struct gemm_device *device)
{
    return (kernel->compute_capability == 0 ||
            kernel->compute_capability == device->compute_capability) &&
           !gemm_is_left_out(kernel, device);
}

/* Lists the names of the device's kernels that take `problem`, or of all kernels if `problem` is
 * NULL. */
static void list_kernels(const struct gemm_device *device, const struct gemm_problem *problem,
                         char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    const struct gemm_kernel *const *kernels = gemm_kernels(device->backend);
    for (; *kernels != NULL; kernels++) {
        if (!gemm_kernel_runs_on(*kernels, device) ||
            (problem != NULL && !(*kernels)->takes(problem)))
            continue;
        int written = snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "",
                               (*kernels)->name);
        if (written < 0 || (size_t)written >= size - length)
            return;
        length += (size_t)written;
    }
    if (length == 0)
        snprintf(text, size, "none");
}

/* The first kernel that takes the problem and is preferred for it. `together`: only kernels that
 * can compute many problems at once. */
static const struct gemm_kernel *first_that_takes(const struct gemm_device *device,
                                                  const struct gemm_problem *problem, bool together)
{
    for (const struct gemm_kernel *const *k = entry_of(device->backend)->kernels; *k != NULL; k++)
        if ((!together || (*k)->run_group != NULL) && gemm_kernel_runs_on(*k, device) &&
            (*k)->takes(problem) && ((*k)->preferred == NULL || (*k)->preferred(problem)))
            return *k;
    return NULL;
}

static const struct gemm_kernel *gemm_choose(const struct gemm_device *device,
                                             const struct gemm_problem *problem)
{
    const struct gemm_kernel *together =
        gemm_is_small(problem) ? first_that_takes(device, problem, true) : NULL;
    return together != NULL ? together : first_that_takes(device, problem, false);
}

enum gemmd_error gemm_select(const struct gemm_device *device, const char *name,
                             const struct gemm_problem *problem, const struct gemm_kernel **kernel,
                             struct fault *fault)
{
    const struct gemm_backend_entry *entry = entry_of(device->backend);
    const bool any = strcmp(name, "auto") == 0;
    const struct gemm_kernel *chosen = any ? gemm_choose(device, problem) : NULL;
    bool known = any;
    for (const struct gemm_kernel *const *k = entry->kernels; !any && *k != NULL; k++) {
        if (!gemm_kernel_runs_on(*k, device) || strcmp((*k)->name, name) != 0)
            continue;
        known = true;
        chosen = (*k)->takes(problem) ? *k : NULL;
    }
    if (chosen != NULL) {
        *kernel = chosen;
        return GEMMD_OK;
    }
    char names[256];
    list_kernels(device, known ? problem : NULL, names, sizeof names);
    if (!known)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "the %s backend has no kernel '%.32s'; it has: auto, %s", entry->name,
                         name, names);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                     "kernel '%.32s' cannot compute %s to %s of %" PRIu64 " x %" PRIu64
                     " x %" PRIu64 " on the %s backend; these can: %s",
                     name, dtype_name(problem->dtype), dtype_name(problem->out), problem->m,
                     problem->n, problem->k, entry->name, names);
}

uint64_t gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                      bool stays)
{
    const struct gemm_backend_entry *entry = entry_of(device->backend);
    return entry->leading == NULL ? width : entry->leading(device, dtype, width, stays);
}

const char *gemm_select_version(void)
{
    return "13";
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
