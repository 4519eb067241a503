#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/check_rows.h"
#include "client/gemmctl/check_sum.h"
#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/widen.h"
#include "proto/dtype.h"

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
