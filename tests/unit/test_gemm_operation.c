/* kernels/gemm_operation.c: what the daemon asks of a product as of any operation. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/freivalds.h"
#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "kernels/subproblem.h"
#include "proto/dtype.h"
#include "proto/size.h"

static const uint64_t F16 = 2, F32 = 4; /* bytes an element */

static struct gemm_problem product(uint64_t m, uint64_t n, uint64_t k, uint64_t batch)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_F16, .out = GEMMD_F32, .m = m, .n = n, .k = k, .batch = batch, .alpha = 1};
    gemm_problem_contiguous(&problem);
    return problem;
}

static void assert_same_layout(const struct gemm_problem *one, const struct gemm_problem *other)
{
    ck_assert_uint_eq(one->m, other->m);
    ck_assert_uint_eq(one->n, other->n);
    ck_assert_uint_eq(one->k, other->k);
    ck_assert_uint_eq(one->batch, other->batch);
    ck_assert_ptr_eq(one->a, other->a);
    ck_assert_ptr_eq(one->c, other->c);
    ck_assert_uint_eq(one->lda, other->lda);
    ck_assert_uint_eq(one->ldb, other->ldb);
    ck_assert_uint_eq(one->ldc, other->ldc);
    ck_assert_uint_eq(one->stride_a, other->stride_a);
    ck_assert_uint_eq(one->stride_b, other->stride_b);
    ck_assert_uint_eq(one->stride_c, other->stride_c);
}

/* ---- parts ---- */

START_TEST(parts_have_the_sizes_and_the_rows_of_the_operands)
{
    static const float there[2];
    struct gemm_problem p = product(3, 5, 7, 2);
    struct operation_part parts[OPERATION_PARTS_MAX];
    p.transa = _i & 1;
    p.transb = _i & 2;
    gemm_problem_contiguous(&p);
    p.lda += 4;
    p.stride_a = 200;
    p.bias = p.c0 = there;
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    const uint64_t a_rows = p.transa ? 7 : 3, b_rows = p.transb ? 5 : 7;
    const struct operation_part *a = &parts[GEMM_PART_A], *b = &parts[GEMM_PART_B],
                                *c = &parts[GEMM_PART_C];
    ck_assert_uint_eq(a->rows, 2 * a_rows);
    ck_assert_uint_eq(a->row_bytes, F16 * (21 / a_rows));
    ck_assert_uint_eq(a->pitch, F16 * (21 / a_rows + 4));
    ck_assert_uint_eq(a->element_bytes, F16);
    ck_assert_uint_eq(a->bytes, F16 * (200 + (a_rows - 1) * (21 / a_rows + 4) + 21 / a_rows));
    ck_assert_uint_eq(b->rows, 2 * b_rows);
    ck_assert_uint_eq(b->pitch, b->row_bytes);
    ck_assert_uint_eq(b->bytes, F16 * 2 * 35);
    ck_assert_uint_eq(c->rows, 6);
    ck_assert_uint_eq(c->element_bytes, F32);
    ck_assert_uint_eq(c->bytes, F32 * 2 * 15);
    ck_assert_uint_eq(parts[GEMM_PART_BIAS].bytes, F32 * 5);
    ck_assert_uint_eq(parts[GEMM_PART_C0].bytes, F32 * 2 * 15);
    ck_assert_uint_eq(operation_gemm.operands, GEMM_PART_C);
    ck_assert_uint_eq(operation_gemm.results, 1);
}
END_TEST

/* Every part is found where the problem has its pointer, and is absent without one. */
START_TEST(parts_are_where_the_problem_says)
{
    static unsigned char memory[8];
    static const float scales[8];
    struct gemm_problem p = product(3, 5, 7, 1);
    struct operation_part parts[OPERATION_PARTS_MAX];
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    ck_assert_uint_eq(parts[GEMM_PART_BIAS].bytes + parts[GEMM_PART_C0].bytes +
                          parts[GEMM_PART_A_SCALE].bytes + parts[GEMM_PART_B_SCALE].bytes,
                      0);
    p.a = memory;
    p.b = memory + 1;
    p.bias = memory + 2;
    p.c0 = memory + 3;
    p.c = memory + 4;
    p.scales = GEMM_SCALES_ROWCOL;
    p.a_scale.data = scales;
    p.b_scale.data = scales + 3;
    gemm_problem_scales_contiguous(&p, false, false);
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    const void *const expected[] = {p.a, p.b, p.bias, p.c0, p.a_scale.data, p.b_scale.data, p.c};
    for (uint32_t i = 0; i <= GEMM_PART_C; i++) {
        ck_assert_ptr_eq(operation_pointer(&operation_gemm, &p, i), expected[i]);
        ck_assert_uint_gt(parts[i].bytes, 0);
    }
    ck_assert_uint_eq(parts[GEMM_PART_A_SCALE].bytes, 3 * sizeof *scales);
    ck_assert_uint_eq(parts[GEMM_PART_B_SCALE].bytes, 5 * sizeof *scales);
}
END_TEST

/* A device that computes some rows needs all of B; one that computes some problems does not. */
START_TEST(whole_parts_are_those_that_every_division_needs)
{
    struct gemm_problem p = product(3, 5, 7, 1);
    struct operation_part parts[OPERATION_PARTS_MAX];
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    ck_assert(!parts[GEMM_PART_A].is_whole && parts[GEMM_PART_B].is_whole);
    ck_assert(parts[GEMM_PART_BIAS].is_whole && parts[GEMM_PART_B_SCALE].is_whole);
    ck_assert(!parts[GEMM_PART_C0].is_whole && !parts[GEMM_PART_A_SCALE].is_whole);
    ck_assert(!parts[GEMM_PART_C].is_whole);
    p.transa = true; /* the rows of C are columns of A */
    gemm_problem_contiguous(&p);
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    ck_assert(parts[GEMM_PART_A].is_whole);
    p = product(3, 5, 7, 2);
    p.transa = true;
    gemm_problem_contiguous(&p);
    ck_assert(operation_parts(&operation_gemm, &p, parts));
    for (uint32_t i = 0; i <= GEMM_PART_C; i++)
        ck_assert_uint_eq(parts[i].is_whole, (i == GEMM_PART_BIAS));
}
END_TEST

/* ---- arrangement ---- */

static const struct operation_kernel particular = {.workspace_bytes = operation_no_workspace};
static const struct operation_kernel indifferent = {.any_leading = true,
                                                    .workspace_bytes = operation_no_workspace};

/* Without a device no row is moved apart; test_device_layout.c has the arrangement for one. */
START_TEST(resident_matrices_with_gaps_are_packed_for_a_particular_kernel)
{
    const struct gemm_problem plain = product(3, 5, 7, 2);
    struct gemm_problem p = plain;
    struct operation_arrangement arranged = {0, 0};
    const uint32_t all = 1u << GEMM_PART_A | 1u << GEMM_PART_B | 1u << GEMM_PART_C;
    ck_assert(operation_gemm.arrange(&particular, NULL, all, &p, &arranged));
    ck_assert_uint_eq(arranged.packed | arranged.apart, 0); /* there are no gaps */
    p.lda = 8;
    p.stride_a = 24;
    p.stride_b = 40; /* gaps between problems count too */
    p.ldc = 6;
    p.stride_c = 18;
    const struct gemm_problem gaps = p;
    ck_assert(operation_gemm.arrange(&indifferent, NULL, all, &p, &arranged));
    ck_assert_uint_eq(arranged.packed | arranged.apart, 0);
    assert_same_layout(&p, &gaps);
    ck_assert(operation_gemm.arrange(&particular, NULL, 1u << GEMM_PART_B, &p, &arranged));
    ck_assert_uint_eq(arranged.packed, 1u << GEMM_PART_B);
    ck_assert_uint_eq(p.stride_b, plain.stride_b);
    ck_assert_uint_eq(p.lda, 8); /* from the host, where its rows are that far apart */
    arranged.packed = 0;
    p = gaps;
    ck_assert(operation_gemm.arrange(&particular, NULL, all, &p, &arranged));
    ck_assert_uint_eq(arranged.packed, all);
    assert_same_layout(&p, &plain);
}
END_TEST

START_TEST(an_arrangement_that_overflows_is_refused)
{
    struct gemm_problem p = product(3, 5, 7, 1);
    struct operation_arrangement arranged = {0, 0};
    p.k = UINT64_C(1) << 63; /* 3 * 2^63 elements of A */
    ck_assert(operation_gemm.arrange(&particular, NULL, 1u << GEMM_PART_C, &p, &arranged));
    ck_assert(!operation_gemm.arrange(&particular, NULL, 1u << GEMM_PART_A, &p, &arranged));
    ck_assert(!operation_gemm.arrange(&indifferent, NULL, 1u << GEMM_PART_A, &p, &arranged));
}
END_TEST

/* ---- division ---- */

START_TEST(rows_are_divided_by_units)
{
    static unsigned char a[1], c[1];
    const struct operation_kernel exact = {.rows_independent = true, .any_leading = true};
    struct gemm_problem p = product(2 * SUBPROBLEM_ROWS + 1, 5, 7, 1), part;
    p.a = a;
    p.c = c;
    ck_assert_uint_eq(operation_gemm.units(&exact, &p), 3);
    operation_gemm.divide(&p, (struct operation_range){1, 1}, &part);
    ck_assert_uint_eq(part.m, SUBPROBLEM_ROWS);
    ck_assert_uint_eq((uintptr_t)part.a - (uintptr_t)a, F16 * SUBPROBLEM_ROWS * 7);
    ck_assert_uint_eq((uintptr_t)part.c - (uintptr_t)c, F32 * SUBPROBLEM_ROWS * 5);
    operation_gemm.divide(&p, (struct operation_range){1, 2}, &part);
    ck_assert_uint_eq(part.m, SUBPROBLEM_ROWS + 1); /* the last unit is one row */
    operation_gemm.divide(&p, (struct operation_range){0, 3}, &part);
    assert_same_layout(&part, &p);
    p.m = SUBPROBLEM_ROWS;
    ck_assert_uint_eq(operation_gemm.units(&exact, &p), 1);
}
END_TEST

START_TEST(a_batch_is_divided_by_problems)
{
    static unsigned char b[1], c[1];
    const struct operation_kernel exact = {.rows_independent = true, .any_leading = true};
    struct gemm_problem p = product(2 * SUBPROBLEM_ROWS, 5, 7, 9), part;
    p.b = b;
    p.c = c;
    ck_assert_uint_eq(operation_gemm.units(&exact, &p), 9);
    operation_gemm.divide(&p, (struct operation_range){4, 3}, &part);
    ck_assert_uint_eq(part.batch, 3);
    ck_assert_uint_eq(part.m, p.m);
    ck_assert_uint_eq((uintptr_t)part.b - (uintptr_t)b, F16 * 4 * 35);
    ck_assert_uint_eq((uintptr_t)part.c - (uintptr_t)c, F32 * 4 * 5 * p.m);
}
END_TEST

/* A kernel whose bits depend on the number of rows is not divided, unless it can be cut. */
START_TEST(only_kernels_with_exact_parts_divide)
{
    const struct gemm_problem rows = product(1000, 5, 7, 1), batch = product(10, 5, 7, 9);
    const struct operation_kernel dependent = {.any_leading = true},
                                  cut = {.any_leading = true, .launch_flops = 1};
    ck_assert_uint_eq(operation_gemm.units(&dependent, &rows), 0);
    ck_assert_uint_eq(operation_gemm.units(&dependent, &batch), 0);
    ck_assert_uint_eq(operation_gemm.units(&cut, &rows), size_blocks(1000, SUBPROBLEM_ROWS));
    ck_assert_uint_eq(operation_gemm.units(&cut, &batch), 9);
}
END_TEST

/* ---- figures ---- */

START_TEST(lengths_and_types_are_those_of_the_product)
{
    const struct gemm_problem p = product(3, 5, 7, 2);
    uint64_t lengths[OPERATION_LENGTHS];
    char text[128];
    operation_gemm.lengths(&p, lengths);
    ck_assert_uint_eq(lengths[0], 3);
    ck_assert_uint_eq(lengths[1], 5);
    ck_assert_uint_eq(lengths[2], 7);
    ck_assert_int_eq(operation_gemm.dtype(&p), GEMMD_F16);
    ck_assert_double_eq(operation_gemm.flops(&p), 2 * 3 * 5 * 7 * 2);
    operation_gemm.describe(&p, text, sizeof text);
    ck_assert_str_eq(text, "f16 to f32 of 3 x 5 x 7");
}
END_TEST

START_TEST(a_result_with_an_activation_or_scales_is_not_checked)
{
    struct gemm_problem p = product(3, 5, 7, 1);
    uint64_t bytes, again;
    ck_assert(operation_gemm.can_check(&p));
    ck_assert(operation_gemm.check_bytes(&p, &bytes) && freivalds_bytes(&p, &again));
    ck_assert_uint_eq(bytes, again);
    p.act = GEMM_ACT_RELU;
    ck_assert(!operation_gemm.can_check(&p));
    p.act = GEMM_ACT_NONE;
    p.scales = GEMM_SCALES_ROWCOL;
    ck_assert(!operation_gemm.can_check(&p));
}
END_TEST

/* ---- examples ---- */

START_TEST(examples_are_of_the_types_that_products_offer)
{
    unsigned ordinary = 0, special = 0;
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const enum gemmd_dtype dtype = (enum gemmd_dtype)(i / GEMMD_DTYPE_COUNT),
                               out = (enum gemmd_dtype)(i % GEMMD_DTYPE_COUNT);
        struct gemm_problem p;
        const bool offers = operation_gemm.example(dtype, out, &p);
        ck_assert_uint_eq(offers, dtype_offers_out(dtype, out));
        ck_assert_uint_eq(p.dtype, dtype);
        ck_assert_uint_eq(p.out, out);
        ck_assert_uint_eq(p.scales, GEMM_SCALES_NONE);
        ordinary += offers;
        const bool has_special = operation_gemm.special_example(dtype, out, &p);
        if (dtype == GEMMD_F16 || dtype == GEMMD_BF16) {
            ck_assert_uint_eq(has_special && gemm_problem_packed(&p), dtype_offers_out(dtype, out));
        } else {
            ck_assert_uint_eq(has_special, gemm_scales_offer(GEMM_SCALES_ROWCOL, dtype, out));
            ck_assert_int_eq(p.scales, GEMM_SCALES_ROWCOL);
        }
        special += has_special;
    }
    ck_assert_uint_gt(ordinary, 0);
    ck_assert_uint_gt(special, 0);
}
END_TEST

/* Every pair of types is warmed up in as many problems, and then there are no more. */
START_TEST(warming_up_covers_every_pair_of_types)
{
    unsigned of_pair[GEMMD_DTYPE_COUNT][GEMMD_DTYPE_COUNT] = {{0}};
    struct gemm_problem p;
    uint32_t count = 0, pairs = 0;
    for (; operation_gemm.warm(count, &p); count++) {
        ck_assert_uint_lt(count, 1000000);
        ck_assert(dtype_offers_out(p.dtype, p.out));
        ck_assert_uint_ge(p.lda, (p.transa ? p.m : p.k));
        ck_assert_uint_ge(p.ldb, (p.transb ? p.k : p.n));
        ck_assert_uint_eq((p.beta != 0), (p.c0 != NULL));
        of_pair[p.dtype][p.out]++;
    }
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const int dtype = i / GEMMD_DTYPE_COUNT, out = i % GEMMD_DTYPE_COUNT;
        pairs += dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out);
    }
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const int dtype = i / GEMMD_DTYPE_COUNT, out = i % GEMMD_DTYPE_COUNT;
        ck_assert_uint_eq(
            of_pair[dtype][out],
            dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out) ? count / pairs : 0);
    }
}
END_TEST

/* The self-test computes every pair of types in every transposition. No kernel takes a case of
 * types that products do not offer. */
START_TEST(known_answers_cover_every_pair_of_types)
{
    static unsigned char memory[KNOWN_ANSWER_BYTES];
    const struct operation_kernel *const *kernels =
        operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
    unsigned seen[GEMMD_DTYPE_COUNT][GEMMD_DTYPE_COUNT] = {{0}};
    for (uint32_t i = 0; i < operation_gemm.known.cases; i++) {
        struct gemm_problem p;
        uint64_t row, column;
        bool taken = false;
        operation_gemm.known.init(i, memory, &p);
        for (const struct operation_kernel *const *k = kernels; *k != NULL; k++)
            taken = taken || (*k)->takes(&p);
        ck_assert_uint_eq(taken, dtype_offers_out(p.dtype, p.out));
        if (!taken)
            continue;
        seen[p.dtype][p.out] |= 1u << (p.transa + 2 * p.transb);
        ck_assert_msg(!operation_gemm.known.check(&p, &row, &column),
                      "case %u is right before it is computed", i);
    }
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const int dtype = i / GEMMD_DTYPE_COUNT, out = i % GEMMD_DTYPE_COUNT;
        ck_assert_uint_eq(seen[dtype][out],
                          dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out) ? 15
                                                                                           : 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_operation");
    TCase *tests = tcase_create("gemm_operation");
    tcase_add_loop_test(tests, parts_have_the_sizes_and_the_rows_of_the_operands, 0, 4);
    tcase_add_test(tests, parts_are_where_the_problem_says);
    tcase_add_test(tests, whole_parts_are_those_that_every_division_needs);
    tcase_add_test(tests, resident_matrices_with_gaps_are_packed_for_a_particular_kernel);
    tcase_add_test(tests, an_arrangement_that_overflows_is_refused);
    tcase_add_test(tests, rows_are_divided_by_units);
    tcase_add_test(tests, a_batch_is_divided_by_problems);
    tcase_add_test(tests, only_kernels_with_exact_parts_divide);
    tcase_add_test(tests, lengths_and_types_are_those_of_the_product);
    tcase_add_test(tests, a_result_with_an_activation_or_scales_is_not_checked);
    tcase_add_test(tests, examples_are_of_the_types_that_products_offer);
    tcase_add_test(tests, warming_up_covers_every_pair_of_types);
    tcase_add_test(tests, known_answers_cover_every_pair_of_types);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
