/*
 * check.h - the option --check of a command, which compares a result with a reference that is
 * computed here in f64. check_parts.h has what the references have in common.
 */
#ifndef GEMMCTL_CHECK_H
#define GEMMCTL_CHECK_H

#include <gemmd/dtypes.h>
#include <stdint.h>

#include "proto/conv2d_request.h"
#include "proto/gemm_request.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

struct context;
struct destination;
struct progress_line;

struct check {
    uint64_t rows, rows_checked; /* rows of the result */
    uint64_t elements, wrong;    /* elements compared, and those of them that are wrong */
    uint64_t skipped;            /* elements whose operands have infinities or NaNs */
    double largest;              /* largest error, as a fraction of what is allowed */
    uint64_t at;                 /* the first wrong element: its index in the result, row-major */
    double found, expected, allowed;
};

/* Refuses --check if the result is not fetched, or an operand is a tensor on the daemon. Returns
 * EXIT_OK, or prints a sentence and returns the exit code. */
int check_run_allows(const struct context *context, const struct destination *destination);

/* Compares a result by one of the check_... functions, which gets `argument`. */
typedef enum gemmd_error check_run_compare(const void *argument, struct progress_line *line,
                                           struct check *check);
/* Writes where the element at the index `at` of the result is, for example "in row 3". */
typedef void check_run_where(const void *argument, uint64_t at, char *out, size_t room);

/* Compares the result, which is called `name`, and shows progress. Returns EXIT_OK if the result is
 * right; otherwise prints a sentence and returns the exit code. */
int check_run(const struct context *context, const char *name, check_run_compare *compare,
              check_run_where *where, const void *argument, struct check *check);

/* ---- references ---- */

/* Each function compares the result of a request with bound operands, none of which is resident.
 * All stop early if the user interrupts. GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_CANCELLED. */

/* If the product has more than 2^32 multiply-adds, only rows at equal distances are compared, so
 * many that they have about 2^32 multiply-adds, and at least one. */
enum gemmd_error check_product(const struct gemm_request *request,
                               const struct gemm_operands *operands, const void *c,
                               struct progress_line *line, struct check *check);
/* A row is a row of pixels of one channel of Y. If the convolution has more than 2^32
 * multiply-adds, only rows at equal distances are compared, which have about 2^32 multiply-adds. */
enum gemmd_error check_conv(const struct conv2d_request *request,
                            const struct conv2d_operands *operands, const void *y,
                            struct progress_line *line, struct check *check);
/* A row is what one sum is over: for a reduction, the elements of X that make one element of Y.
 * Rows with infinities or NaNs, and rows whose magnitudes overflow the type of the sum, are
 * skipped. */
enum gemmd_error check_reduce(const struct reduce_request *request,
                              const struct reduce_operands *operands, const void *y,
                              struct progress_line *line, struct check *check);
enum gemmd_error check_softmax(const struct softmax_request *request,
                               const struct softmax_operands *operands, const void *y,
                               struct progress_line *line, struct check *check);

#endif
