#include "kernels/conv.h"

#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "proto/dtype.h"

const struct conv_kernel *const *conv_kernels(enum gemm_backend backend)
{
    static const struct conv_kernel *const none[] = {NULL};
    const struct gemm_backend_entry *entry =
        backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
    return entry->conv != NULL ? entry->conv : none;
}

bool conv_kernel_runs_on(const struct conv_kernel *kernel, const struct gemm_device *device)
{
    return kernel->compute_capability == 0 ||
           kernel->compute_capability == device->compute_capability;
}

/* Appends a word to a list: "a, b". */
static void conv_append(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", word);
}

enum gemmd_error conv_select(const struct gemm_device *device, const char *name,
                             const struct conv_problem *problem, const struct conv_kernel **kernel,
                             struct fault *fault)
{
    const bool any = strcmp(name, "auto") == 0;
    const char *backend = device->backend == GEMM_BACKEND_CUDA ? "cuda" : "cpu";
    char names[160] = "", taking[160] = "";
    bool known = any;
    const struct conv_kernel *const *k = conv_kernels(device->backend);
    for (; *k != NULL; k++) {
        if (!conv_kernel_runs_on(*k, device))
            continue;
        const bool takes = (*k)->takes(problem), named = strcmp((*k)->name, name) == 0;
        conv_append(names, sizeof names, (*k)->name);
        if (takes)
            conv_append(taking, sizeof taking, (*k)->name);
        known |= named;
        if (takes && (any ? (*k)->preferred == NULL || (*k)->preferred(problem) : named)) {
            *kernel = *k;
            return GEMMD_OK;
        }
    }
    if (!known)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "the %s backend has no convolution kernel '%.32s'; it has: %s", backend,
                         name, names[0] != '\0' ? names : "none");
    if (taking[0] != '\0')
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "kernel '%.32s' cannot compute this convolution; these can: %s", name,
                         taking);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                     "a convolution of %s to %s with these parameters is not offered on the %s "
                     "backend",
                     dtype_name(problem->dtype), dtype_name(problem->out), backend);
}
