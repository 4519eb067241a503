/*
 * attention.h - `gemmd-bench attention`: every attention kernel of the GPU, and every tile of those
 * that have several, checked and timed on the cells of a table.
 *
 * The work is done in a child process whose state lies in memory that is shared with the parent: a
 * kernel that hangs or faults takes the child with it, the parent notes whose fault it was and
 * starts another child for what is left. The parent never touches CUDA. Next to cuDNN the kernels
 * are measured by attention_cudnn.py, through attention_library.c.
 */
#ifndef TESTS_BENCH_ATTENTION_H
#define TESTS_BENCH_ATTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

enum { ATTENTION_CELLS_MAX = 96, ATTENTION_OWN_MAX = 32, ATTENTION_WHY_MAX = 160 };

struct attention_options {
    double seconds;      /* in all; what is not reached by then is left out */
    const char *dtypes;  /* "bf16,f16" */
    const char *kernels; /* part of a kernel's name, or NULL for all */
    const char *cells;   /* parts of cells' names, separated by commas, or NULL for all */
    const char *out;     /* file for the tables, or NULL */
    bool check_only;
};

/* How the entries of a cell's batch are launched. */
enum attention_launches {
    ATTENTION_WHOLE,     /* as one attention */
    ATTENTION_TOGETHER,  /* each as a request of its own, in one group */
    ATTENTION_ONE_BY_ONE /* likewise, each by its own launch */
};

/* What is measured: heads that are contiguous, one after another. */
struct attention_cell {
    char name[48]; /* "d128 S4096 causal" */
    enum attention_launches launches;
    uint64_t batch, heads, kv_heads, sq, skv, d;
    bool causal;
};

/* attention_cells.c: up to ATTENTION_CELLS_MAX, those that are launched whole first; their number.
 * Only cells whose names contain one of the parts that commas separate, or all if NULL. */
int attention_cells(const char *containing, struct attention_cell *cells);

/* The problem of a cell, without pointers. */
struct attention_problem attention_cell_problem(const struct attention_cell *cell,
                                                enum gemmd_dtype dtype);

/* attention_own.c: a kernel of the table, or one tile of flash_wgmma. */
struct attention_own {
    const char *name;
    const struct operation_kernel *kernel;
    const struct attention_wgmma_kernel *tile; /* or NULL */
};

/* Those for a type, best first; their number. */
int attention_own_list(enum gemmd_dtype dtype, struct attention_own own[ATTENTION_OWN_MAX]);
/* Bytes of workspace that the entries of a cell take, each its own. */
uint64_t attention_own_workspace_bytes(const struct attention_own *own,
                                       const struct attention_cell *cell,
                                       const struct attention_problem *problem);
/* The cell's problem, launched as the cell says. */
enum gemmd_error attention_own_launch(const struct attention_own *own,
                                      const struct attention_cell *cell,
                                      struct gemm_context *context,
                                      const struct attention_problem *problem, void *workspace);
/* Whether it can launch as the cell says. */
bool attention_own_launches(const struct attention_own *own, const struct attention_cell *cell);
/* Whether it takes the problem and is worth measuring on it. */
bool attention_own_takes(const struct attention_own *own, const struct attention_problem *problem);
enum gemmd_error attention_own_run(const struct attention_own *own, struct gemm_context *context,
                                   const struct attention_problem *problem, void *workspace);

struct attention_result {
    float milliseconds[ATTENTION_OWN_MAX]; /* 0: not timed */
    uint32_t clock_mhz, power_watts;
    bool done;
};

/* Shared between parent and child; `kernel` is whose turn it is, or -1. */
struct attention_state {
    _Atomic uint32_t heartbeat;
    _Atomic int cell, kernel;
    _Atomic bool started, done;
    double deadline; /* CLOCK_MONOTONIC, seconds */
    enum gemmd_dtype dtype;
    int cells, kernels;
    bool check_only;
    char device[96], fault[ATTENTION_WHY_MAX];
    bool dead[ATTENTION_OWN_MAX];
    int checked[ATTENTION_OWN_MAX], wrong[ATTENTION_OWN_MAX];
    char why[ATTENTION_OWN_MAX][ATTENTION_WHY_MAX]; /* of the first fault */
    struct attention_cell cell_list[ATTENTION_CELLS_MAX];
    struct attention_own own[ATTENTION_OWN_MAX];
    struct attention_result result[ATTENTION_CELLS_MAX];
};

/* attention_measure.c, in the child: from state->cell on; false if it cannot go on. */
bool attention_measure(struct attention_state *state);

/* attention.c: the whole; returns an exit status. */
int bench_attention(const struct attention_options *options);

#endif
