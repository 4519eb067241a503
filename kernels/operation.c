#include "kernels/operation.h"

#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

const struct operation_kernel *const *operation_kernels(const struct operation *operation,
                                                        enum gemm_backend backend)
{
    static const struct operation_kernel *const none[] = {NULL};
    const struct gemm_backend_entry *entry =
        backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
    const struct operation_kernel *const *kernels = entry->tasks[operation->number];
    return kernels != NULL ? kernels : none;
}

static bool operation_is_left_out(const struct operation *operation,
                                  const struct operation_kernel *kernel,
                                  const struct gemm_device *device)
{
    const struct operation_kernel *const *kernels = operation_kernels(operation, device->backend);
    uint32_t left = device->without[operation->number];
    for (; left != 0 && *kernels != NULL; left >>= 1, kernels++)
        if ((left & 1) != 0 && *kernels == kernel)
            return true;
    return false;
}

bool operation_kernel_runs_on(const struct operation *operation,
                              const struct operation_kernel *kernel,
                              const struct gemm_device *device)
{
    return (kernel->compute_capability == 0 ||
            kernel->compute_capability == device->compute_capability) &&
           !operation_is_left_out(operation, kernel, device);
}

/* Appends a word to a list: "a, b". */
static void operation_append(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", word);
}

static bool operation_any_takes(const struct operation *operation, const struct gemm_device *device,
                                const void *problem)
{
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    for (; *k != NULL; k++)
        if (operation_kernel_runs_on(operation, *k, device) && (*k)->takes(problem))
            return true;
    return false;
}

/* The operand types for which some kernel of the device takes a problem. */
static void operation_list_dtypes(const struct operation *operation,
                                  const struct gemm_device *device, char *text, size_t size)
{
    union operation_problem problem;
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const enum gemmd_dtype dtype = (enum gemmd_dtype)(i / GEMMD_DTYPE_COUNT);
        if (!operation->example(dtype, (enum gemmd_dtype)(i % GEMMD_DTYPE_COUNT), &problem) ||
            !operation_any_takes(operation, device, &problem))
            continue;
        operation_append(text, size, dtype_name(dtype));
        i = ((int)dtype + 1) * GEMMD_DTYPE_COUNT - 1; /* the next operand type */
    }
}

const struct operation_kernel *operation_preferred(const struct operation *operation,
                                                   const struct gemm_device *device,
                                                   const struct operation_kernel *kernel,
                                                   const void *problem)
{
    const struct operation_kernel *other =
        kernel->preferred_kernel != NULL ? kernel->preferred_kernel(problem) : NULL;
    return other != NULL && operation_kernel_runs_on(operation, other, device) &&
                   other->takes(problem)
               ? other
               : kernel;
}

enum gemmd_error operation_select(const struct operation *operation,
                                  const struct gemm_device *device, const char *name,
                                  const void *problem, const struct operation_kernel **kernel,
                                  struct fault *fault)
{
    const bool any = strcmp(name, "auto") == 0;
    const char *backend = device->backend == GEMM_BACKEND_CUDA ? "cuda" : "cpu";
    char names[160] = "", dtypes[64] = "";
    bool known = any, taken = false;
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    for (; *k != NULL; k++) {
        if (!operation_kernel_runs_on(operation, *k, device))
            continue;
        const bool takes = (*k)->takes(problem), named = strcmp((*k)->name, name) == 0;
        operation_append(names, sizeof names, (*k)->name);
        taken |= takes;
        known |= named;
        if (takes && (any || named)) {
            *kernel = any ? operation_preferred(operation, device, *k, problem) : *k;
            return GEMMD_OK;
        }
    }
    if (!known)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "the %s backend has no %s kernel '%.32s'; it has: %s", backend,
                         operation->name, name, names[0] != '\0' ? names : "none");
    if (taken)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "kernel '%.32s' cannot compute this %s; kernel=auto can", name,
                         operation->name);
    operation_list_dtypes(operation, device, dtypes, sizeof dtypes);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                     "%s in %s is not offered on the %s backend; these types are: %s",
                     operation->name, dtype_name(operation->dtype(problem)), backend,
                     dtypes[0] != '\0' ? dtypes : "none");
}
