/* The CPU's kernels of experts against f64, in every type and variant, with places that compute
 * nothing and numbers that no expert has; and that a row has the same bits whatever the other rows
 * are. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/product.h"

enum { GUARD = 64, POISON = 0xff, GAP = 3, LARGEST = 8 /* bytes of an element */ };

/* The operands in the problem's types, and as f64. */
struct sample {
    struct experts_problem problem;
    unsigned char *a, *w, *bias, *c;
    int32_t *experts;
    float *weights;
    double *a64, *w64, *bias64; /* [m, k], [count, columns, k], [count, columns] */
    uint64_t c_bytes;
    uint64_t state;
};

/* Xorshift (G. Marsaglia, 2003). */
static uint64_t next(struct sample *s)
{
    s->state ^= s->state << 13;
    s->state ^= s->state >> 7;
    s->state ^= s->state << 17;
    return s->state;
}

/* Stores a number from -1 to 1 as the element at `to`. Returns what is stored. */
static double store(struct sample *s, enum gemmd_dtype dtype, unsigned char *to)
{
    const double x = (double)(int64_t)(next(s) >> 11) / 0x1p52 - 1;
    const float narrow = (float)x;
    double stored;
    if (dtype == GEMMD_F64)
        memcpy(to, &x, sizeof x);
    else
        convert_narrow(dtype, &narrow, to, 1);
    convert_to_f64(dtype, to, &stored, 1);
    return stored;
}

static void *memory(uint64_t bytes)
{
    void *of = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    ck_assert_ptr_nonnull(of);
    memset(of, POISON, bytes + GUARD);
    return of;
}

/* Expert numbers: all experts, one place in 5 without any, and the last expert without rows. */
static int32_t number(struct sample *s, uint64_t place)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    const struct experts_problem *p = &s->problem;
    if (place % 15 == 14)
        return (int32_t)p->count;
    if (place % 5 == 4)
        return none[place / 5 % 3];
    return (int32_t)(next(s) % (p->count > 1 ? p->count - 1 : 1));
}

static void sample_create(struct sample *s, const struct experts_problem *like, bool weighted,
                          bool biased)
{
    *s = (struct sample){.problem = *like, .state = 0x9e3779b97f4a7c15};
    struct experts_problem *p = &s->problem;
    const uint64_t columns = experts_columns(p), size = dtype_size(p->dtype);
    experts_problem_contiguous(p);
    p->lda += GAP;
    p->ldw += GAP;
    p->ldc += GAP;
    p->stride_w = (p->transb ? columns : p->k) * p->ldw + GAP;
    s->c_bytes = p->m * p->ldc * dtype_size(p->out);
    s->a = memory(p->m * p->lda * size);
    s->w = memory(p->count * p->stride_w * size);
    s->bias = memory(p->count * columns * LARGEST);
    s->c = memory(s->c_bytes);
    s->experts = memory(p->m * p->topk * sizeof *s->experts);
    s->weights = memory(p->m * p->topk * sizeof *s->weights);
    s->a64 = memory(p->m * p->k * sizeof *s->a64);
    s->w64 = memory(p->count * columns * p->k * sizeof *s->w64);
    s->bias64 = memory(p->count * columns * sizeof *s->bias64);
    for (uint64_t i = 0; i < p->m * p->k; i++)
        s->a64[i] = store(s, p->dtype, s->a + (i / p->k * p->lda + i % p->k) * size);
    for (uint64_t e = 0; e < p->count; e++)
        for (uint64_t j = 0; j < columns; j++) {
            const uint64_t at = e * columns + j;
            s->bias64[at] = store(s, p->out, s->bias + at * dtype_size(p->out));
            for (uint64_t i = 0; i < p->k; i++)
                s->w64[at * p->k + i] =
                    store(s, p->dtype,
                          s->w + (e * p->stride_w + (p->transb ? j * p->ldw + i : i * p->ldw + j)) *
                                     size);
        }
    for (uint64_t i = 0; i < p->m * p->topk; i++) {
        s->experts[i] = number(s, i);
        s->weights[i] = (float)(next(s) >> 40) / 0x1p24f;
    }
    p->a = s->a;
    p->w = s->w;
    p->experts = s->experts;
    p->weights = weighted ? s->weights : NULL;
    p->bias = biased ? s->bias : NULL;
    p->c = s->c;
}

static void sample_destroy(struct sample *s)
{
    void *const all[] = {s->a,       s->w,   s->bias, s->c,     s->experts,
                         s->weights, s->a64, s->w64,  s->bias64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static double activate(enum gemm_act act, double x)
{
    switch (act) {
    case GEMM_ACT_NONE:
        return x;
    case GEMM_ACT_RELU:
        return x > 0 ? x : 0;
    case GEMM_ACT_GELU:
        return x * erfc(-x * sqrt(0.5)) / 2;
    case GEMM_ACT_GELU_TANH:
        return x / (1 + exp(-sqrt(8 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case GEMM_ACT_SILU:
        return x / (1 + exp(-x));
    }
    ck_abort_msg("an activation that the test does not know");
}

/* The sum of a column of an expert with the bias, and the bound of its error. */
static double sum_of(const struct sample *s, uint64_t row, uint64_t expert, uint64_t column,
                     double *error)
{
    const struct experts_problem *p = &s->problem;
    const uint64_t at = expert * experts_columns(p) + column;
    double sum = 0, magnitude = 0;
    for (uint64_t i = 0; i < p->k; i++) {
        const double x = s->a64[row * p->k + i] * s->w64[at * p->k + i];
        sum += x;
        magnitude += fabs(x);
    }
    const double bias = p->bias != NULL ? s->bias64[at] : 0;
    *error = product_sum_error(p->dtype, p->k + 1) * (magnitude + fabs(bias));
    return sum + bias;
}

static double unit(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F64 ? DBL_EPSILON : FLT_EPSILON;
}

/* The least relative distance of numbers of the result. */
static double unit_out(enum gemmd_dtype out)
{
    return out == GEMMD_F16 ? 0x1p-10 : out == GEMMD_BF16 ? 0x1p-7 : unit(out);
}

/* An activation's slope is at most 1.13, and the activation itself is within 8 units. */
static double value_of(const struct sample *s, uint64_t row, uint64_t column, double *error)
{
    const struct experts_problem *p = &s->problem;
    const double eps = unit(p->dtype);
    double total = 0;
    *error = 0;
    for (uint64_t place = row * p->topk; place < (row + 1) * p->topk; place++) {
        const int32_t expert = s->experts[place];
        if (expert < 0 || (uint64_t)expert >= p->count)
            continue;
        double of_sum, of_up = 0, up = 1;
        const double sum = sum_of(s, row, (uint64_t)expert, column, &of_sum);
        const double gate = activate(p->act, sum);
        if (p->glu)
            up = sum_of(s, row, (uint64_t)expert, p->n + column, &of_up);
        const double weight = p->weights != NULL ? s->weights[place] : 1;
        const double of_gate = 1.13 * of_sum + 8 * eps * fabs(sum);
        total += weight * gate * up;
        *error += weight * (of_gate * (fabs(up) + of_up) + fabs(gate) * of_up) +
                  4 * eps * (double)p->topk * fabs(weight * gate * up);
    }
    *error += unit_out(p->out) * (fabs(total) + *error) + 0x1p-24;
    return total;
}

static void run(const struct operation_kernel *kernel, const struct experts_problem *problem,
                uint32_t threads)
{
    struct gemm_context *context;
    struct fault fault;
    uint64_t bytes;
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, threads, &context, &fault),
                      GEMMD_OK);
    ck_assert(kernel->takes(problem));
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    unsigned char *workspace = memory(bytes);
    ck_assert_uint_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    for (uint64_t i = 0; i < GUARD; i++)
        ck_assert_msg(workspace[bytes + i] == POISON, "%s wrote beyond its workspace",
                      kernel->name);
    free(workspace);
    gemm_context_destroy(context);
}

/* Whether C is right in every column number `step`, and the gaps between its rows are as they were.
 */
static void check_c(const struct sample *s, const char *kernel, uint64_t step)
{
    const struct experts_problem *p = &s->problem;
    const uint64_t size = dtype_size(p->out);
    for (uint64_t row = 0; row < p->m; row++) {
        const unsigned char *c = s->c + row * p->ldc * size;
        for (uint64_t column = row % step; column < p->n; column += step) {
            double error, got;
            const double expected = value_of(s, row, column, &error);
            convert_to_f64(p->out, c + column * size, &got, 1);
            ck_assert_msg(fabs(got - expected) <= error,
                          "%s, %s to %s: row %lu, column %lu is %.9g instead of %.9g", kernel,
                          dtype_name(p->dtype), dtype_name(p->out), (unsigned long)row,
                          (unsigned long)column, got, expected);
        }
        for (uint64_t i = p->n * size; i < p->ldc * size; i++)
            ck_assert_msg(c[i] == POISON, "%s wrote between the rows of C", kernel);
    }
}

static const struct {
    enum gemmd_dtype dtype, out;
} types[] = {{GEMMD_F64, GEMMD_F64},   {GEMMD_F32, GEMMD_F32}, {GEMMD_F32, GEMMD_F16},
             {GEMMD_F32, GEMMD_BF16},  {GEMMD_F16, GEMMD_F16}, {GEMMD_F16, GEMMD_F32},
             {GEMMD_BF16, GEMMD_BF16}, {GEMMD_BF16, GEMMD_F32}};
enum { TYPES = sizeof types / sizeof *types };

static const struct {
    uint64_t m, n, k, count, topk;
    bool transb, glu, weighted, biased;
    enum gemm_act act;
} cases[] = {
    {1, 1, 1, 1, 1, false, false, false, false, GEMM_ACT_NONE},
    {1, 300, 33, 256, 8, false, false, true, true, GEMM_ACT_SILU},
    {37, 131, 65, 5, 2, true, true, true, true, GEMM_ACT_SILU},
    {50, 40, 70, 3, 1, false, true, false, true, GEMM_ACT_GELU},
    {290, 17, 24, 2, 1, true, false, false, false, GEMM_ACT_RELU},
    {23, 129, 300, 9, 3, false, false, true, false, GEMM_ACT_GELU_TANH},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct experts_problem problem_of(uint32_t type, uint32_t i)
{
    return (struct experts_problem){.dtype = types[type].dtype,
                                    .out = types[type].out,
                                    .act = cases[i].act,
                                    .transb = cases[i].transb,
                                    .glu = cases[i].glu,
                                    .m = cases[i].m,
                                    .n = cases[i].n,
                                    .k = cases[i].k,
                                    .count = cases[i].count,
                                    .topk = cases[i].topk};
}

START_TEST(every_variant_is_right)
{
    for (uint32_t i = 0; i < CASES; i++) {
        const struct experts_problem like = problem_of((uint32_t)_i, i);
        struct sample s;
        sample_create(&s, &like, cases[i].weighted, cases[i].biased);
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_experts, GEMM_BACKEND_CPU);
             *k != NULL; k++) {
            memset(s.c, POISON, s.c_bytes);
            run(*k, &s.problem, 2);
            check_c(&s, (*k)->name, 1);
        }
        sample_destroy(&s);
    }
}
END_TEST

/* Each row alone, and among others in another order and with other experts, has the same bytes. */
START_TEST(rows_have_bits_of_their_own)
{
    const struct experts_problem like = problem_of((uint32_t)_i, 2);
    struct sample s;
    sample_create(&s, &like, true, true);
    const uint64_t row_bytes = s.problem.n * dtype_size(s.problem.out);
    const uint64_t pitch = s.problem.ldc * dtype_size(s.problem.out);
    unsigned char *whole = memory(s.c_bytes);
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_experts, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        run(*k, &s.problem, 2);
        memcpy(whole, s.c, s.c_bytes);
        memset(s.c, POISON, s.c_bytes);
        for (uint64_t row = 0; row < s.problem.m; row++) {
            const struct experts_problem alone = experts_subproblem(&s.problem, row, 1);
            run(*k, &alone, 1);
            ck_assert_msg(memcmp(whole + row * pitch, s.c + row * pitch, row_bytes) == 0,
                          "%s gives row %lu other bits alone", (*k)->name, (unsigned long)row);
        }
        const uint64_t half = s.problem.m / 2;
        for (uint64_t i = 0; i < half * s.problem.topk; i++)
            s.experts[i] = 0;
        run(*k, &s.problem, 2);
        ck_assert_msg(memcmp(whole + half * pitch, s.c + half * pitch, row_bytes) == 0,
                      "%s gives a row other bits if all others have one expert", (*k)->name);
    }
    free(whole);
    sample_destroy(&s);
}
END_TEST

/* More rows than a block of the kernels has, whose sums take 64 MiB. */
START_TEST(several_blocks_are_right)
{
    struct experts_problem like = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 70, .n = 1 << 18, .k = 2, .count = 3, .topk = 1};
    struct sample s;
    uint64_t bytes;
    sample_create(&s, &like, false, false);
    const struct operation_kernel *kernel =
        operation_kernels(&operation_experts, GEMM_BACKEND_CPU)[0];
    ck_assert(kernel->workspace_bytes(&s.problem, &bytes));
    ck_assert_uint_lt(bytes, s.c_bytes);
    run(kernel, &s.problem, 2);
    check_c(&s, kernel->name, 4099);
    sample_destroy(&s);
}
END_TEST

/* A result whose sizes overflow, and types that are not offered. */
START_TEST(what_is_not_offered)
{
    const struct experts_problem good = problem_of(1, 0);
    struct experts_problem p = good;
    const struct operation_kernel *kernel =
        operation_kernels(&operation_experts, GEMM_BACKEND_CPU)[0];
    ck_assert(kernel->takes(&p));
    p.out = GEMMD_F64;
    ck_assert(!kernel->takes(&p));
    p = good;
    p.dtype = p.out = GEMMD_I8;
    ck_assert(!kernel->takes(&p));
    p = good;
    p.precision = GEMM_PRECISION_F8;
    ck_assert(!kernel->takes(&p));
    p = good;
    p.m = 0;
    ck_assert(!kernel->takes(&p));
    p = good;
    p.n = GEMM_DIM_MAX;
    ck_assert(kernel->takes(&p));
    p.glu = true;
    ck_assert(!kernel->takes(&p));
    p = good;
    p.count = p.k = p.n = GEMM_DIM_MAX;
    ck_assert(!kernel->takes(&p));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("experts_cpu");
    TCase *tests = tcase_create("experts_cpu");
    tcase_add_loop_test(tests, every_variant_is_right, 0, TYPES);
    tcase_add_loop_test(tests, rows_have_bits_of_their_own, 0, TYPES);
    tcase_add_test(tests, several_blocks_are_right);
    tcase_add_test(tests, what_is_not_offered);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
