#include "kernels/attention.h"

#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "proto/dtype.h"

const struct attention_kernel *const *attention_kernels(enum gemm_backend backend)
{
    static const struct attention_kernel *const none[] = {NULL};
    const struct gemm_backend_entry *entry =
        backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
    return entry->attention != NULL ? entry->attention : none;
}

static bool attention_is_left_out(const struct attention_kernel *kernel,
                                  const struct gemm_device *device)
{
    const struct attention_kernel *const *kernels = attention_kernels(device->backend);
    uint32_t left = device->without_attention;
    for (; left != 0 && *kernels != NULL; left >>= 1, kernels++)
        if ((left & 1) != 0 && *kernels == kernel)
            return true;
    return false;
}

bool attention_kernel_runs_on(const struct attention_kernel *kernel,
                              const struct gemm_device *device)
{
    return (kernel->compute_capability == 0 ||
            kernel->compute_capability == device->compute_capability) &&
           !attention_is_left_out(kernel, device);
}

/* Appends a word to a list: "a, b". */
static void attention_append(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", word);
}

/* The types in which some kernel of the device would take the problem. */
static void list_dtypes(const struct gemm_device *device, struct attention_problem problem,
                        char *text, size_t size)
{
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++) {
        problem.dtype = (enum gemmd_dtype)dtype;
        for (const struct attention_kernel *const *k = attention_kernels(device->backend);
             *k != NULL; k++) {
            if (!attention_kernel_runs_on(*k, device) || !(*k)->takes(&problem))
                continue;
            attention_append(text, size, dtype_name(problem.dtype));
            break;
        }
    }
}

const struct attention_kernel *attention_preferred(const struct gemm_device *device,
                                                   const struct attention_kernel *kernel,
                                                   const struct attention_problem *problem)
{
    const struct attention_kernel *other =
        kernel->preferred_kernel != NULL ? kernel->preferred_kernel(problem) : NULL;
    return other != NULL && attention_kernel_runs_on(other, device) && other->takes(problem)
               ? other
               : kernel;
}

enum gemmd_error attention_select(const struct gemm_device *device, const char *name,
                                  const struct attention_problem *problem,
                                  const struct attention_kernel **kernel, struct fault *fault)
{
    const bool any = strcmp(name, "auto") == 0;
    const char *backend = device->backend == GEMM_BACKEND_CUDA ? "cuda" : "cpu";
    char names[160] = "", dtypes[64] = "";
    bool known = any, taken = false;
    for (const struct attention_kernel *const *k = attention_kernels(device->backend); *k != NULL;
         k++) {
        if (!attention_kernel_runs_on(*k, device))
            continue;
        const bool takes = (*k)->takes(problem), named = strcmp((*k)->name, name) == 0;
        attention_append(names, sizeof names, (*k)->name);
        taken |= takes;
        known |= named;
        if (takes && (any || named)) {
            *kernel = any ? attention_preferred(device, *k, problem) : *k;
            return GEMMD_OK;
        }
    }
    if (!known)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "the %s backend has no attention kernel '%.32s'; it has: %s", backend,
                         name, names[0] != '\0' ? names : "none");
    if (taken)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "kernel '%.32s' cannot compute this attention; kernel=auto can", name);
    list_dtypes(device, *problem, dtypes, sizeof dtypes);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                     "attention in %s is not offered on the %s backend; these types are: %s",
                     dtype_name(problem->dtype), backend, dtypes[0] != '\0' ? dtypes : "none");
}
