/*
 * check.h - the outcome of --check, which compares a result with a reference that is computed here
 * in f64.
 */
#ifndef GEMMCTL_CHECK_H
#define GEMMCTL_CHECK_H

#include <gemmd/dtypes.h>
#include <stdint.h>

/* Multiply-adds of a reference, at most: of a larger problem, gemmctl compares rows at equal
 * distances. */
#define CHECK_WORK_MAX 0x1p32

struct check {
    uint64_t rows, rows_checked; /* rows of the result */
    uint64_t elements, wrong;    /* elements compared, and those of them that are wrong */
    uint64_t skipped;            /* elements whose operands have infinities or NaNs */
    double largest;              /* largest error, as a fraction of what is allowed */
    uint64_t at;                 /* the first wrong element: its index in the result, row-major */
    double found, expected, allowed;
};

/* What rounding to a type costs: `last` is the error of rounding, relative to the number, `least`
 * the same near 0, absolute, and `limit` the largest number. An integer type has no rounding. */
struct check_rounding {
    double last, least, limit;
};
struct check_rounding check_rounding_of(enum gemmd_dtype dtype);

/* Compares the element at index `at` of a result with the expected one, from which the element may
 * differ by `allowed`. An infinity of the right sign is right too if the expected element may reach
 * beyond `limit`, the largest number of the type. */
void check_element(struct check *check, uint64_t at, double found, double expected, double allowed,
                   double limit);

/* The number of rows from one row that is compared to the next, for a reference of `work`
 * multiply-adds. */
uint64_t check_stride(double work);

#endif
