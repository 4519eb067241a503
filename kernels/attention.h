/*
 * attention.h - the one interface of every attention kernel.
 *
 *   S = cap(scale * Q * K^T),  O = softmax(S over the keys that are seen) * V
 *
 * for each of batch x heads; head h of Q uses head h / (heads / kv_heads) of K and V. Products,
 * softmax and sums are computed in f32 and O is rounded once to the operands' type.
 * cap(s) = softcap * tanh(s / softcap), or s if softcap is 0.
 *
 * Query i of an entry with sq queries and skv keys stands at position p = i + skv - sq among the
 * keys (aligned to the bottom right). It sees the keys j >= p - window, if there is a window, and
 * j <= p, if causal. What it does not see has no influence, NaN or not. A query that sees no key,
 * or lies beyond its entry's length, has zeros in O and minus infinity in lse. One that sees keys
 * has NaN if any score is NaN or plus infinity, or if all are minus infinity, as the three steps in
 * IEEE arithmetic do.
 *
 * lse is the logarithm of the sum of exp(S) over the keys seen.
 *
 * Pointers are in the memory of the context's backend (host memory for the CPU), each aligned to
 * its elements. O overlaps no operand. Nothing is allocated here, and memory grows with sq + skv,
 * never with their product.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/attention_request.h"
#include "proto/error.h"

/* Elements from one batch entry, head and row to the next; the elements of a row are contiguous. */
struct attention_strides {
    uint64_t batch, head, row;
};

struct attention_problem {
    enum gemmd_dtype dtype;
    uint64_t batch, heads, kv_heads, sq, skv, d, dv;
    bool causal, windowed;
    uint64_t window;
    float scale, softcap;
    const int32_t *lens_q, *lens_kv; /* [batch], or both NULL: all of sq and skv */
    const void *q, *k, *v;
    void *o;
    float *lse; /* [batch, heads, sq], contiguous, or NULL */
    struct attention_strides q_strides, k_strides, v_strides, o_strides;
};

/* The strides of a tensor of `heads` heads of `length` rows that lie `leading` elements apart. */
struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading);

/* The keys that a query sees: first ... end - 1; none if first == end. */
struct attention_span {
    uint64_t first, end;
};
/* `sq` and `skv` are the entry's own lengths; i < sq. */
struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i);

/* Multiplications and additions of the two products over the pairs that the masks leave, with
 * entries of full length. For metrics. */
double attention_flops(const struct attention_problem *problem);

/* One attention of a group, with its own workspace (NULL if it needs none). */
struct attention_member {
    const struct attention_problem *problem;
    void *workspace;
};

/* One kernel; as struct gemm_kernel. */
struct attention_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* of the only GPUs it runs on, 90 for 9.0; 0: any device */
    bool (*takes)(const struct attention_problem *problem);
    /* The kernel that kernel=auto takes instead, where it runs and takes the problem too, because
     * it is faster; or NULL. A function of the sizes of an entry, never of how many there are: bits
     * may differ. NULL: there is none. */
    const struct attention_kernel *(*yields)(const struct attention_problem *problem);
    bool (*workspace_bytes)(const struct attention_problem *problem, uint64_t *out);
    enum gemmd_error (*run)(struct gemm_context *context, const struct attention_problem *problem,
                            void *workspace);
    /* Computes 1 ... ATTENTION_GROUP_MAX attentions together (attention_grouped.h): each as `run`
     * does, to the bit. The list is read before this returns. NULL: the kernel takes one at a
     * time. */
    enum gemmd_error (*run_group)(struct gemm_context *context,
                                  const struct attention_member members[], uint32_t count);
    /* How much work a group may be together, in units of attention_group_units: so little that
     * nobody waits long for his neighbours, so much that the launch is worth it. */
    uint32_t group_units;
};

/* The kernels of a backend, best first, NULL-terminated. */
const struct attention_kernel *const *attention_kernels(enum gemm_backend backend);

bool attention_kernel_runs_on(const struct attention_kernel *kernel,
                              const struct gemm_device *device);

/* The kernel that kernel=auto takes where `kernel`, which takes the problem, comes first in the
 * list: itself, or the one that it yields to. */
const struct attention_kernel *attention_faster(const struct gemm_device *device,
                                                const struct attention_kernel *kernel,
                                                const struct attention_problem *problem);

/* As gemm_select; a dtype that no kernel of the device takes is named as such. */
enum gemmd_error attention_select(const struct gemm_device *device, const char *name,
                                  const struct attention_problem *problem,
                                  const struct attention_kernel **kernel, struct fault *fault);

#endif
