/*
 * cpu_context.h - the context that CPU kernels run in, and the kernels of the CPU backend.
 */
#ifndef KERNELS_CPU_CPU_CONTEXT_H
#define KERNELS_CPU_CPU_CONTEXT_H

#include <gemmd/dtypes.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

struct cpu_context {
    struct gemm_context base;
    struct team *team;
    void *scratch; /* scratch_bytes for each member of the team, 64-byte aligned */
    uint64_t scratch_bytes;
};

static inline struct cpu_context *cpu_context_of(struct gemm_context *context)
{
    return (struct cpu_context *)context;
}

/* Whether a product has so few multiplications that one thread computes it faster than the team. */
static inline bool cpu_is_small(uint64_t m, uint64_t n, uint64_t k)
{
    return (double)m * (double)n * (double)k < 1e6;
}

/* Computes a group by `run_set`, a set of at most CPU_SET_PROBLEMS problems at a time: a kernel has
 * what it knows of the problems of a set on its stack. Ends at the first error. */
enum { CPU_SET_PROBLEMS = 64 };
static inline enum gemmd_error cpu_run_in_sets(
    struct gemm_context *context, const struct operation_member members[], uint32_t count,
    enum gemmd_error (*run_set)(struct gemm_context *context,
                                const struct operation_member members[], uint32_t count))
{
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t first = 0; first < count && code == GEMMD_OK; first += CPU_SET_PROBLEMS) {
        const uint32_t left = count - first;
        code = run_set(context, members + first, left < CPU_SET_PROBLEMS ? left : CPU_SET_PROBLEMS);
    }
    return code;
}

/* The scratch memory in bytes that the kernels `tiled` of products and of attention, and
 * `depthwise` and `implicit` of convolutions, need for each thread, for any problem. Multiples
 * of 64. */
uint64_t tiled_scratch_bytes(void);
uint64_t attention_tiled_scratch_bytes(void);
uint64_t conv_depthwise_scratch_bytes(void);
uint64_t conv_implicit_scratch_bytes(void);

/* Whether `tiled` computes so few rows that it reads B where it is. Pure. */
bool tiled_reads_b(const struct gemm_problem *problem);

/* Creates a context of one thread beside another context, in whose `stops` (cpu_watch_begin) a
 * kernel may run in this one. OpenBLAS keeps the number of threads of the other context. A product
 * that OpenBLAS computes in one call has the same bits in both. */
enum gemmd_error cpu_context_beside(struct gemm_context **context, struct fault *fault);

/* Has the kernels that run in the context ask `stops` every few milliseconds whether they have to
 * stop, until cpu_watch_end. The context's threads call `stops` at the same time. A kernel that
 * stops returns GEMMD_OK with an incomplete result. Small problems are computed without asking. */
void cpu_watch_begin(struct gemm_context *context, bool (*stops)(void *argument), void *argument);
/* Ends the watch. Returns whether a kernel has stopped early. */
bool cpu_watch_end(struct gemm_context *context);

/* Measures the floating-point operations a second that the threads of the context compute together
 * on operands of each type, from the first cache and with the fastest instructions of this
 * processor, and the bytes of memory that they read together. 0: not known. Takes some 20 ms, in
 * which nothing else may run in the context. */
void cpu_roofs_measure(struct gemm_context *context, double flops[GEMMD_DTYPE_COUNT],
                       double *memory_bytes);

/* freivalds_check on the CPU (kernels/freivalds.h). */
enum gemmd_error cpu_check(struct gemm_context *context, const struct gemm_problem *problem,
                           uint64_t seed, double *residuals, void *workspace);

extern const struct operation_kernel attention_cpu_naive, attention_cpu_tiled;
extern const struct operation_kernel conv_cpu_naive, conv_cpu_product, conv_cpu_implicit;
extern const struct operation_kernel conv_cpu_depthwise;
extern const struct operation_kernel experts_cpu_naive, experts_cpu_gathered;
extern const struct operation_kernel gemm_cpu_naive, gemm_cpu_tiled, gemm_cpu_openblas;
extern const struct operation_kernel reduce_cpu_naive, reduce_cpu_vector;
extern const struct operation_kernel softmax_cpu_naive, softmax_cpu_vector;

#endif
