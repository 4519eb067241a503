#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/check_parts.h"
#include "client/gemmctl/progress.h"
#include "proto/dtype.h"

/* ---- reductions ---- */

/* The expected element, its error before rounding, and whether rounding to the result's type
 * follows. */
struct expectation {
    double value, error;
    bool rounds;
};

static bool is_integer(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_I8 || dtype == GEMMD_I32;
}

static double accumulator_unit(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F64 ? 2 * 0x1p-53 : 0x1p-24;
}

/* The error of a sum, relative to the magnitudes. */
static double tree_error(const struct reduce_request *r, uint64_t n)
{
    return (check_sum_levels(n) + 8 + floor((double)n / 0x1p22)) * accumulator_unit(r->dtype);
}

/* Sums of integers are exact: 2^31 elements of i32 have a sum of 62 bits. */
static struct expectation expect_integers(const struct reduce_request *r, const double *row,
                                          uint64_t n)
{
    int64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (int64_t)row[i];
    if (r->op == REDUCE_MEAN)
        return (struct expectation){(double)sum / (double)n,
                                    4 * 0x1p-53 * fabs((double)sum / (double)n), true};
    return (struct expectation){
        r->out == GEMMD_I32 ? (double)(int32_t)(uint32_t)(uint64_t)sum : (double)sum, 0, false};
}

static uint64_t find_greatest(const double *row, uint64_t n, double sign)
{
    uint64_t found = 0;
    for (uint64_t i = 1; i < n; i++)
        if (sign * row[i] > sign * row[found])
            found = i;
    return found;
}

static struct expectation expect_logsumexp(const struct reduce_request *r, const double *row,
                                           uint64_t n)
{
    const double most = row[find_greatest(row, n, 1)], unit = accumulator_unit(r->dtype);
    struct check_sum total = {0}, weighted = {0};
    for (uint64_t i = 0; i < n; i++) {
        const double d = row[i] - most, term = exp(d);
        check_sum_add(&total, term);
        if (term > 0)
            check_sum_add(&weighted, term * (fabs(d) + 4));
    }
    const double sum = check_sum_of(&total), value = most + log(sum);
    const double error =
        unit * (check_sum_of(&weighted) / sum + 4 * fabs(log(sum)) + 2 * fabs(value) + 1) +
        tree_error(r, n);
    return (struct expectation){value, error, true};
}

/* False: the sums overflow the accumulator, so that nothing is known of the element. */
static bool expect_sum(const struct reduce_request *r, const double *row, uint64_t n,
                       struct expectation *expected)
{
    const double limit = r->dtype == GEMMD_F64 ? DBL_MAX : FLT_MAX;
    const double least = (double)n * (r->dtype == GEMMD_F64 ? DBL_MIN : FLT_MIN);
    const double unit = accumulator_unit(r->dtype);
    struct check_sum sum = {0}, magnitude = {0};
    for (uint64_t i = 0; i < n; i++) {
        const double term = r->op == REDUCE_NORM2 ? row[i] * row[i] : row[i];
        check_sum_add(&sum, term);
        check_sum_add(&magnitude, fabs(term));
    }
    const double scale = check_sum_of(&magnitude), value = check_sum_of(&sum);
    if (!(scale * (1 + tree_error(r, n)) < limit))
        return false;
    const double error = tree_error(r, n) * scale + least;
    if (r->op == REDUCE_NORM2) {
        const double root = sqrt(value), low = value > error ? sqrt(value - error) : 0;
        *expected = (struct expectation){root, root - low + 4 * unit * root, true};
    } else if (r->op == REDUCE_MEAN) {
        const double mean = value / (double)n;
        *expected = (struct expectation){mean, error / (double)n + 4 * unit * fabs(mean), true};
    } else {
        *expected = (struct expectation){value, error, true};
    }
    return true;
}

static bool expect_element(const struct reduce_request *r, const double *row, uint64_t n,
                           struct expectation *expected)
{
    if (!check_sum_finite(row, n))
        return false;
    switch (r->op) {
    case REDUCE_MAX:
    case REDUCE_MIN:
        *expected = (struct expectation){row[find_greatest(row, n, r->op == REDUCE_MAX ? 1 : -1)],
                                         0, false};
        return true;
    case REDUCE_ARGMAX:
        *expected = (struct expectation){(double)find_greatest(row, n, 1), 0, false};
        return true;
    case REDUCE_LOGSUMEXP:
        *expected = expect_logsumexp(r, row, n);
        return true;
    default:
        break;
    }
    if (!is_integer(r->dtype))
        return expect_sum(r, row, n, expected);
    *expected = expect_integers(r, row, n);
    return true;
}

static void compare(const struct reduce_request *r, const double *row, uint64_t n, uint64_t at,
                    const void *y, struct check *check)
{
    const struct check_rounding rounding = check_rounding_of(r->out);
    struct expectation expected;
    double found;
    widen(r->out, (const char *)y + at * dtype_size(r->out), 1, 1, &found);
    if (!expect_element(r, row, n, &expected)) {
        check->skipped++;
        return;
    }
    const double allowed =
        expected.rounds ? expected.error + rounding.last * (fabs(expected.value) + expected.error) +
                              rounding.least
                        : 0;
    check_element(check, at, found, expected.value, allowed, rounding.limit);
}

enum gemmd_error check_reduce(const struct reduce_request *request,
                              const struct reduce_operands *operands, const void *y,
                              struct progress_line *line, struct check *check)
{
    const struct reduce_request *r = request;
    const uint32_t axis = reduce_request_axis(r);
    const uint64_t n = r->shape.dims[axis], size = dtype_size(r->dtype);
    uint64_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < r->shape.rank; i++) {
        outer *= i < axis ? r->shape.dims[i] : 1;
        inner *= i > axis ? r->shape.dims[i] : 1;
    }
    double *row = reallocarray(NULL, n, sizeof *row);
    *check = (struct check){.rows = outer * inner};
    if (row == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t at = 0; at < check->rows && code == GEMMD_OK; at++) {
        const uint64_t first = at / inner * n * inner + at % inner;
        widen(r->dtype, (const char *)operands->x.data + first * size, inner, n, row);
        compare(r, row, n, at, y, check);
        check->rows_checked++;
        progress_part(line, "checking", at + 1, check->rows, NULL);
        if (interrupt_asked())
            code = GEMMD_ERR_CANCELLED;
    }
    free(row);
    return code;
}

/* ---- softmaxes ---- */

/* Scales the first `valid` elements of a row of X, and makes them the row's softmax or its
 * logarithm. Sets `*error` to the f of check_rows.h. False: the row is not finite. */
static bool make_expected(const struct softmax_request *r, double *row, uint64_t valid, uint64_t n,
                          double *error)
{
    const double unit = r->dtype == GEMMD_F64 ? 2 * 0x1p-53 : 0x1p-24;
    double most = -INFINITY, largest = 0;
    struct check_sum total = {0};
    for (uint64_t i = 0; i < valid; i++) {
        row[i] *= r->scale;
        most = fmax(most, row[i]);
        largest = fmax(largest, fabs(row[i]));
    }
    if (!check_sum_finite(row, valid) || largest > (r->dtype == GEMMD_F64 ? DBL_MAX : FLT_MAX) / 2)
        return false;
    for (uint64_t i = 0; i < valid; i++)
        check_sum_add(&total, exp(row[i] - most));
    for (uint64_t i = 0; i < valid; i++)
        row[i] = r->log ? row[i] - most - log(check_sum_of(&total))
                        : exp(row[i] - most) / check_sum_of(&total);
    *error = (check_sum_levels(n) + 24 + 4 * largest) * unit;
    return true;
}

static void compare_row(const struct softmax_request *r, const double *row, const double *found,
                        uint64_t valid, uint64_t n, double error, uint64_t at, struct check *check)
{
    const struct check_rounding rounding = check_rounding_of(r->out);
    for (uint64_t i = 0; i < n; i++) {
        const bool masked = i >= valid;
        const double value = masked ? (r->log ? -INFINITY : 0) : row[i];
        const double before = error * (r->log ? 1 + fabs(value) : value + FLT_MIN);
        const double allowed =
            masked ? 0 : before + rounding.last * (fabs(value) + before) + rounding.least;
        check_element(check, at + i, found[i], value, allowed, rounding.limit);
    }
}

/* The number of elements that count in a row. */
static uint64_t valid_of(const struct softmax_request *r, const struct softmax_operands *operands,
                         uint64_t row, uint64_t rows, uint64_t n)
{
    int32_t valid;
    if (r->lens == 0)
        return n;
    const uint64_t count = operands->lens.bytes / sizeof valid;
    memcpy(&valid, (const char *)operands->lens.data + row / (rows / count) * sizeof valid,
           sizeof valid);
    return (uint64_t)valid;
}

enum gemmd_error check_softmax(const struct softmax_request *request,
                               const struct softmax_operands *operands, const void *y,
                               struct progress_line *line, struct check *check)
{
    const struct softmax_request *r = request;
    const uint64_t n = r->shape.dims[r->shape.rank - 1];
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < r->shape.rank; i++)
        rows *= r->shape.dims[i];
    double *row = reallocarray(NULL, n, sizeof *row), *found = reallocarray(NULL, n, sizeof *found);
    enum gemmd_error code = row != NULL && found != NULL ? GEMMD_OK : GEMMD_ERR_OUT_OF_MEMORY;
    *check = (struct check){.rows = rows};
    for (uint64_t at = 0; at < rows && code == GEMMD_OK; at++) {
        const uint64_t valid = valid_of(r, operands, at, rows, n);
        double error = 0;
        widen(r->dtype, (const char *)operands->x.data + at * n * dtype_size(r->dtype), 1, n, row);
        widen(r->out, (const char *)y + at * n * dtype_size(r->out), 1, n, found);
        if (make_expected(r, row, valid, n, &error))
            compare_row(r, row, found, valid, n, error, at * n, check);
        else
            check->skipped += n;
        check->rows_checked++;
        progress_part(line, "checking", at + 1, rows, NULL);
        if (interrupt_asked())
            code = GEMMD_ERR_CANCELLED;
    }
    free(row);
    free(found);
    return code;
}
