/*
 * check_rows.h - compares reductions and softmaxes with references that are computed here.
 *
 * Sums of the references are compensated (Neumaier 1974), so that the references are right to about
 * one rounding of f64. The errors that elements may have are those that PROTOCOL.md promises, and
 * twice as large in f64, because the reference rounds too.
 *
 * A sum over n elements is right up to r u sum |x|, where r = ceil(log2 n) + 8, and one more for
 * each 2^22 elements, and u is 2^-53 for f64 and 2^-24 for the other types. mean and norm2 add 4 u
 * of the result for the division and the root. For logsumexp the terms are exp(d) with
 * d = x - max; they sum up to T, and the result is right up to
 *
 *     u (sum exp(d) (|d| + 4) / T + r + 4 |log T| + 2 |max + log T| + 1).
 *
 * An element y of a softmax is right up to f (y + 2^-126), and of its logarithm up to
 * f (1 + |log y|), with f = (ceil(log2 n) + 24 + 4 s) u, where s is the largest |scale x| of the
 * row. Rounding to the type of the result adds half a unit in the last place. Results of max, min
 * and argmax, and sums of integers, are exact.
 */
#ifndef GEMMCTL_CHECK_ROWS_H
#define GEMMCTL_CHECK_ROWS_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/progress.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

/* Compare the result `y` of a request with bound operands, none of which is resident. A row is what
 * one sum is over: for a reduction, the elements of X that make one element of Y. Rows with
 * infinities or NaNs, and rows whose magnitudes overflow the type of the sum, are skipped. Both
 * functions stop early if the user interrupts. GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_CANCELLED. */
enum gemmd_error check_reduce(const struct reduce_request *request,
                              const struct reduce_operands *operands, const void *y,
                              struct progress_line *line, struct check *check);
enum gemmd_error check_softmax(const struct softmax_request *request,
                               const struct softmax_operands *operands, const void *y,
                               struct progress_line *line, struct check *check);

#endif
