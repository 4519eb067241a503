/* operation_experts: rows times the experts of a stack, as one of the operations (operations.h). */
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "kernels/subproblem.h"
#include "proto/dtype.h"
#include "proto/size.h"

/* The bytes from the first of `rows` rows of `width` elements to the end of the last one. */
static bool rows_bytes(uint64_t rows, uint64_t leading, uint64_t width, enum gemmd_dtype dtype,
                       uint64_t *out)
{
    uint64_t elements;
    return rows > 0 && size_mul(rows - 1, leading, &elements) &&
           size_add(elements, width, &elements) && size_mul(elements, dtype_size(dtype), out);
}

/* Every part of a divided problem needs W and the bias. */
static bool experts_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    const struct experts_problem *p = problem;
    const uint64_t columns = experts_columns(p), places[] = {p->m, p->topk},
                   bias[] = {p->count, columns};
    uint64_t w;
    parts[EXPERTS_PART_W].is_whole = parts[EXPERTS_PART_BIAS].is_whole = true;
    return p->count > 0 && size_mul(p->count - 1, p->stride_w, &w) &&
           size_mul(w, dtype_size(p->dtype), &w) &&
           rows_bytes(p->transb ? columns : p->k, p->ldw, p->transb ? p->k : columns, p->dtype,
                      &parts[EXPERTS_PART_W].bytes) &&
           size_add(parts[EXPERTS_PART_W].bytes, w, &parts[EXPERTS_PART_W].bytes) &&
           rows_bytes(p->m, p->lda, p->k, p->dtype, &parts[EXPERTS_PART_A].bytes) &&
           size_tensor_bytes(GEMMD_I32, places, 2, &parts[EXPERTS_PART_EXPERTS].bytes) &&
           (p->weights == NULL ||
            size_tensor_bytes(GEMMD_F32, places, 2, &parts[EXPERTS_PART_WEIGHTS].bytes)) &&
           (p->bias == NULL ||
            size_tensor_bytes(p->out, bias, 2, &parts[EXPERTS_PART_BIAS].bytes)) &&
           rows_bytes(p->m, p->ldc, p->n, p->out, &parts[EXPERTS_PART_C].bytes);
}

static enum gemmd_dtype experts_dtype(const void *problem)
{
    return ((const struct experts_problem *)problem)->dtype;
}

/* The sizes of the product that has all places, as if they had one expert. */
static void experts_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct experts_problem *p = problem;
    lengths[0] = p->m * p->topk;
    lengths[1] = experts_columns(p);
    lengths[2] = p->k;
}

/* The most experts that the places can have. */
static double experts_used(const struct experts_problem *p)
{
    const double places = (double)p->m * (double)p->topk;
    return places < (double)p->count ? places : (double)p->count;
}

/* Each expert that has places is a product, of at least OPERATION_LENGTH rows. */
static double experts_share_flops(const void *problem)
{
    const struct experts_problem *p = problem;
    const double used = experts_used(p), places = (double)p->m * (double)p->topk;
    const double least = used * operation_length(1), rows = places > least ? places : least;
    return 2 * rows * operation_length(experts_columns(p)) * operation_length(p->k);
}

static double experts_moved_bytes(const void *problem)
{
    const struct experts_problem *p = problem;
    const double size = dtype_size(p->dtype), columns = (double)experts_columns(p);
    const double of_place = sizeof *p->experts + (p->weights != NULL ? sizeof *p->weights : 0);
    const double of_bias = p->bias != NULL ? columns * dtype_size(p->out) : 0;
    return (double)p->m * ((double)p->k * size + (double)p->n * dtype_size(p->out) +
                           (double)p->topk * of_place) +
           experts_used(p) * (columns * (double)p->k * size + of_bias);
}

static uint64_t experts_units(const struct operation_kernel *kernel, const void *problem)
{
    (void)kernel;
    return size_blocks(((const struct experts_problem *)problem)->m, SUBPROBLEM_ROWS);
}

static void experts_divide(const void *problem, struct operation_range units, void *some)
{
    const struct experts_problem *p = problem;
    const uint64_t first = units.first * SUBPROBLEM_ROWS,
                   end = (units.first + units.count) * SUBPROBLEM_ROWS;
    *(struct experts_problem *)some =
        experts_subproblem(p, first, (end < p->m ? end : p->m) - first);
}

static struct experts_problem small_problem(enum gemmd_dtype dtype, enum gemmd_dtype out,
                                            uint64_t m, uint64_t topk)
{
    struct experts_problem p = {
        .dtype = dtype, .out = out, .m = m, .n = 64, .k = 64, .count = 8, .topk = topk};
    experts_problem_contiguous(&p);
    return p;
}

static bool experts_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    *(struct experts_problem *)problem = small_problem(dtype, out, 64, 2);
    return experts_problem_offered(problem);
}

static bool experts_warm(uint32_t index, void *problem)
{
    /* Few and many rows of an expert. */
    static const uint64_t rows[] = {4, 64, 1024};
    static const float present;
    enum { ROWS = sizeof rows / sizeof *rows, VARIANTS = 4 };
    const uint32_t variant = index % VARIANTS, types = index / VARIANTS / ROWS;
    struct experts_problem *p = problem;
    if (types >= GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT)
        return false;
    *p = small_problem((enum gemmd_dtype)(types / GEMMD_DTYPE_COUNT),
                       (enum gemmd_dtype)(types % GEMMD_DTYPE_COUNT), rows[index / VARIANTS % ROWS],
                       variant & 1 ? 2 : 1);
    p->transb = variant & 1;
    p->glu = variant & 2;
    p->weights = variant & 1 ? &present : NULL;
    p->bias = variant & 2 ? &present : NULL;
    experts_problem_contiguous(p);
    return true;
}

/* --- the known answer: small integers, which every type holds exactly --- */

enum { M = 20, N = 24, K = 32, COUNT = 5, TOPK = 2, COLUMNS = 2 * N, WIDTH = 8 /* of f64 */ };
enum {
    A_BYTES = M * K * WIDTH,
    W_BYTES = COUNT * K * COLUMNS * WIDTH,
    NUMBERS_BYTES = 256,
    BIAS_BYTES = COUNT * COLUMNS * WIDTH + 128,
    C_BYTES = M * N * WIDTH,
    KNOWN_BYTES = A_BYTES + W_BYTES + 2 * NUMBERS_BYTES + BIAS_BYTES + C_BYTES
};
_Static_assert(A_BYTES % 256 == 0 && W_BYTES % 256 == 0 && BIAS_BYTES % 256 == 0 &&
                   sizeof(int32_t) * M * TOPK <= NUMBERS_BYTES,
               "every part is aligned");

static int known_a(uint64_t row, uint64_t i)
{
    return (int)((3 * row + 5 * i) % 3) - 1;
}

/* One element in 13 is not 0. */
static int known_w(uint64_t expert, uint64_t i, uint64_t column)
{
    return (5 * i + 7 * column + expert) % 13 == 0 ? 1 + (int)(expert % 2) : 0;
}

static int known_bias(uint64_t expert, uint64_t column)
{
    return (int)((expert + column) % 3) - 1;
}

/* The last expert has no rows, and one place in 7 computes nothing. */
static int known_expert(uint64_t place)
{
    return place % 7 == 3 ? -1 : (int)(3 * place % (COUNT - 1));
}

static int known_weight(uint64_t place)
{
    return 1 + (int)(place % 2);
}

static void known_init(uint32_t index, void *memory, void *problem)
{
    struct experts_problem *p = problem;
    unsigned char *a = memory, *w = a + A_BYTES, *experts = w + W_BYTES;
    unsigned char *weights = experts + NUMBERS_BYTES, *bias = weights + NUMBERS_BYTES;
    unsigned char *c = bias + BIAS_BYTES;
    const uint32_t types = index / 4;
    *p = (struct experts_problem){.dtype = (enum gemmd_dtype)(types / GEMMD_DTYPE_COUNT),
                                  .out = (enum gemmd_dtype)(types % GEMMD_DTYPE_COUNT),
                                  .transb = index & 1,
                                  .glu = index & 2,
                                  .m = M,
                                  .n = N,
                                  .k = K,
                                  .count = COUNT,
                                  .topk = TOPK,
                                  .a = a,
                                  .w = w,
                                  .experts = (const void *)experts,
                                  .weights = (const void *)weights,
                                  .bias = bias,
                                  .c = c};
    experts_problem_contiguous(p);
    if (!experts_problem_offered(p))
        return; /* no kernel takes such types */
    const uint64_t size = dtype_size(p->dtype), columns = experts_columns(p);
    for (uint64_t i = 0; i < M * K; i++)
        known_answer_store(a + i * size, known_a(i / K, i % K), p->dtype);
    for (uint64_t i = 0; i < M * TOPK; i++) {
        known_answer_store(experts + i * sizeof(int32_t), known_expert(i), GEMMD_I32);
        known_answer_store(weights + i * sizeof(float), known_weight(i), GEMMD_F32);
    }
    for (uint64_t e = 0; e < COUNT; e++)
        for (uint64_t j = 0; j < columns; j++) {
            known_answer_store(bias + (e * columns + j) * dtype_size(p->out), known_bias(e, j),
                               p->out);
            for (uint64_t i = 0; i < K; i++)
                known_answer_store(
                    w + (e * p->stride_w + (p->transb ? j * K + i : i * columns + j)) * size,
                    known_w(e, i, j), p->dtype);
        }
    memset(c, 0xff, C_BYTES);
}

static int known_sum(uint64_t row, uint64_t expert, uint64_t column)
{
    int sum = known_bias(expert, column);
    for (uint64_t i = 0; i < K; i++)
        sum += known_a(row, i) * known_w(expert, i, column);
    return sum;
}

static bool known_check(const void *problem, uint64_t *row, uint64_t *column)
{
    const struct experts_problem *p = problem;
    for (*row = 0; *row < M; ++*row)
        for (*column = 0; *column < N; ++*column) {
            int expected = 0;
            double got;
            for (uint64_t place = *row * TOPK; place < (*row + 1) * TOPK; place++) {
                const int expert = known_expert(place);
                if (expert < 0)
                    continue;
                expected += known_weight(place) * known_sum(*row, (uint64_t)expert, *column) *
                            (p->glu ? known_sum(*row, (uint64_t)expert, *column + N) : 1);
            }
            convert_to_f64(p->out, (const char *)p->c + (*row * N + *column) * dtype_size(p->out),
                           &got, 1);
            if (got != expected)
                return false;
        }
    return true;
}

const struct operation operation_experts = {
    .name = "experts",
    .number = OPERATION_EXPERTS,
    .operands = EXPERTS_PART_C,
    .results = 1,
    .fields = {[EXPERTS_PART_A] = offsetof(struct experts_problem, a),
               [EXPERTS_PART_W] = offsetof(struct experts_problem, w),
               [EXPERTS_PART_EXPERTS] = offsetof(struct experts_problem, experts),
               [EXPERTS_PART_WEIGHTS] = offsetof(struct experts_problem, weights),
               [EXPERTS_PART_BIAS] = offsetof(struct experts_problem, bias),
               [EXPERTS_PART_C] = offsetof(struct experts_problem, c)},
    .parts = experts_parts,
    .dtype = experts_dtype,
    .length_names = {"m", "n", "k"},
    .lengths = experts_lengths,
    .flops = experts_flops,
    .share_flops = experts_share_flops,
    .moved_bytes = experts_moved_bytes,
    .units = experts_units,
    .divide = experts_divide,
    .example = experts_example,
    .warm = experts_warm,
    .known = {.bytes = KNOWN_BYTES,
              .cases = 4 * GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT,
              .init = known_init,
              .check = known_check},
};
