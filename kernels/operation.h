/*
 * operation.h - the interface of an operation and of its kernels, and the choice of a kernel.
 *
 * An operation is what a request asks a device to compute: an attention, for example. Each
 * operation has a struct of its own for its problems (struct attention_problem), a list of kernels
 * for each backend, and one struct operation, which tells the rest of the daemon everything that it
 * needs to know to run the problems: where the operands and results are, how large the computation
 * is, and which problems can share a launch. operations.h lists the operations. Products are not
 * among them. They have an interface of their own (gemm.h), because they are stacked, padded and
 * verified.
 *
 * The word part stands for three things, and each declaration says for which: the operands and
 * results of a problem are its parts (struct operation_part); a kernel's computation consists of
 * parts, each of which one thread block computes (operation_kernel.parts); and a problem that
 * several devices share is divided into parts (operation.divide).
 *
 * `problem` is always a pointer to the operation's own struct. Its pointers are in the memory of
 * the context's backend (host memory for the CPU), and each is aligned to its elements. A result
 * must not overlap an operand. A kernel allocates nothing.
 *
 * All functions except those that run a kernel are pure and may be called by any thread.
 */
#ifndef KERNELS_OPERATION_H
#define KERNELS_OPERATION_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "kernels/operation_number.h"
#include "proto/error.h"

/* Some of the units or parts of a problem: number `first` to first + count - 1. A unit is the least
 * that a problem can be divided by (operation.units): an entry of a batch, for example. */
struct operation_range {
    uint64_t first, count;
};

/* One problem of a group, with a workspace of its own (NULL if it needs none). */
struct operation_member {
    const void *problem;
    void *workspace;
};
enum { OPERATION_GROUP_MAX = 1024 };

/* A kernel. The members have the meaning that they have in struct gemm_kernel. */
struct operation_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* the only one the kernel runs on, 90 for 9.0; 0: any device */
    uint32_t share_factor;
    bool (*takes)(const void *problem);
    /* A faster kernel for a problem that this kernel takes, or NULL. Automatic selection chooses
     * the faster kernel if it runs on the device and takes the problem. The bits of the two kernels
     * may differ, so the result must not depend on the number of rows or of entries of a batch.
     * NULL: there is no faster kernel. */
    const struct operation_kernel *(*preferred_kernel)(const void *problem);
    bool (*workspace_bytes)(const void *problem, uint64_t *out);
    enum gemmd_error (*run)(struct gemm_context *context, const void *problem, void *workspace);
    /* The number of parts that a problem has, and `run` for some of its parts only. A part is what
     * one thread block computes, with the same bits in whatever launch, so a long computation may
     * be cut into several launches (launch_cut.h). Problems with parts need no workspace. NULL: the
     * kernel computes a problem in one launch. */
    uint64_t (*parts)(struct gemm_context *context, const void *problem);
    enum gemmd_error (*run_parts)(struct gemm_context *context, const void *problem,
                                  struct operation_range parts);
    /* The most operations that one launch should have, as operation->launch_cost counts them, if
     * the kernel has parts. */
    double launch_flops;
    /* Computes 1 to OPERATION_GROUP_MAX problems together, each with the same bits as `run`. The
     * problems are of one group (operation->group_traits), or all are small
     * (operation->is_small) and of any kind that the kernel takes. The list of members is not read
     * after the function returns. On CUDA, operands and results of small problems may be in mapped
     * host memory. NULL: the kernel computes one problem at a time. */
    enum gemmd_error (*run_group)(struct gemm_context *context,
                                  const struct operation_member members[], uint32_t count);
    /* The most work that a group may have, as operation->group_units counts. The limit bounds how
     * long a request waits for the others of its group. */
    uint32_t group_units;
};

/* The operands and results that a problem points to, in the order in which they are copied. */
enum { OPERATION_PARTS_MAX = 8, OPERATION_OPERANDS_MAX = 6 };
struct operation_part {
    size_t field;   /* offset, in the problem's struct, of the pointer to the part */
    uint64_t bytes; /* from the pointer on; 0: the problem has no such part */
    bool is_result;
    bool is_whole; /* every part of a divided problem needs all of it (operation->divide) */
};

/* The properties that the problems of one group share, for comparing and hashing. */
struct operation_traits {
    uint64_t words[2];
};

/* A small problem with a known answer, for the self-test. */
struct operation_known {
    uint64_t bytes; /* of host memory for operands and results, aligned to 256 */
    uint32_t cases;
    /* Makes case number `index` with operands in `memory`, and fills the results with bytes that
     * are not the answer. */
    void (*init)(uint32_t index, void *memory, void *problem);
    /* Whether the result is the known answer. If not, the first wrong element is at (*row,
     * *column). */
    bool (*check)(const void *problem, uint64_t *row, uint64_t *column);
};

enum { OPERATION_LENGTHS = 3 };

/* A length of a product or of a similar problem as it counts for fair shares: at least 16. Kernels
 * compute tiles, and take about as long for a problem with shorter lengths. */
static inline double operation_length(uint64_t length)
{
    return length < 16 ? 16 : (double)length;
}

struct operation {
    const char *name; /* "attention": in /info, in metrics and in messages */
    enum operation_number number;

    /* Fills in the parts of a problem. A pointer of the problem is only tested for NULL. Returns
     * the number of parts; 0: a size overflows. */
    uint32_t (*parts)(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX]);
    /* The type of the operands, and the type of the result. */
    enum gemmd_dtype (*dtype)(const void *problem);
    /* The lengths by which metrics tell shapes apart, and their names. */
    const char *length_names[OPERATION_LENGTHS];
    void (*lengths)(const void *problem, uint64_t lengths[OPERATION_LENGTHS]);
    /* Floating-point operations, for metrics and limits. */
    double (*flops)(const void *problem);
    /* Floating-point operations for fair shares, with short lengths counted as operation_length
     * says. NULL: `flops`. */
    double (*share_flops)(const void *problem);
    /* Bytes of operands and results, each counted once: the least that a kernel has to read and
     * write. */
    double (*moved_bytes)(const void *problem);
    /* The cost by which a problem is cut into launches, in operations. NULL: `flops`. */
    double (*launch_cost)(const void *problem);

    /* Small problems are computed from mapped host memory, in one launch with the small products
     * and problems of any operation that wait. NULL: no problem is small. */
    bool (*is_small)(const void *problem);
    /* Problems with equal traits, computed by the same kernel, can share a launch with copies
     * (operation_kernel.run_group). NULL: none can. */
    struct operation_traits (*group_traits)(const void *problem);
    /* The work of a problem of a group, at least 1. NULL: 1. */
    uint32_t (*group_units)(const void *problem);

    /* How a problem can be divided over several devices. `units`: the most units that the problem
     * can be divided into; 0 or 1: it cannot be divided. `divide`: sets `part` to the problem that
     * computes some of the units. The results of the parts have the same bits as in the whole.
     * NULL: no problem can be divided. */
    uint64_t (*units)(const void *problem);
    void (*divide)(const void *problem, struct operation_range units, void *part);

    /* A small problem with operands and a result of these types, for /info; false: the operation
     * offers no such types. */
    bool (*example)(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem);
    /* Another small problem, for kernels that take special problems only. NULL: there is none. */
    bool (*special_example)(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem);
    /* Makes problem number `index` of the problems that load the code of all kernels; false: there
     * are no more. The pointers to optional operands and results only say whether these are
     * present. */
    bool (*warm)(uint32_t index, void *problem);
    struct operation_known known;
};

/* The kernels of a backend, best first, NULL-terminated. */
const struct operation_kernel *const *operation_kernels(const struct operation *operation,
                                                        enum gemm_backend backend);

bool operation_kernel_runs_on(const struct operation *operation,
                              const struct operation_kernel *kernel,
                              const struct gemm_device *device);

/* The kernel that automatic selection chooses where `kernel` is the first of the list that takes
 * the problem: the faster kernel that `kernel` names, or else `kernel` itself. */
const struct operation_kernel *operation_preferred(const struct operation *operation,
                                                   const struct gemm_device *device,
                                                   const struct operation_kernel *kernel,
                                                   const void *problem);

/* As gemm_select. If no kernel of the device takes the problem, the fault is at the dtype and lists
 * the dtypes that some kernel takes. */
enum gemmd_error operation_select(const struct operation *operation,
                                  const struct gemm_device *device, const char *name,
                                  const void *problem, const struct operation_kernel **kernel,
                                  struct fault *fault);

/* Whether `kernel`, which takes the problem, computes the problem in a shared launch of small
 * problems. */
bool operation_is_small(const struct operation *operation, const struct operation_kernel *kernel,
                        const void *problem);
/* Whether `kernel`, which takes the problem, can compute the problem in a group, and the problem's
 * units do not exceed the limit of a group. */
bool operation_can_group(const struct operation *operation, const struct operation_kernel *kernel,
                         const void *problem);
/* Whether two problems of one operation, each of which operation_can_group allows, can share a
 * group; and a hash that is equal for problems that can, never 0. */
bool operation_same_group(const struct operation *operation, const struct operation_kernel *kernel,
                          const void *problem, const struct operation_kernel *other_kernel,
                          const void *other);
uint64_t operation_group_key(const struct operation *operation,
                             const struct operation_kernel *kernel, const void *problem);
uint32_t operation_group_units(const struct operation *operation, const void *problem);

/* Reads the problem's pointer to a part, and sets it. */
void *operation_part_pointer(const void *problem, const struct operation_part *part);
void operation_part_point(void *problem, const struct operation_part *part, void *to);

/* A `workspace_bytes` for kernels that need no workspace. */
bool operation_no_workspace(const void *problem, uint64_t *out);

#endif
