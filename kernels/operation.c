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
    const struct operation_kernel *const *kernels = entry->kernels[operation->number];
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
           (device->without[operation->number] == 0 ||
            !operation_is_left_out(operation, kernel, device));
}

/* Appends a word to a list: "a, b". */
static void operation_append(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", word);
}

/* Lists the names of the device's kernels that take `problem`, or of all kernels if `problem` is
 * NULL. */
static void operation_list_kernels(const struct operation *operation,
                                   const struct gemm_device *device, const void *problem,
                                   char *text, size_t size)
{
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    text[0] = '\0';
    for (; *k != NULL; k++)
        if (operation_kernel_runs_on(operation, *k, device) &&
            (problem == NULL || (*k)->takes(problem)))
            operation_append(text, size, (*k)->name);
    if (text[0] == '\0')
        snprintf(text, size, "none");
}

/* The first kernel of the device that takes the problem; NULL: there is none. `in_group`: only
 * kernels that have run_group. */
static const struct operation_kernel *operation_first(const struct operation *operation,
                                                      const struct gemm_device *device,
                                                      const void *problem, bool in_group)
{
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    for (; *k != NULL; k++)
        if ((!in_group || (*k)->run_group != NULL) &&
            operation_kernel_runs_on(operation, *k, device) && (*k)->takes(problem))
            return *k;
    return NULL;
}

/* The operand types for which some kernel of the device takes a problem. */
static void operation_list_dtypes(const struct operation *operation,
                                  const struct gemm_device *device, char *text, size_t size)
{
    union operation_problem problem;
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const enum gemmd_dtype dtype = (enum gemmd_dtype)(i / GEMMD_DTYPE_COUNT);
        if (!operation->example(dtype, (enum gemmd_dtype)(i % GEMMD_DTYPE_COUNT), &problem) ||
            operation_first(operation, device, &problem, false) == NULL)
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

/* The kernel that "auto" selects; NULL: no kernel takes the problem. */
static const struct operation_kernel *operation_choose(const struct operation *operation,
                                                       const struct gemm_device *device,
                                                       const void *problem)
{
    const struct operation_kernel *kernel =
        operation->small_in_group && operation->is_small(problem)
            ? operation_first(operation, device, problem, true)
            : NULL;
    if (kernel == NULL)
        kernel = operation_first(operation, device, problem, false);
    return kernel != NULL ? operation_preferred(operation, device, kernel, problem) : NULL;
}

/* The kernel of the device with a name; NULL: there is none. */
static const struct operation_kernel *operation_named(const struct operation *operation,
                                                      const struct gemm_device *device,
                                                      const char *name)
{
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    while (*k != NULL &&
           (strcmp((*k)->name, name) != 0 || !operation_kernel_runs_on(operation, *k, device)))
        k++;
    return *k;
}

static enum gemmd_error fault_of_name(const struct operation *operation,
                                      const struct gemm_device *device, const char *name,
                                      struct fault *fault)
{
    char names[256];
    operation_list_kernels(operation, device, NULL, names, sizeof names);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                     "the %s backend has no kernel '%.32s' for %s; it has: %s%s",
                     gemm_backend_name(device->backend), name, operation->name,
                     strcmp(names, "none") == 0 ? "" : "auto, ", names);
}

bool operation_takes_property(const struct operation *operation,
                              const struct operation_kernel *kernel,
                              const struct operation_property *property, enum gemmd_dtype dtype)
{
    union operation_problem problem;
    if (!operation->example(dtype, dtype, &problem))
        return false;
    property->give(&problem);
    return kernel->takes(&problem);
}

/* The first property of the problem that no kernel of the device takes, where some kernel takes the
 * problem's type; NULL: there is none. */
static const struct operation_property *operation_not_offered(const struct operation *operation,
                                                              const struct gemm_device *device,
                                                              const void *problem)
{
    const enum gemmd_dtype dtype = operation->dtype(problem);
    const struct operation_property *property = operation->properties;
    union operation_problem plain;
    if (property == NULL || !operation->example(dtype, dtype, &plain) ||
        operation_first(operation, device, &plain, false) == NULL)
        return NULL;
    for (; property->name != NULL; property++) {
        const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
        while (*k != NULL && (!operation_kernel_runs_on(operation, *k, device) ||
                              !operation_takes_property(operation, *k, property, dtype)))
            k++;
        if (*k == NULL && property->has(problem))
            return property;
    }
    return NULL;
}

/* Says which kernels take the problem, or, where the operation does not describe problems, which
 * property no kernel takes or which types some kernel takes. */
static enum gemmd_error fault_of_problem(const struct operation *operation,
                                         const struct gemm_device *device, const char *name,
                                         const void *problem, struct fault *fault)
{
    const char *backend = gemm_backend_name(device->backend);
    char list[256] = "", text[128];
    if (operation->describe != NULL) {
        operation->describe(problem, text, sizeof text);
        operation_list_kernels(operation, device, problem, list, sizeof list);
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "kernel '%.32s' cannot compute %s on the %s backend; these can: %s", name,
                         text, backend, list);
    }
    if (operation_first(operation, device, problem, false) != NULL)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "kernel",
                         "kernel '%.32s' cannot compute this %s; kernel=auto can", name,
                         operation->name);
    const struct operation_property *property = operation_not_offered(operation, device, problem);
    if (property != NULL)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, property->parameter,
                         "%s with %s is not offered on the %s backend", operation->name,
                         property->name, backend);
    operation_list_dtypes(operation, device, list, sizeof list);
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                     "%s in %s is not offered on the %s backend; these types are: %s",
                     operation->name, dtype_name(operation->dtype(problem)), backend,
                     list[0] != '\0' ? list : "none");
}

enum gemmd_error operation_select(const struct operation *operation,
                                  const struct gemm_device *device, const char *name,
                                  const void *problem, const struct operation_kernel **kernel,
                                  struct fault *fault)
{
    const bool any = strcmp(name, "auto") == 0;
    const struct operation_kernel *chosen = any ? operation_choose(operation, device, problem)
                                                : operation_named(operation, device, name);
    if (chosen == NULL && !any)
        return fault_of_name(operation, device, name, fault);
    if (chosen == NULL || (!any && !chosen->takes(problem)))
        return fault_of_problem(operation, device, name, problem, fault);
    *kernel = chosen;
    return GEMMD_OK;
}

/* Why automatic selection has chosen a kernel. */
static const char *reason_of_choice(const struct operation *operation,
                                    const struct gemm_device *device, const void *problem,
                                    const struct operation_kernel *chosen)
{
    const bool in_group = operation->small_in_group && operation->is_small(problem) &&
                          operation_first(operation, device, problem, true) != NULL;
    if (operation_first(operation, device, problem, in_group) != chosen)
        return "the first kernel of the list that takes the problem names this one as faster";
    return in_group
               ? "the problem is small, and this is the first kernel of the list that computes "
                 "many small problems in one launch"
               : "this is the first kernel of the list that takes the problem";
}

const char *operation_reason(const struct operation *operation, const struct gemm_device *device,
                             const char *name, const void *problem,
                             const struct operation_kernel *chosen,
                             const struct operation_kernel *kernel)
{
    const bool any = strcmp(name, "auto") == 0;
    const struct operation_kernel *const *k = operation_kernels(operation, device->backend);
    if (kernel == chosen)
        return any ? reason_of_choice(operation, device, problem, chosen)
                   : "the request names this kernel";
    if (!operation_kernel_runs_on(operation, kernel, device))
        return "the device does not run this kernel";
    if (!kernel->takes(problem))
        return "the kernel does not take the problem";
    if (!any)
        return "the kernel takes the problem, and the request names another one";
    while (*k != NULL && *k != kernel && *k != chosen)
        k++;
    return *k == chosen ? "the kernel takes the problem, and comes later in the list, which begins "
                          "with the kernels that are faster"
                        : "the kernel takes the problem, and the chosen one is faster for it";
}
