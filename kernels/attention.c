#include "kernels/attention.h"

#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "proto/dtype.h"
#include "proto/size.h"

struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading)
{
    const bool heads_first = layout == ATTENTION_BHSD;
    return (struct attention_strides){
        .batch = heads * length * leading,
        .head = heads_first ? length * leading : leading,
        .row = heads_first ? leading : heads * leading,
    };
}

static uint64_t attention_clamp(int64_t value, uint64_t limit)
{
    return value < 0 ? 0 : (uint64_t)value < limit ? (uint64_t)value : limit;
}

struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i)
{
    const int64_t position = (int64_t)i + (int64_t)skv - (int64_t)sq;
    struct attention_span span = {0, skv};
    if (problem->causal)
        span.end = attention_clamp(position + 1, skv);
    if (problem->windowed)
        span.first = attention_clamp(position - (int64_t)problem->window, span.end);
    return span;
}

/* The number of pairs of a query i and a key j with j < i + shift. */
static double pairs_left_of(double sq, double skv, double shift)
{
    /* Queries below `none` have no such key, those from `all` on have all. */
    double none = -shift + 1, all = skv - shift;
    none = none < 0 ? 0 : none > sq ? sq : none;
    all = all < none ? none : all > sq ? sq : all;
    return (all - none) * (none + all - 1 + 2 * shift) / 2 + (sq - all) * skv;
}

double attention_flops(const struct attention_problem *problem)
{
    const double sq = (double)problem->sq, skv = (double)problem->skv;
    double pairs = problem->causal ? pairs_left_of(sq, skv, skv - sq + 1) : sq * skv;
    if (problem->windowed)
        pairs -= pairs_left_of(sq, skv, skv - sq - (double)problem->window);
    return 2 * pairs * (double)(problem->d + problem->dv) * (double)problem->batch *
           (double)problem->heads;
}

const struct attention_kernel *const *attention_kernels(enum gemm_backend backend)
{
    static const struct attention_kernel *const none[] = {NULL};
    const struct gemm_backend_entry *entry =
        backend == GEMM_BACKEND_CUDA ? &gemm_backend_cuda : &gemm_backend_cpu;
    return entry->attention != NULL ? entry->attention : none;
}

bool attention_problem_offered(const struct attention_problem *p)
{
    uint64_t rows;
    return (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           p->d >= 1 && p->d <= ATTENTION_WIDTH_MAX && p->dv >= 1 && p->dv <= ATTENTION_WIDTH_MAX &&
           p->kv_heads >= 1 && p->heads % p->kv_heads == 0 && size_mul(p->batch, p->heads, &rows) &&
           size_mul(rows, p->sq, &rows);
}

bool attention_no_workspace(const struct attention_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
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
