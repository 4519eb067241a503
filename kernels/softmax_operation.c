/* operation_softmax: the softmax as one of the operations (operations.h). */
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/size.h"

static bool rows_bytes(const struct softmax_problem *p, uint64_t leading, enum gemmd_dtype dtype,
                       uint64_t *out)
{
    uint64_t elements;
    return p->rows > 0 && size_mul(p->rows - 1, leading, &elements) &&
           size_add(elements, p->length, &elements) && size_mul(elements, dtype_size(dtype), out);
}

static bool softmax_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    const struct softmax_problem *p = problem;
    if (p->lens != NULL)
        parts[SOFTMAX_PART_LENS].bytes = size_blocks(p->rows, p->rows_per_len) * sizeof *p->lens;
    return rows_bytes(p, p->x_leading, p->dtype, &parts[SOFTMAX_PART_X].bytes) &&
           rows_bytes(p, p->y_leading, p->out, &parts[SOFTMAX_PART_Y].bytes);
}

static enum gemmd_dtype softmax_dtype(const void *problem)
{
    return ((const struct softmax_problem *)problem)->dtype;
}

static void softmax_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct softmax_problem *p = problem;
    lengths[0] = p->rows;
    lengths[1] = p->length;
    lengths[2] = 1;
}

/* The product with the scale, the maximum, the difference, the sum and the division. */
static double softmax_flops(const void *problem)
{
    const struct softmax_problem *p = problem;
    return 5 * (double)p->rows * (double)p->length;
}

static double softmax_moved_bytes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return (double)p->rows * (double)p->length * (dtype_size(p->dtype) + dtype_size(p->out));
}

/* Up to as many bytes as two operands of a product of 128. */
static bool softmax_is_small(const void *problem)
{
    return softmax_moved_bytes(problem) <= 128 * 1024;
}

/* Rows that share a length stay together. */
static uint64_t softmax_units(const struct operation_kernel *kernel, const void *problem)
{
    const struct softmax_problem *p = problem;
    (void)kernel;
    return p->lens != NULL ? size_blocks(p->rows, p->rows_per_len) : p->rows;
}

static void softmax_divide(const void *problem, struct operation_range units, void *some)
{
    const struct softmax_problem *p = problem;
    const uint64_t each = p->lens != NULL ? p->rows_per_len : 1, first = units.first * each;
    struct softmax_problem q = *p;
    q.rows = units.count * each;
    if (p->lens != NULL)
        q.lens = p->lens + units.first;
    if (p->x != NULL)
        q.x = (const char *)p->x + first * p->x_leading * dtype_size(p->dtype);
    if (p->y != NULL)
        q.y = (char *)p->y + first * p->y_leading * dtype_size(p->out);
    *(struct softmax_problem *)some = q;
}

static bool softmax_example_of(const struct array_shape *shape, enum gemmd_dtype dtype,
                               enum gemmd_dtype out, void *problem)
{
    struct softmax_problem *p = problem;
    softmax_problem_of(p, shape, 0);
    p->dtype = dtype;
    p->out = out;
    return softmax_offers(dtype, out);
}

static bool softmax_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    static const struct array_shape shape = {2, {64, 64}};
    return softmax_example_of(&shape, dtype, out, problem);
}

static bool softmax_special_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    static const struct array_shape long_rows = {2, {64, 32768}};
    return softmax_example_of(&long_rows, dtype, out, problem);
}

/* The lengths at which kernels choose other code. */
static bool softmax_warm(uint32_t index, void *problem)
{
    static const uint64_t lengths[] = {32,   64,   128,   256,   512,   1000,   2048,
                                       4096, 8192, 16384, 32768, 65536, 131072, 300000};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    struct softmax_problem *p = problem;
    const uint32_t dtype = index / LENGTHS;
    const struct array_shape shape = {2, {64, lengths[index % LENGTHS]}};
    if (dtype >= GEMMD_DTYPE_COUNT)
        return false;
    softmax_problem_of(p, &shape, 0);
    p->dtype = p->out = (enum gemmd_dtype)dtype;
    return true;
}

/* ---- the known answer: rows of two values, whose weights are 2^-k ---- */

/* Of the unmasked elements of a row, KNOWN_ZEROS at equal distances are 0 and the others -100: the
 * weights are 1/8 and 0. Rows of KNOWN_LONG elements are for the kernels of long rows. */
enum {
    KNOWN_ZEROS = 8,
    KNOWN_SHORT = 4 * KNOWN_ZEROS,
    KNOWN_LONG = 2056 * KNOWN_ZEROS,
    KNOWN_MASKED = 5,
    KNOWN_LENS = 256, /* bytes */
    KNOWN_X = 400 << 10
};

/* The distance of the zeros of a row, which begin at column known_first. */
static uint64_t known_distance(const struct softmax_problem *p)
{
    return (p->length > KNOWN_LONG ? KNOWN_LONG : KNOWN_SHORT) / KNOWN_ZEROS;
}

static uint64_t known_first(const struct softmax_problem *p, uint64_t row)
{
    const uint64_t distance = known_distance(p);
    return (distance - row % distance) % distance;
}

static void known_rows(const struct softmax_problem *p, unsigned char *x)
{
    const uint64_t size = dtype_size(p->dtype), bytes = p->rows * p->length * size;
    known_answer_store(x, -100, p->dtype);
    for (uint64_t written = size; written < bytes; written *= 2)
        memcpy(x + written, x, written < bytes - written ? written : bytes - written);
    for (uint64_t row = 0; row < p->rows; row++, x += p->length * size)
        for (uint64_t column = known_first(p, row); column < p->length; column += known_distance(p))
            known_answer_store(x + column * size, 0, p->dtype);
}

/* The cases are short rows of each type, and their logarithms, and then long rows. */
static void known_init(uint32_t index, void *memory, void *problem)
{
    const bool is_long = index >= 2 * GEMMD_DTYPE_COUNT;
    const uint64_t length = is_long ? KNOWN_LONG : KNOWN_SHORT;
    struct softmax_problem *p = problem;
    const struct array_shape shape = {3, {3, is_long ? 1 : 3, length + KNOWN_MASKED}};
    unsigned char *x = memory;
    int32_t *lens = (int32_t *)(void *)(x + (ptrdiff_t)2 * KNOWN_X);
    softmax_problem_of(p, &shape, 1);
    p->dtype = p->out = (enum gemmd_dtype)(is_long ? index - 2 * GEMMD_DTYPE_COUNT : index / 2);
    p->log = !is_long && index % 2;
    p->x = x;
    p->y = x + KNOWN_X;
    p->lens = lens;
    for (int i = 0; i < 3; i++)
        lens[i] = (int32_t)length;
    known_rows(p, x);
    memset(p->y, 0xa5, p->rows * p->length * dtype_size(p->out));
}

static bool known_check(const void *problem, uint64_t *row, uint64_t *column)
{
    const struct softmax_problem *p = problem;
    const uint64_t size = dtype_size(p->out);
    const double logarithm_of_zeros = log(KNOWN_ZEROS);
    const char *y = p->y;
    for (*row = 0; *row < p->rows; ++*row) {
        uint64_t zero = known_first(p, *row);
        for (*column = 0; *column < p->length; ++*column, y += size) {
            const bool masked = *column >= p->length - KNOWN_MASKED, is_zero = *column == zero;
            const double plain = masked || !is_zero ? 0 : 1.0 / KNOWN_ZEROS;
            const double logarithm = masked ? -INFINITY : -logarithm_of_zeros - (is_zero ? 0 : 100);
            double value;
            convert_to_f64(p->out, y, &value, 1);
            if (p->log ? !(value == logarithm || fabs(value - logarithm) <= 0x1p-8 * -logarithm)
                       : !(fabs(value - plain) <= 0x1p-16))
                return false;
            zero += is_zero ? known_distance(p) : 0;
        }
    }
    return true;
}

const struct operation operation_softmax = {
    .name = "softmax",
    .number = OPERATION_SOFTMAX,
    .operands = SOFTMAX_PART_Y,
    .results = 1,
    .fields = {[SOFTMAX_PART_LENS] = offsetof(struct softmax_problem, lens),
               [SOFTMAX_PART_X] = offsetof(struct softmax_problem, x),
               [SOFTMAX_PART_Y] = offsetof(struct softmax_problem, y)},
    .parts = softmax_parts,
    .dtype = softmax_dtype,
    .length_names = {"rows", "length", "width"},
    .lengths = softmax_lengths,
    .flops = softmax_flops,
    .moved_bytes = softmax_moved_bytes,
    .is_small = softmax_is_small,
    .units = softmax_units,
    .divide = softmax_divide,
    .example = softmax_example,
    .special_example = softmax_special_example,
    .warm = softmax_warm,
    .known = {.bytes = 2 * KNOWN_X + KNOWN_LENS,
              .cases = 3 * GEMMD_DTYPE_COUNT,
              .init = known_init,
              .check = known_check},
};
