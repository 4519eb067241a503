/*
 * operation.h - the interface of an operation and of its kernels, and the choice of a kernel.
 *
 * An operation is what a request asks a device to compute: a product, or an attention, for example.
 * Each operation has a struct of its own for its problems (struct gemm_problem), a list of kernels
 * for each backend, and one struct operation, which tells the rest of the daemon everything that it
 * needs to know to run the problems: where the operands and results are, how large the computation
 * is, and which problems can share a launch. operations.h lists the operations.
 *
 * The operands and results of a problem are its parts (operation.parts). A problem that several
 * devices share is divided into problems of units (operation.divide), and a long one is cut into
 * several launches (launch_cut.h): of tiles (operation_kernel.tiles), or of subproblems that the
 * operation makes (operation.cut).
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

/* Some of the units or tiles of a problem: number `first` to first + count - 1. A unit is the least
 * that a problem can be divided by (operation.units): an entry of a batch, for example. */
struct operation_range {
    uint64_t first, count;
};

/* One problem of a group, with a workspace of its own (NULL if it needs none); or one problem of a
 * stack, which has no workspace. */
struct operation_member {
    const void *problem;
    void *workspace;
};
enum { OPERATION_GROUP_MAX = 1024 };

/* The share_factor of the kernels called `naive`. On two cores of an AMD EPYC these kernels took 22
 * to 122 times as long as the kernel that is chosen by default (products of 384^3 in five types,
 * and one f32 problem of each other operation). */
enum { NAIVE_SHARE_FACTOR = 64 };

/* How a kernel would compute a problem, for people (GET /info?explain=...). */
struct operation_tile {
    /* The tile: its name in the kernel's table, such as "bf16_128x256_1x2", or its rows and
     * columns, such as "128x64"; of an attention, its rows of Q and its keys. Of several launches,
     * that of the first. "": not known. */
    char name[48];
    double us; /* the time that the model behind the choice estimates; 0: there is no model */
};

struct operation_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* the only one the kernel runs on, 90 for 9.0; 0: any device */
    /* For a kernel that is far slower than others: how many times a floating-point operation counts
     * for the tenant's fair share. 0: once. */
    uint32_t share_factor;
    /* Of a product: the bits of a row of C depend on the same row of A and C0 only, not on m or
     * other rows. Rows of several requests may be stacked (stacked.h). */
    bool rows_independent;
    /* Of a product: the bits of a result do not depend on leading dimensions and strides. A library
     * may choose other code for other leading dimensions. */
    bool any_leading;
    /* Whether the kernel can compute the problem. Of the problem's pointers it looks only whether
     * an operand that may be left out is NULL. */
    bool (*takes)(const void *problem);
    /* A faster kernel for a problem that this kernel takes, or NULL. Automatic selection chooses
     * the faster kernel if it runs on the device and takes the problem. The bits of the two kernels
     * may differ, so the result must not depend on the number of entries of a batch, nor on the
     * number of rows if the bits of this kernel do not. NULL: there is no faster kernel. */
    const struct operation_kernel *(*preferred_kernel)(const void *problem);
    /* The size of the workspace that `run` needs for the problem. A pure function of the problem.
     * False: the size overflows. */
    bool (*workspace_bytes)(const void *problem, uint64_t *out);
    /* Enqueues the problem on the context's stream (CUDA) or computes it (CPU). Returns
     * GEMMD_ERR_INTERNAL if a launch failed, GEMMD_ERR_UNSUPPORTED if a library has no algorithm
     * for the problem on this device, and GEMMD_ERR_DEVICE_LOST if the CUDA context is lost. NULL:
     * a problem is computed as a group of one (run_group). Called by operation_run. */
    enum gemmd_error (*run)(struct gemm_context *context, const void *problem, void *workspace);
    /* The number of tiles that a problem has, and `run` for some of its tiles only. A tile is what
     * one thread block computes, with the same bits in whatever launch, so a long computation may
     * be cut into several launches (launch_cut.h). Problems with tiles need no workspace. NULL: the
     * kernel computes a problem in one launch. */
    uint64_t (*tiles)(struct gemm_context *context, const void *problem);
    enum gemmd_error (*run_tiles)(struct gemm_context *context, const void *problem,
                                  struct operation_range tiles);
    /* Describes the tile that `run` would choose for a problem that the kernel takes. `out` is
     * zeroed. Reads nothing of the context but properties of the device, so that any thread may
     * call it while the context computes. NULL: the kernel chooses no tile. */
    void (*tile)(struct gemm_context *context, const void *problem, struct operation_tile *out);
    /* The most floating-point operations that one launch should have, as operation->launch_cost
     * counts them, if the kernel has tiles, or the operation cuts problems itself (operation->cut).
     * A product with more of them is cut by rows or by problems of the batch, and every element has
     * the same bits as in one launch; so the product can also be divided over devices. 0: the
     * products of the kernel are computed in one launch. A kernel with tiles has another number
     * than 0. */
    double launch_flops;
    /* For a kernel that takes longer for some problems than for others of as many floating-point
     * operations: how many times one of this problem counts for launch_flops. NULL: once. */
    double (*launch_factor)(const void *problem);
    /* Computes 1 to OPERATION_GROUP_MAX problems together, each with the same bits as `run`. The
     * problems are of one group (operation->group_traits), or all are small
     * (operation->is_small) and of any kind that the kernel takes. The list of members is not read
     * after the function returns. On CUDA, operands and results of small problems may be in mapped
     * host memory, aligned to their elements. NULL: the kernel computes one problem at a time. */
    enum gemmd_error (*run_group)(struct gemm_context *context,
                                  const struct operation_member members[], uint32_t count);
    /* The most work that a group may have, as operation->group_units counts. The limit bounds how
     * long a request waits for the others of its group. */
    uint32_t group_units;
};

/* The operands and results that a problem points to. */
enum { OPERATION_PARTS_MAX = 10, OPERATION_OPERANDS_MAX = 8 };
struct operation_part {
    uint64_t bytes; /* from the problem's pointer on; 0: the problem has no such part */
    bool is_whole;  /* each of the problems of a divided problem needs all of it */
    /* Of a matrix, and of the matrices of a batch, which may be arranged (operation->arrange): the
     * rows of all of them, and the distance from one row to the next in bytes. */
    uint64_t rows, row_bytes, pitch;
    uint32_t element_bytes;
};

/* How the parts of a problem are arranged in device memory. Bit i is part i. */
struct operation_arrangement {
    uint32_t packed; /* copied from or to tensor memory, without the gaps between its rows */
    uint32_t apart;  /* rows that have no gaps on the host are moved apart */
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

/* Most rows of a stack. On an H100, 256 rows of bf16 with a B of 4096 x 4096 take 116 us, so that
 * no request waits long for the others of its stack. */
enum { OPERATION_STACK_ROWS = 512 };

/* The check of all rows of a stack, as one product (freivalds.h). */
struct operation_check {
    uint64_t seed;
    double *residuals; /* receives the residual of each row; in host memory, pinned on CUDA */
};

/* How problems that share a resident operand are computed as one problem, which has the rows of all
 * of them. kernels/stacked.h says which products can be stacked. */
struct operation_stack {
    /* Most rows of a stack of such problems in a workspace of `workspace_bytes`; 0: the problem
     * cannot be stacked. The result is the same for all problems that can share a stack. The
     * problem's shared operands are tested for being in the span of `resident_bytes` bytes that
     * begins at `resident`. Pure. */
    uint32_t (*rows_max)(const struct operation_kernel *kernel, const void *problem,
                         const void *resident, uint64_t resident_bytes, uint64_t workspace_bytes);
    /* The rows that a problem adds to a stack. */
    uint32_t (*rows)(const void *problem);
    /* Whether two problems that can be stacked can share a stack; and a hash that is equal for
     * problems that can, never 0. Pure. */
    bool (*same)(const struct operation_kernel *kernel, const void *problem,
                 const struct operation_kernel *other_kernel, const void *other);
    uint64_t (*key)(const struct operation_kernel *kernel, const void *problem);
    /* Computes the stack of `count` problems. `check`: NULL if no row is checked; the residuals are
     * in the order of the problems' rows. The list and `check` are not read after the function
     * returns. After an error all results are undefined. */
    enum gemmd_error (*run)(struct gemm_context *context, const struct operation_kernel *kernel,
                            const struct operation_member members[], uint32_t count,
                            const struct operation_check *check, void *workspace);
};

/* How a problem is cut into launches (launch_cut.h). */
struct launch_cut {
    uint64_t launches; /* 1: the problem is not cut */
    /* Tiles in all, and in each launch but the last. Or what operation->cut says. */
    uint64_t all, each, each_of_batch;
};

struct operation_small_check; /* operations.h */

/* A property of problems that not every backend computes, such as an operand that may be left out.
 * `name` is what /info calls the property, and `parameter` the parameter of a request that gives a
 * problem the property. */
struct operation_property {
    const char *name, *parameter;
    bool (*has)(const void *problem);
    /* Gives the property to a problem that `example` has made. */
    void (*give)(void *problem);
};

struct operation {
    const char *name; /* "attention": in /info, in metrics and in messages */
    enum operation_number number;

    /* The parts of a problem: `operands` operands, in the order in which a raw body holds them and
     * in which they are copied, then `results` results. fields[i] is the offset, in the problem's
     * struct, of the pointer to part i. */
    uint32_t operands, results;
    size_t fields[OPERATION_PARTS_MAX];
    /* Describes the parts of a problem; `parts` is zeroed. A pointer of the problem is only tested
     * for NULL. False: a size overflows. */
    bool (*parts)(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX]);
    /* Changes the leading dimensions and strides of a problem to those that the kernel is to
     * compute with. `resident`: bit i is set for a part that is in the device's tensor memory.
     * `device`: the device, for which rows from the host may be moved apart; NULL: they are not.
     * False: a size overflows. NULL: the parts of a problem keep their layout. */
    bool (*arrange)(const struct operation_kernel *kernel, const struct gemm_device *device,
                    uint32_t resident, void *problem, struct operation_arrangement *arrangement);
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
    /* The cost by which a problem is cut into launches, in floating-point operations. NULL:
     * `flops`. */
    double (*launch_cost)(const void *problem);
    /* Cuts a problem into launches, each of which computes a problem of its own, and sets `piece`
     * to the problem of launch number `index`. NULL: problems are cut by the tiles that their
     * kernel has (operation_kernel.tiles). */
    void (*cut)(const struct operation_kernel *kernel, const void *problem, struct launch_cut *cut);
    void (*cut_piece)(const struct launch_cut *cut, const void *problem, uint64_t index,
                      void *piece);

    /* Small problems are computed from mapped host memory, in one launch with the small problems of
     * any operation that wait. NULL: no problem is small. */
    bool (*is_small)(const void *problem);
    /* Automatic selection chooses for a small problem the first kernel that has run_group. */
    bool small_in_group;
    /* Problems with equal traits, computed by the same kernel, can share a launch with copies
     * (operation_kernel.run_group). NULL: none can. */
    struct operation_traits (*group_traits)(const void *problem);
    /* The work of a problem of a group, at least 1. NULL: 1. */
    uint32_t (*group_units)(const void *problem);
    /* Problems that share a resident operand. NULL: none are stacked. An operation has stacks or
     * groups, not both. */
    const struct operation_stack *stack;

    /* How a problem can be divided over several devices. `units`: the most units that the problem
     * can be divided into; 0 or 1: it cannot be divided. `divide`: sets `some` to the problem that
     * computes some of the units. Its results have the same bits as in the whole.
     * NULL: no problem can be divided. */
    uint64_t (*units)(const struct operation_kernel *kernel, const void *problem);
    void (*divide)(const void *problem, struct operation_range units, void *some);

    /* The check of a result after its computation (freivalds.h): the size of the check's workspace,
     * and the check, which writes the largest residual to the start of the workspace. NULL: results
     * cannot be checked. `can_check`: whether the result of this problem can. */
    bool (*can_check)(const void *problem);
    bool (*check_bytes)(const void *problem, uint64_t *out);
    enum gemmd_error (*check)(struct gemm_context *context, const void *problem, uint64_t seed,
                              void *workspace);
    /* The checks of several small problems in one launch, behind the launch that has computed them.
     * `can_check_small`: whether this small problem can be one of them; NULL: none can. The list is
     * in memory that the device reads and writes, and must stay until the launch has ended. */
    bool (*can_check_small)(const void *problem);
    enum gemmd_error (*check_small)(struct gemm_context *context,
                                    struct operation_small_check *checks, uint32_t count);

    /* Writes the types and the shape of a problem for the message that a kernel does not take the
     * problem. NULL: the message lists the types that some kernel takes. */
    void (*describe)(const void *problem, char *text, size_t size);
    /* A small problem with operands and a result of these types, for /info; false: the operation
     * offers no such types. */
    bool (*example)(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem);
    /* Another small problem, for kernels that take special problems only. NULL: there is none. */
    bool (*special_example)(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem);
    /* The properties that not every backend computes; a name of NULL ends the list. NULL: all
     * backends compute all problems that the operation offers. */
    const struct operation_property *properties;
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

/* Whether a kernel takes the problem that `example` makes with operands and a result of this type,
 * once the problem has been given the property. */
bool operation_takes_property(const struct operation *operation,
                              const struct operation_kernel *kernel,
                              const struct operation_property *property, enum gemmd_dtype dtype);

/* Selects the kernel for a problem. `name` is a kernel's name or "auto". "auto" selects the first
 * kernel of the backend's list that takes the problem, or the faster kernel that this kernel names
 * (operation_preferred). For a small problem of an operation with small_in_group, it selects the
 * first that takes the problem and has run_group, if there is one. Returns GEMMD_ERR_UNSUPPORTED if
 * no kernel has the name or the named kernel does not take the problem; `fault` lists what would be
 * taken, or names the property that no kernel of the device takes. Pure: the choice depends on the
 * device and on everything in the problem but the values of its operands. */
enum gemmd_error operation_select(const struct operation *operation,
                                  const struct gemm_device *device, const char *name,
                                  const void *problem, const struct operation_kernel **kernel,
                                  struct fault *fault);

/* Says in a clause why `kernel`, one of the backend's list, is or is not the kernel `chosen` that
 * operation_select has selected by `name`. The string is static. Pure, as operation_select. */
const char *operation_reason(const struct operation *operation, const struct gemm_device *device,
                             const char *name, const void *problem,
                             const struct operation_kernel *chosen,
                             const struct operation_kernel *kernel);

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
/* A hash of `count` words, for finding problems that can share a launch. Never 0. The high bits are
 * mixed better than the low ones. */
uint64_t operation_hash(const uint64_t *words, uint32_t count);
uint32_t operation_group_units(const struct operation *operation, const void *problem);

/* Describes the parts of a problem (operation->parts). */
bool operation_parts(const struct operation *operation, const void *problem,
                     struct operation_part parts[OPERATION_PARTS_MAX]);
/* Reads the problem's pointer to part number `part`, and sets it. */
void *operation_pointer(const struct operation *operation, const void *problem, uint32_t part);
void operation_point(const struct operation *operation, void *problem, uint32_t part, void *to);

/* Has the kernel compute one problem (operation_kernel.run). */
static inline enum gemmd_error operation_run(const struct operation_kernel *kernel,
                                             struct gemm_context *context, const void *problem,
                                             void *workspace)
{
    const struct operation_member alone = {problem, workspace};
    return kernel->run != NULL ? kernel->run(context, problem, workspace)
                               : kernel->run_group(context, &alone, 1);
}

/* The most floating-point operations that one launch of a problem should have
 * (operation_kernel.launch_flops). */
static inline double operation_launch_flops(const struct operation_kernel *kernel,
                                            const void *problem)
{
    return kernel->launch_flops /
           (kernel->launch_factor != NULL ? kernel->launch_factor(problem) : 1);
}

/* A `workspace_bytes` for kernels that need no workspace. */
bool operation_no_workspace(const void *problem, uint64_t *out);

#endif
