/* operation_gemm: the functions and tables of operation.h for products. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/freivalds.h"
#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "kernels/stacked.h"
#include "kernels/subproblem.h"
#include "proto/dtype.h"
#include "proto/size.h"

/* A matrix as stored: not transposed. */
struct matrix {
    uint64_t rows, columns, *leading, *stride; /* elements; the pointers are into the problem */
    enum gemmd_dtype dtype;
};

static struct matrix gemm_matrix_a(struct gemm_problem *p)
{
    return (struct matrix){p->transa ? p->k : p->m, p->transa ? p->m : p->k, &p->lda, &p->stride_a,
                           p->dtype};
}

static struct matrix gemm_matrix_b(struct gemm_problem *p)
{
    return (struct matrix){p->transb ? p->n : p->k, p->transb ? p->k : p->n, &p->ldb, &p->stride_b,
                           p->dtype};
}

static struct matrix gemm_matrix_c(struct gemm_problem *p)
{
    return (struct matrix){p->m, p->n, &p->ldc, &p->stride_c, p->out};
}

/* Sets the sizes of a part that is a matrix, or one of each problem of a batch. The bytes reach
 * from the first element to the last. False: a size overflows. */
static bool part_of(const struct matrix *matrix, uint64_t batch, struct operation_part *part)
{
    const uint32_t size = (uint32_t)dtype_size(matrix->dtype);
    uint64_t problems, elements;
    if (matrix->rows == 0 || batch == 0 ||
        !size_mul(matrix->rows - 1, *matrix->leading, &elements) ||
        !size_mul(batch - 1, *matrix->stride, &problems) ||
        !size_add(elements, problems, &elements) ||
        !size_add(elements, matrix->columns, &elements) || !size_mul(elements, size, &part->bytes))
        return false;
    part->element_bytes = size;
    return size_mul(matrix->rows, batch, &part->rows) &&
           size_mul(matrix->columns, size, &part->row_bytes) &&
           size_mul(*matrix->leading, size, &part->pitch);
}

static bool scale_bytes(const struct gemm_problem *p, bool of_b, uint64_t *out)
{
    uint64_t elements;
    *out = 0;
    return (of_b ? p->b_scale.data : p->a_scale.data) == NULL ||
           (gemm_scale_span(p, of_b, &elements) && size_mul(elements, sizeof(float), out));
}

/* B as a matrix, or all bytes of packed weights. */
static bool part_of_b(struct gemm_problem *p, struct operation_part *part)
{
    const struct matrix b = gemm_matrix_b(p);
    const uint64_t bytes = p->packed.bytes;
    if (p->packed.bits == 0)
        return part_of(&b, p->batch, part);
    *part = (struct operation_part){.bytes = bytes,
                                    .element_bytes = 1,
                                    .rows = 1,
                                    .row_bytes = bytes,
                                    .pitch = bytes,
                                    .is_whole = part->is_whole};
    return true;
}

/* A product is divided by the problems of its batch, or else by the rows of C. */
static bool gemm_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    struct gemm_problem p = *(const struct gemm_problem *)problem;
    const struct matrix a = gemm_matrix_a(&p), c = gemm_matrix_c(&p),
                        c0 = {p.m, p.n, &p.ldc0, &p.stride_c0, p.out};
    parts[GEMM_PART_A].is_whole = p.batch == 1 && p.transa;
    parts[GEMM_PART_B].is_whole = parts[GEMM_PART_B_SCALE].is_whole = p.batch == 1;
    parts[GEMM_PART_BIAS].is_whole = true;
    return part_of(&a, p.batch, &parts[GEMM_PART_A]) && part_of_b(&p, &parts[GEMM_PART_B]) &&
           (p.bias == NULL || size_mul(p.n, dtype_size(p.out), &parts[GEMM_PART_BIAS].bytes)) &&
           (p.c0 == NULL || part_of(&c0, p.batch, &parts[GEMM_PART_C0])) &&
           scale_bytes(&p, false, &parts[GEMM_PART_A_SCALE].bytes) &&
           scale_bytes(&p, true, &parts[GEMM_PART_B_SCALE].bytes) &&
           part_of(&c, p.batch, &parts[GEMM_PART_C]);
}

/* A matrix in tensor memory whose rows have gaps: a kernel that could compute other bits with gaps
 * gets a copy without them. */
static bool arrange_resident(const struct operation_kernel *kernel, const struct matrix *matrix,
                             uint32_t part, struct operation_arrangement *arrangement)
{
    uint64_t packed;
    if (!size_mul(matrix->rows, matrix->columns, &packed))
        return false;
    if (kernel->any_leading || (*matrix->leading == matrix->columns && *matrix->stride == packed))
        return true;
    *matrix->leading = matrix->columns;
    *matrix->stride = packed;
    arrangement->packed |= 1u << part;
    return true;
}

/* Rows from the host that the kernel would move apart in its workspace: the copies to the device
 * move them apart to the leading dimension `wanted` while the body is still being received, if that
 * makes the workspace smaller. */
static void arrange_received(const struct operation_kernel *kernel,
                             const struct gemm_problem *problem, const struct matrix *matrix,
                             uint64_t wanted, uint32_t part,
                             struct operation_arrangement *arrangement)
{
    uint64_t packed, apart, all, before, after;
    if (!kernel->any_leading || wanted <= matrix->columns || *matrix->leading != matrix->columns ||
        !size_mul(matrix->rows, matrix->columns, &packed) || *matrix->stride != packed ||
        !size_mul(matrix->rows, wanted, &apart) || !size_mul(apart, problem->batch, &all) ||
        !size_mul(all, dtype_size(matrix->dtype), &all) ||
        !kernel->workspace_bytes(problem, &before))
        return;
    *matrix->leading = wanted;
    *matrix->stride = apart;
    if (kernel->workspace_bytes(problem, &after) && after < before) {
        arrangement->apart |= 1u << part;
        return;
    }
    *matrix->leading = matrix->columns;
    *matrix->stride = packed;
}

static bool gemm_arrange(const struct operation_kernel *kernel, const struct gemm_device *device,
                         uint32_t resident, void *problem,
                         struct operation_arrangement *arrangement)
{
    struct gemm_problem *p = problem;
    const struct matrix matrices[] = {
        [GEMM_PART_A] = gemm_matrix_a(p),
        [GEMM_PART_B] = gemm_matrix_b(p),
        [GEMM_PART_C] = gemm_matrix_c(p),
    };
    static const uint32_t operands[] = {GEMM_PART_A, GEMM_PART_B};
    for (uint32_t i = 0; device != NULL && i < 2; i++) {
        const struct matrix *matrix = &matrices[operands[i]];
        if (operands[i] == GEMM_PART_B && p->packed.bits != 0)
            continue; /* packed weights have their own arrangement */
        if ((resident & 1u << operands[i]) == 0)
            arrange_received(kernel, p, matrix,
                             gemm_leading(device, matrix->dtype, matrix->columns, false),
                             operands[i], arrangement);
    }
    static const uint32_t all[] = {GEMM_PART_A, GEMM_PART_B, GEMM_PART_C};
    for (uint32_t i = 0; i < 3; i++)
        if ((resident & 1u << all[i]) != 0 && (all[i] != GEMM_PART_B || p->packed.bits == 0) &&
            !arrange_resident(kernel, &matrices[all[i]], all[i], arrangement))
            return false;
    return true;
}

static enum gemmd_dtype gemm_dtype(const void *problem)
{
    return ((const struct gemm_problem *)problem)->dtype;
}

static void gemm_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct gemm_problem *p = problem;
    lengths[0] = p->m;
    lengths[1] = p->n;
    lengths[2] = p->k;
}

static double gemm_flops(const void *problem)
{
    const struct gemm_problem *p = problem;
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

static double gemm_share_flops(const void *problem)
{
    const struct gemm_problem *p = problem;
    return 2 * operation_length(p->m) * operation_length(p->n) * operation_length(p->k) *
           (double)p->batch;
}

static double gemm_moved_bytes(const void *problem)
{
    const struct gemm_problem *p = problem;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    const double results = m * n * (p->beta != 0 ? 2 : 1);
    const double of_bias = p->bias != NULL ? n : 0;
    const double of_b = p->packed.bits != 0 ? (double)p->packed.bytes
                                            : (double)p->batch * k * n * dtype_size(p->dtype);
    return (double)p->batch * m * k * dtype_size(p->dtype) + of_b +
           ((double)p->batch * results + of_bias) * dtype_size(p->out);
}

/* SMALL_SIDE bounds how long a product delays the others of its launch. SMALL_BYTES bounds the time
 * of reading host memory from the device, compared with copies. SMALL_BATCH bounds the number of
 * products of one request. */
enum { SMALL_SIDE = 256, SMALL_BYTES = 256 << 10, SMALL_BATCH = 64 };

static bool gemm_is_small(const void *problem)
{
    const struct gemm_problem *p = problem;
    if (p->m > SMALL_SIDE || p->n > SMALL_SIDE || p->k > SMALL_SIDE || p->batch > SMALL_BATCH)
        return false;
    const uint64_t results = p->m * p->n * (p->beta != 0 ? 2 : 1);
    return p->batch *
               ((p->m + p->n) * p->k * dtype_size(p->dtype) + results * dtype_size(p->out)) <=
           SMALL_BYTES;
}

static uint64_t gemm_units(const struct operation_kernel *kernel, const void *problem)
{
    const struct gemm_problem *p = problem;
    if (!gemm_subproblems_are_exact(kernel))
        return 0;
    return p->batch > 1 ? p->batch : size_blocks(p->m, SUBPROBLEM_ROWS);
}

static void gemm_divide(const void *problem, struct operation_range units, void *some)
{
    const struct gemm_problem *p = problem;
    const uint64_t row = units.first * SUBPROBLEM_ROWS,
                   end = (units.first + units.count) * SUBPROBLEM_ROWS;
    const struct gemm_range range =
        p->batch > 1 ? (struct gemm_range){units.first, units.count, 0, p->m}
                     : (struct gemm_range){0, 1, row, (end < p->m ? end : p->m) - row};
    *(struct gemm_problem *)some = gemm_subproblem(p, &range);
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* The smallest power of two so that so many strides are a multiple of 256 bytes. */
static uint64_t aligned_problems(uint64_t stride, size_t element_bytes)
{
    uint64_t count = 1;
    while (count * stride * element_bytes % 256 != 0)
        count *= 2;
    return count;
}

static uint64_t most_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* The fewest problems that a launch of some problems of the batch can have. */
static uint64_t fewest_problems(const struct gemm_problem *p)
{
    const size_t in = dtype_size(p->dtype), out = dtype_size(p->out);
    uint64_t count = most_of(aligned_problems(p->stride_a, in), aligned_problems(p->stride_b, in));
    count = most_of(count, aligned_problems(p->stride_c, out));
    if (p->c0 != NULL)
        count = most_of(count, aligned_problems(p->stride_c0, out));
    return at_most(count, p->batch);
}

/* Divides `all` into equal launches of at most `most`, each but the last a multiple of `step`. */
static uint64_t each_of(uint64_t all, double most, uint64_t step)
{
    const double steps = floor(most / (double)step);
    const uint64_t longest = steps < 1                             ? step
                             : steps * (double)step >= (double)all ? all
                                                                   : (uint64_t)steps * step;
    const uint64_t launches = size_blocks(all, longest);
    if (launches <= 1)
        return all;
    const uint64_t each = size_blocks(size_blocks(all, launches), step) * step;
    return each > 0 && each < all ? each : all;
}

static bool launch_fits(const struct operation_kernel *kernel, const struct gemm_problem *whole,
                        const struct gemm_problem *part)
{
    uint64_t room, needed;
    return kernel->takes(part) && kernel->workspace_bytes(whole, &room) &&
           kernel->workspace_bytes(part, &needed) && needed <= room;
}

static void gemm_cut_piece(const struct launch_cut *cut, const void *problem, uint64_t index,
                           void *piece)
{
    const struct gemm_problem *p = problem;
    const uint64_t row_launches = size_blocks(p->m, cut->each);
    const uint64_t first = index / row_launches * cut->each_of_batch;
    const uint64_t row = index % row_launches * cut->each;
    const struct gemm_range range = {.first_problem = first,
                                     .problems = at_most(cut->each_of_batch, p->batch - first),
                                     .first_row = row,
                                     .rows = at_most(cut->each, p->m - row)};
    *(struct gemm_problem *)piece = gemm_subproblem(p, &range);
}

/* Sets cut->each to the rows of C, and cut->each_of_batch to the problems of the batch, in each
 * launch but the last ones. The rows are a multiple of SUBPROBLEM_ROWS, or all. A product stays in
 * one launch if a part of the product would need more workspace than the whole. */
static void gemm_cut(const struct operation_kernel *kernel, const void *problem,
                     struct launch_cut *cut)
{
    const struct gemm_problem *p = problem;
    struct gemm_problem first, last;
    const struct launch_cut whole = {.launches = 1, .each = p->m, .each_of_batch = p->batch};
    const double row = 2.0 * (double)p->n * (double)p->k, one = row * (double)p->m;
    const double most = operation_launch_flops(kernel, p);
    *cut = whole;
    if (p->m == 0 || p->batch == 0 || most <= 0 || one * (double)p->batch <= most)
        return;
    const uint64_t fewest = fewest_problems(p);
    cut->each_of_batch = each_of(p->batch, most / one, fewest);
    if (one * (double)cut->each_of_batch > most)
        cut->each = each_of(p->m, most / (row * (double)cut->each_of_batch), SUBPROBLEM_ROWS);
    cut->launches = size_blocks(p->batch, cut->each_of_batch) * size_blocks(p->m, cut->each);
    gemm_cut_piece(cut, p, 0, &first);
    gemm_cut_piece(cut, p, cut->launches - 1, &last);
    if (!launch_fits(kernel, p, &first) || !launch_fits(kernel, p, &last))
        *cut = whole;
}

static bool gemm_can_check(const void *problem)
{
    const struct gemm_problem *p = problem;
    return p->act == GEMM_ACT_NONE && p->scales == GEMM_SCALES_NONE && p->packed.bits == 0;
}

/* A block checks one product of real numbers. */
static bool gemm_can_check_small(const void *problem)
{
    const struct gemm_problem *p = problem;
    return p->batch == 1 && p->out != GEMMD_I32 && p->m <= FREIVALDS_SMALL_SIDE &&
           p->n <= FREIVALDS_SMALL_SIDE && p->k <= FREIVALDS_SMALL_SIDE;
}

static void gemm_describe(const void *problem, char *text, size_t size)
{
    const struct gemm_problem *p = problem;
    snprintf(text, size, "%s to %s of %" PRIu64 " x %" PRIu64 " x %" PRIu64 "%s%s",
             dtype_name(p->dtype), dtype_name(p->out), p->m, p->n, p->k,
             p->packed.bits != 0 ? " with packed weights of " : "",
             p->packed.bits != 0 ? packed_type(&p->packed) : "");
}

static struct gemm_problem cube(enum gemmd_dtype dtype, enum gemmd_dtype out, uint64_t side)
{
    struct gemm_problem p = {
        .dtype = dtype, .out = out, .m = side, .n = side, .k = side, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&p);
    return p;
}

enum { EXAMPLE_SIDE = 64 };

static bool gemm_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    *(struct gemm_problem *)problem = cube(dtype, out, EXAMPLE_SIDE);
    return dtype_offers_out(dtype, out);
}

/* With a scale for each row and column, or, for types of A that have none, with packed weights. */
static bool gemm_special_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    struct gemm_problem *p = problem;
    *p = cube(dtype, out, EXAMPLE_SIDE);
    p->packed = (struct packed_layout){.bits = 4, .k = p->k, .n = p->n, .group = p->k};
    if (gemm_problem_packed(p))
        return true;
    p->packed.bits = 0;
    p->scales = GEMM_SCALES_ROWCOL;
    return gemm_scales_offer(p->scales, dtype, out);
}

/* The pair of types number `index` of those that products offer; false: there are no more. */
static bool types_of(uint32_t index, enum gemmd_dtype *dtype, enum gemmd_dtype *out)
{
    for (uint32_t i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        *dtype = (enum gemmd_dtype)(i / GEMMD_DTYPE_COUNT);
        *out = (enum gemmd_dtype)(i % GEMMD_DTYPE_COUNT);
        if (dtype_offers_out(*dtype, *out) && index-- == 0)
            return true;
    }
    return false;
}

static bool gemm_warm(uint32_t index, void *problem)
{
    /* Small, medium and large sides, odd and even, for which libraries have different kernels. */
    static const uint64_t sides[] = {31, 64, 255, 512, 1023, 2048};
    enum { SIDES = sizeof sides / sizeof sides[0], VARIANTS = 16 };
    static const char present;
    const uint32_t variant = index % VARIANTS;
    const uint64_t side = sides[index / VARIANTS % SIDES];
    enum gemmd_dtype dtype, out;
    struct gemm_problem *p = problem;
    if (!types_of(index / VARIANTS / SIDES, &dtype, &out))
        return false;
    *p = cube(dtype, out, side);
    p->transa = variant & 1;
    p->transb = variant & 2;
    p->m = variant & 4 ? 1 : side;
    gemm_problem_contiguous(p);
    p->a = p->b = &present;
    if (variant & 8) {
        p->beta = 1;
        p->bias = p->c0 = &present;
        p->act = GEMM_ACT_RELU;
    }
    return true;
}

/* Every pair of types, and every transposition. A pair that products do not offer has no operands.
 */
static void gemm_known_init(uint32_t index, void *memory, void *problem)
{
    const enum gemmd_dtype dtype = (enum gemmd_dtype)(index / 4 / GEMMD_DTYPE_COUNT),
                           out = (enum gemmd_dtype)(index / 4 % GEMMD_DTYPE_COUNT);
    if (dtype_offers_out(dtype, out))
        known_answer_init(problem, dtype, out, index & 1, index & 2, memory);
    else
        *(struct gemm_problem *)problem = cube(dtype, out, 0);
}

const struct operation operation_gemm = {
    .name = "gemm",
    .number = OPERATION_GEMM,
    .operands = 6,
    .results = 1,
    .fields = {[GEMM_PART_A] = offsetof(struct gemm_problem, a),
               [GEMM_PART_B] = offsetof(struct gemm_problem, b),
               [GEMM_PART_BIAS] = offsetof(struct gemm_problem, bias),
               [GEMM_PART_C0] = offsetof(struct gemm_problem, c0),
               [GEMM_PART_A_SCALE] = offsetof(struct gemm_problem, a_scale.data),
               [GEMM_PART_B_SCALE] = offsetof(struct gemm_problem, b_scale.data),
               [GEMM_PART_C] = offsetof(struct gemm_problem, c)},
    .parts = gemm_parts,
    .arrange = gemm_arrange,
    .dtype = gemm_dtype,
    .length_names = {"m", "n", "k"},
    .lengths = gemm_lengths,
    .flops = gemm_flops,
    .share_flops = gemm_share_flops,
    .moved_bytes = gemm_moved_bytes,
    .cut = gemm_cut,
    .cut_piece = gemm_cut_piece,
    .is_small = gemm_is_small,
    .small_in_group = true,
    .stack = &gemm_stack,
    .units = gemm_units,
    .divide = gemm_divide,
    .can_check = gemm_can_check,
    .check_bytes = freivalds_bytes,
    .check = freivalds_check,
    .can_check_small = gemm_can_check_small,
    .check_small = freivalds_check_small,
    .describe = gemm_describe,
    .example = gemm_example,
    .special_example = gemm_special_example,
    .warm = gemm_warm,
    .known = {.bytes = KNOWN_ANSWER_BYTES,
              .cases = 4 * GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT,
              .init = gemm_known_init,
              .check = known_answer_check},
};
