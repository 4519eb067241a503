/* operation_reduce: reductions as one of the operations (operations.h). */
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/size.h"

/* X spans from its first element to its last. */
static bool x_bytes(const struct reduce_problem *p, uint64_t *out)
{
    uint64_t outer, mid, length, elements;
    return p->outer > 0 && p->mid > 0 && p->length > 0 &&
           size_mul(p->outer - 1, p->outer_stride, &outer) &&
           size_mul(p->mid - 1, p->mid_stride, &mid) &&
           size_mul(p->length - 1, p->length_stride, &length) && size_add(outer, mid, &elements) &&
           size_add(elements, length, &elements) && size_add(elements, p->width, &elements) &&
           size_mul(elements, dtype_size(p->dtype), out);
}

static bool reduce_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    const struct reduce_problem *p = problem;
    return x_bytes(p, &parts[REDUCE_PART_X].bytes) &&
           size_mul(reduce_results(p), dtype_size(p->out), &parts[REDUCE_PART_Y].bytes);
}

static enum gemmd_dtype reduce_dtype(const void *problem)
{
    return ((const struct reduce_problem *)problem)->dtype;
}

static void reduce_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct reduce_problem *p = problem;
    lengths[0] = p->outer * p->mid;
    lengths[1] = p->length;
    lengths[2] = p->width;
}

/* One operation for each element; exponentials and squares are not counted. */
static double reduce_flops(const void *problem)
{
    const struct reduce_problem *p = problem;
    return (double)reduce_results(p) * (double)p->length;
}

static double reduce_moved_bytes(const void *problem)
{
    const struct reduce_problem *p = problem;
    return reduce_flops(p) * dtype_size(p->dtype) + (double)reduce_results(p) * dtype_size(p->out);
}

/* Up to as many bytes as two operands of a product of 128, and so short that no kernel needs a
 * workspace. */
static bool reduce_is_small(const void *problem)
{
    const struct reduce_problem *p = problem;
    return reduce_moved_bytes(problem) <= 128 * 1024 && (reduce_is_of_rows(p) || p->length <= 512);
}

static uint64_t reduce_units(const struct operation_kernel *kernel, const void *problem)
{
    (void)kernel;
    return ((const struct reduce_problem *)problem)->outer;
}

static void reduce_divide(const void *problem, struct operation_range units, void *some)
{
    const struct reduce_problem *p = problem;
    struct reduce_problem q = *p;
    q.outer = units.count;
    if (p->x != NULL)
        q.x = (const char *)p->x + units.first * p->outer_stride * dtype_size(p->dtype);
    if (p->y != NULL)
        q.y = (char *)p->y + units.first * p->mid * p->width * dtype_size(p->out);
    q.y_width = q.y_leading = reduce_results(&q);
    *(struct reduce_problem *)some = q;
}

static bool reduce_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    static const struct array_shape shape = {2, {64, 64}};
    struct reduce_problem *p = problem;
    reduce_problem_of(p, &shape, 1, 64);
    p->dtype = dtype;
    p->out = out;
    for (int op = 0; op < REDUCE_OP_COUNT; op++) {
        p->op = (enum reduce_op)op;
        if (reduce_offers(p->op, dtype, out))
            return true;
    }
    return false;
}

/* The default types of each operation, over the last and the first axis, by the lengths at which
 * kernels choose other code. */
static bool reduce_warm(uint32_t index, void *problem)
{
    static const uint64_t lengths[] = {32, 128, 512, 4096, 100000};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    struct reduce_problem *p = problem;
    const uint64_t length = lengths[index / 2 % LENGTHS];
    const struct array_shape rows = {2, {64, length}}, columns = {2, {length, 64}};
    if (index / (2 * LENGTHS) / GEMMD_DTYPE_COUNT >= REDUCE_OP_COUNT)
        return false;
    if (index % 2 == 0)
        reduce_problem_of(p, &rows, 1, length);
    else
        reduce_problem_of(p, &columns, 0, 64);
    p->op = (enum reduce_op)(index / (2 * LENGTHS) / GEMMD_DTYPE_COUNT);
    p->dtype = (enum gemmd_dtype)(index / (2 * LENGTHS) % GEMMD_DTYPE_COUNT);
    p->out = reduce_default_out(p->op, p->dtype);
    return true;
}

/* ---- the known answer: small integers, whose sums every type represents ---- */

enum { KNOWN_OUTER = 3, KNOWN_LENGTH = 41, KNOWN_WIDTH = 7, KNOWN_X = 8 * 1024, KNOWN_Y = 1024 };

/* In each column the values are 0 or 1, but for one 3, whose place depends on the column. */
static int known_value(uint64_t result, uint64_t l)
{
    return l == (5 * result + 3) % KNOWN_LENGTH ? 3 : (int)((l + result) % 2);
}

/* Cases: each operation and type, over the last axis and over one before the last. */
static void known_init(uint32_t index, void *memory, void *problem)
{
    struct reduce_problem *p = problem;
    const struct array_shape rows = {2, {KNOWN_OUTER * KNOWN_WIDTH, KNOWN_LENGTH}},
                             columns = {3, {KNOWN_OUTER, KNOWN_LENGTH, KNOWN_WIDTH}};
    unsigned char *x = memory;
    if (index % 2 == 0)
        reduce_problem_of(p, &rows, 1, KNOWN_LENGTH);
    else
        reduce_problem_of(p, &columns, 1, KNOWN_WIDTH);
    p->dtype = (enum gemmd_dtype)(index / 2 % GEMMD_DTYPE_COUNT);
    p->op = (enum reduce_op)(index / 2 / GEMMD_DTYPE_COUNT);
    p->out = reduce_default_out(p->op, p->dtype);
    p->x = x;
    p->y = x + KNOWN_X;
    for (uint64_t o = 0; o < p->outer; o++)
        for (uint64_t l = 0; l < KNOWN_LENGTH; l++)
            for (uint64_t c = 0; c < p->width; c++)
                known_answer_store(x + (o * p->outer_stride + l * p->length_stride + c) *
                                           dtype_size(p->dtype),
                                   known_value(o * p->width + c, l), p->dtype);
    memset(p->y, 0xa5, KNOWN_Y);
}

static double known_result(const struct reduce_problem *p, uint64_t result)
{
    double sum = 0, squares = 0, exponentials = 0;
    for (uint64_t l = 0; l < KNOWN_LENGTH; l++) {
        const double value = known_value(result, l);
        sum += value;
        squares += value * value;
        exponentials += exp(value - 3);
    }
    switch (p->op) {
    case REDUCE_SUM:
        return sum;
    case REDUCE_MEAN:
        return sum / KNOWN_LENGTH;
    case REDUCE_MAX:
        return 3;
    case REDUCE_MIN:
        return 0;
    case REDUCE_NORM2:
        return sqrt(squares);
    case REDUCE_LOGSUMEXP:
        return 3 + log(exponentials);
    default:
        return (double)((5 * result + 3) % KNOWN_LENGTH);
    }
}

static bool known_check(const void *problem, uint64_t *row, uint64_t *column)
{
    const struct reduce_problem *p = problem;
    const double tolerance = p->out == GEMMD_BF16  ? 0x1p-8
                             : p->out == GEMMD_F16 ? 0x1p-10
                                                   : 0x1p-18;
    for (uint64_t i = 0; i < reduce_results(p); i++) {
        const double wanted = known_result(p, i);
        double value;
        convert_to_f64(p->out, (const char *)p->y + i * dtype_size(p->out), &value, 1);
        if (!(fabs(value - wanted) <= tolerance * wanted)) {
            *row = i / p->width;
            *column = i % p->width;
            return false;
        }
    }
    return true;
}

const struct operation operation_reduce = {
    .name = "reduce",
    .number = OPERATION_REDUCE,
    .operands = REDUCE_PART_Y,
    .results = 1,
    .fields = {[REDUCE_PART_X] = offsetof(struct reduce_problem, x),
               [REDUCE_PART_Y] = offsetof(struct reduce_problem, y)},
    .parts = reduce_parts,
    .dtype = reduce_dtype,
    .length_names = {"rows", "length", "width"},
    .lengths = reduce_lengths,
    .flops = reduce_flops,
    .moved_bytes = reduce_moved_bytes,
    .is_small = reduce_is_small,
    .units = reduce_units,
    .divide = reduce_divide,
    .example = reduce_example,
    .warm = reduce_warm,
    .known = {.bytes = KNOWN_X + KNOWN_Y,
              .cases = 2 * GEMMD_DTYPE_COUNT * REDUCE_OP_COUNT,
              .init = known_init,
              .check = known_check},
};
