/*
 * kernels.h - `gemmd-bench kernels`: every kernel of a type checked, then timed against cuBLASLt.
 *
 * The work is done in a child process, step by step, and its state lies in memory that is shared
 * with the parent: a kernel that hangs or faults takes the child with it, the parent notes whose
 * fault it was and starts another child for what is left. The parent never touches CUDA.
 */
#ifndef TESTS_BENCH_KERNELS_H
#define TESTS_BENCH_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/gemm.h"

enum { VARIANTS_MAX = 32, SHAPES_MAX = 512, CASES_MAX = 64, WHY_MAX = 320 };

struct bench_options {
    double seconds;       /* in all; what is not reached by then is left out */
    bool quick;           /* fewer shapes, fewer rounds */
    const char *dtypes;   /* "bf16,f16"; "tf32t", "f32t": B stored [n, k] */
    const char *shapes;   /* "4096x4096x4096,..." or NULL for the list */
    const char *list;     /* a file of shapes, a line "m n k" each, instead; or NULL */
    const char *variants; /* part of a kernel's name, or NULL for all */
    const char *out;      /* file for the tables, or NULL */
    double near_percent;  /* leaves out kernels estimated slower than the first by more; 0: none */
    bool check_only, no_check;
    int repeat; /* launches of each kernel whose bits are compared with those of the first */
    bool fused; /* time own kernels with a bias and gelu_tanh; cuBLASLt stays with the product */
};

/* A product to time. Operands of odd sizes are laid out with padded leading dimensions for our
 * kernels, and for cuBLASLt both so and as they are. */
struct bench_shape {
    uint64_t m, n, k;
    bool odd;
};

/* A product to check, against f64. */
struct bench_case {
    uint64_t m, n, k, batch;
    bool transa, transb, bias;
    double alpha, beta;
    enum gemm_act act;
    bool f32_out; /* instead of the type's own */
};

enum bench_phase { PHASE_CHECK, PHASE_TIME, PHASE_DONE };

struct bench_shape_result {
    float milliseconds[VARIANTS_MAX]; /* 0: not timed */
    float error[VARIANTS_MAX];        /* relative, against cuBLASLt's result */
    uint64_t hash[VARIANTS_MAX];
    int changed[VARIANTS_MAX];                    /* of `repeat` launches, those with other bits */
    float lt_milliseconds, lt_first_milliseconds; /* best and first of its candidates */
    float lt_tight_milliseconds;                  /* odd sizes, not padded */
    int lt_best, lt_count;
    int chosen; /* the variant that sm90_choose names */
    uint32_t sets, clock_mhz, power_watts;
    bool done;
};

/* Shared between parent and child. `variant` is whose turn it is, or -1 for none of ours. */
struct bench_state {
    _Atomic uint32_t heartbeat;
    _Atomic int phase, unit, variant;
    double deadline; /* CLOCK_MONOTONIC, seconds */
    int variants, shapes, cases;
    char device[96], libraries[96];
    double l2_bytes;
    bool dead[VARIANTS_MAX];
    int wrong[VARIANTS_MAX]; /* cases that failed; `why` tells of the first */
    char why[VARIANTS_MAX][WHY_MAX];
    int checked[VARIANTS_MAX];
    char fault[WHY_MAX]; /* of the child itself */
    struct bench_shape shape[SHAPES_MAX];
    struct bench_case cases_list[CASES_MAX];
    struct bench_shape_result result[SHAPES_MAX];
};

/* What one run over one type is made of. */
struct bench_run {
    const struct bench_options *options;
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool transb; /* B stored [n, k]: of i8 all kernels want it so, of tf32 some */
    const char *name;
    struct bench_state *state;
};

double bench_now(void);
void bench_beat(struct bench_state *state, int unit, int variant);

/* kernel_cases.c. The number of shapes; 0: the options name no shape or one that cannot be read. */
int bench_shapes(const struct bench_options *options, struct bench_shape *shapes);
int bench_cases(const struct bench_run *run, struct bench_case *cases);
uint64_t bench_leading(uint64_t width, enum gemmd_dtype dtype); /* as the kernels like it best */

/* kernel_check.c, kernel_timing.c: in the child; false if the child cannot go on. They start at
 * state->unit. */
bool bench_check(const struct bench_run *run);
bool bench_time(const struct bench_run *run);

/* kernel_summary.c: how the shapes of a run spread, of what is chosen and of the best kernel. */
void bench_summarize(const struct bench_run *run, FILE *to);
/* The fastest kernel that is right, or -1. */
int bench_best_variant(const struct bench_state *state, const struct bench_shape_result *result);

/* kernel_report.c */
void bench_report(const struct bench_run *run, FILE *to);

/* kernels.c: the whole; returns an exit status. */
int bench_kernels(const struct bench_options *options);
/* Sets the types, the precision and the layout of B of a run from the name of a type, which stays
 * the caller's. False: there is no such type. */
bool bench_type(const char *name, struct bench_run *run);

/* choice.c: what is chosen on the shapes of tables that bench_kernels wrote, from their times.
 * Returns an exit status. */
int bench_choice(const char *const paths[], int count);

#endif
