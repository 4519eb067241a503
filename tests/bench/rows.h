/*
 * rows.h - gemmd-bench reduce and gemmd-bench softmax: the bytes a second that every kernel of
 * reductions and softmaxes reads and writes, by length and type.
 */
#ifndef TESTS_BENCH_ROWS_H
#define TESTS_BENCH_ROWS_H

struct rows_options {
    const char *command; /* "reduce" or "softmax" */
    const char *kernel;  /* name of a kernel; NULL: all */
    const char *out;     /* file of the table; NULL: standard output */
    double seconds;      /* stop after so many seconds; 0: never */
};

/* Returns the exit status. */
int bench_rows(const struct rows_options *options);

#endif
