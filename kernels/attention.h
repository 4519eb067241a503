/*
 * attention.h - the interface of the attention kernels, and the choice of a kernel for a problem.
 *
 *   S = cap(scale * Q * K^T),  O = softmax(S over the unmasked keys) * V
 *
 * for each of batch x heads; head h of Q uses head h / (heads / kv_heads) of K and V. Products,
 * softmax and sums are computed in f32, and O is rounded once to the operands' type.
 * cap(s) = softcap * tanh(s / softcap), or s if softcap is 0.
 *
 * Masks: query i of a batch entry with sq queries and skv keys has position p = i + skv - sq among
 * the keys (bottom-right alignment). The query sees key j if j <= p or the attention is not causal,
 * and j >= p - window or there is no window. Masked keys and values have no influence on the
 * result, even if they are NaN. A query that sees no key, or that lies beyond the length of its
 * entry, has zeros in O and minus infinity in lse. A query that sees keys has NaN in O if any score
 * is NaN or plus infinity, or if all scores are minus infinity, as IEEE arithmetic gives for the
 * formula above.
 *
 * lse is the logarithm of the sum of exp(S) over the keys that a query sees.
 *
 * Pointers are in the memory of the context's backend (host memory for the CPU), and each is
 * aligned to its elements. O must not overlap an operand. A kernel allocates nothing, and its
 * workspace grows with sq + skv, never with their product.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/attention_request.h"
#include "proto/error.h"

/* The distance from one batch entry, head and row to the next, in elements. The elements of a row
 * are contiguous. */
struct attention_strides {
    uint64_t batch, head, row;
};

struct attention_problem {
    enum gemmd_dtype dtype;
    uint64_t batch, heads, kv_heads, sq, skv, d, dv;
    bool causal, windowed;
    uint64_t window;
    float scale, softcap;
    const int32_t *lens_q, *lens_kv; /* [batch], or both NULL: every entry has sq and skv */
    const void *q, *k, *v;
    void *o;
    float *lse; /* [batch, heads, sq], contiguous, or NULL */
    struct attention_strides q_strides, k_strides, v_strides, o_strides;
};

/* The strides of a tensor of `heads` heads with `length` rows each; rows of a head, or of all heads
 * if the layout interleaves them, are `leading` elements apart. */
struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading);

/* The keys that a query sees, from `first` to end - 1; none if first == end. */
struct attention_span {
    uint64_t first, end;
};
/* The keys that query i < sq sees. `sq` and `skv` are the lengths of its batch entry. */
struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i);

/* The number of multiplications and additions in the two products, over all pairs of a query and a
 * key that the query sees. Every entry counts with full length. For metrics. */
double attention_flops(const struct attention_problem *problem);

/* One attention of a group, with a workspace of its own (NULL if it needs none). */
struct attention_member {
    const struct attention_problem *problem;
    void *workspace;
};

/* Some of the parts of a problem: first ... first + count - 1. */
struct attention_range {
    uint64_t first, count;
};

/* A kernel. The members have the meaning that they have in struct gemm_kernel. */
struct attention_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* the only one the kernel runs on, 90 for 9.0; 0: any device */
    bool (*takes)(const struct attention_problem *problem);
    /* A faster kernel for a problem that this kernel takes, or NULL. Automatic selection chooses
     * the faster kernel if it runs on the device and takes the problem. The bits of the two kernels
     * may differ, so the result must depend on the sizes of a batch entry only, never on the number
     * of entries. NULL: there is no faster kernel. */
    const struct attention_kernel *(*preferred_kernel)(const struct attention_problem *problem);
    bool (*workspace_bytes)(const struct attention_problem *problem, uint64_t *out);
    enum gemmd_error (*run)(struct gemm_context *context, const struct attention_problem *problem,
                            void *workspace);
    /* The number of parts that a problem has, and `run` for some of its parts only. A part is what
     * one thread block computes, with the same bits in whatever launch, so a long attention may be
     * cut into several launches (launch_cut.h). Problems with parts need no workspace. NULL: the
     * kernel computes a problem in one launch. */
    uint64_t (*parts)(struct gemm_context *context, const struct attention_problem *problem);
    enum gemmd_error (*run_parts)(struct gemm_context *context,
                                  const struct attention_problem *problem,
                                  struct attention_range parts);
    /* The operations that one launch should have, if the kernel has parts. Heads of fewer than 64
     * columns count as having 64. */
    double launch_flops;
    /* Computes 1 to ATTENTION_GROUP_MAX attentions together (attention_grouped.h), each with the
     * same bits as `run`. The list of members is not read after the function returns. NULL: the
     * kernel computes one attention at a time. */
    enum gemmd_error (*run_group)(struct gemm_context *context,
                                  const struct attention_member members[], uint32_t count);
    /* The most work that a group may have, in units of attention_group_units. The limit bounds how
     * long a request waits for the others of its group. */
    uint32_t group_units;
};

/* The kernels of a backend, best first, NULL-terminated. */
const struct attention_kernel *const *attention_kernels(enum gemm_backend backend);

bool attention_kernel_runs_on(const struct attention_kernel *kernel,
                              const struct gemm_device *device);

/* The kernel that automatic selection chooses where `kernel` is the first of the list that takes
 * the problem: the faster kernel that `kernel` names, or else `kernel` itself. */
const struct attention_kernel *attention_preferred(const struct gemm_device *device,
                                                   const struct attention_kernel *kernel,
                                                   const struct attention_problem *problem);

/* As gemm_select. If no kernel of the device takes the problem, the fault is at the dtype and lists
 * the dtypes that some kernel takes. */
enum gemmd_error attention_select(const struct gemm_device *device, const char *name,
                                  const struct attention_problem *problem,
                                  const struct attention_kernel **kernel, struct fault *fault);

#endif
