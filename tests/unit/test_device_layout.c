/* server/device/device_layout.c: the locations of the parts of a product in device memory. */
#include <check.h>
#include <stdlib.h>

#include "server/device/device_layout.h"

static const uint64_t WORKSPACE = 1000;
static const uint64_t F16 = 2, F32 = 4; /* bytes an element */

static bool workspace_bytes(const struct gemm_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = WORKSPACE;
    return true;
}

static bool endless_workspace(const struct gemm_problem *problem, uint64_t *out)
{
    (void)problem;
    *out = UINT64_MAX;
    return true;
}

static bool overflowing_workspace(const struct gemm_problem *problem, uint64_t *out)
{
    (void)problem;
    (void)out;
    return false;
}

static const struct operation_kernel kernel = {.workspace_bytes = workspace_bytes};
static const struct device_span nowhere = {.start = NULL};

static struct gemm_problem problem_of(uint64_t m, uint64_t n, uint64_t k, uint64_t batch)
{
    static float operand;
    struct gemm_problem problem = {.dtype = GEMMD_F16,
                                   .out = GEMMD_F32,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .batch = batch,
                                   .bias = &operand,
                                   .c0 = &operand};
    gemm_problem_contiguous(&problem);
    return problem;
}

START_TEST(parts_are_whole_aligned_and_apart)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.transa = _i & 1;
    problem.transb = _i & 2;
    gemm_problem_contiguous(&problem);
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.a.bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_eq(layout.b.bytes, F16 * 2 * 7 * 5);
    ck_assert_uint_eq(layout.bias.bytes, F32 * 5);
    ck_assert_uint_eq(layout.c0.bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.c.bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.workspace.bytes, WORKSPACE);

    const struct device_part *parts[] = {&layout.a,  &layout.b, &layout.bias,
                                         &layout.c0, &layout.c, &layout.workspace};
    uint64_t end = 0;
    for (int i = 0; i < 6; i++) {
        ck_assert_uint_eq(parts[i]->offset % DEVICE_LAYOUT_ALIGNMENT, 0);
        ck_assert_uint_ge(parts[i]->offset, end);
        end = parts[i]->offset + parts[i]->bytes;
    }
    ck_assert_uint_ge(layout.total_bytes, end);
}
END_TEST

START_TEST(what_is_not_there_takes_nothing)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 1);
    struct device_layout with, without;
    ck_assert(device_layout(&problem, &kernel, nowhere, &with));
    problem.bias = problem.c0 = NULL;
    ck_assert(device_layout(&problem, &kernel, nowhere, &without));
    ck_assert_uint_eq(without.bias.bytes, 0);
    ck_assert_uint_eq(without.c0.bytes, 0);
    ck_assert_uint_lt(without.total_bytes, with.total_bytes);
}
END_TEST

START_TEST(strided_operands_span_their_gaps)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.lda = 10;
    problem.stride_a = 100;
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.a.bytes, F16 * (100 + 2 * 10 + 7));
}
END_TEST

START_TEST(one_operand_for_all_is_there_once)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 4);
    struct device_layout layout;
    problem.stride_b = 0;
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.b.bytes, F16 * 7 * 5);
}
END_TEST

START_TEST(sizes_beyond_64_bits_are_refused)
{
    struct operation_kernel endless = {.workspace_bytes = endless_workspace};
    struct operation_kernel overflowing = {.workspace_bytes = overflowing_workspace};
    struct gemm_problem small = problem_of(1, 1, 1, 1);
    struct gemm_problem large = problem_of(2147483647, 2147483647, 2147483647, 2147483647);
    struct device_layout layout;
    ck_assert(device_layout(&small, &kernel, nowhere, &layout));
    ck_assert(!device_layout(&small, &endless, nowhere, &layout));
    ck_assert(!device_layout(&small, &overflowing, nowhere, &layout));
    ck_assert(!device_layout(&large, &kernel, nowhere, &layout));
}
END_TEST

START_TEST(each_size_alone_can_be_beyond_64_bits)
{
    const uint64_t huge = UINT64_C(1) << 63;
    struct device_layout layout;
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    problem.lda = huge; /* (3 - 1) * 2^63 */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.lda = 7;
    problem.stride_b = UINT64_MAX; /* added to the rows of one problem */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_b = huge + 1; /* times the bytes of an element */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_b = 35;
    problem.stride_c0 = huge;
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_c0 = 15;
    problem.stride_c = huge;
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_c = 15;
    problem.stride_a = UINT64_MAX - 14; /* rows and problems fit, their sum with the columns not */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(3, 5, 7, 2);
    problem.stride_b = UINT64_MAX / 2 - 35; /* 2^64 - 2 bytes, which cannot be aligned */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(3, 5, 7, 2);
    problem.batch = 0;
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(0, 5, 7, 1);
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
}
END_TEST

START_TEST(sizes_of_what_is_there_already_can_overflow_too)
{
    static unsigned char memory[16];
    const struct device_span there = {memory, sizeof memory};
    struct operation_kernel any = {.workspace_bytes = workspace_bytes, .any_leading = true};
    struct gemm_problem problem = problem_of(1, UINT64_C(1) << 33, UINT64_C(1) << 33, 1);
    struct device_layout layout;
    problem.a = problem.b = problem.c = memory;
    problem.c0 = NULL;
    ck_assert(!device_layout(&problem, &any, there, &layout)); /* B has 2^66 elements */
    problem = problem_of(1, UINT64_C(1) << 63, 1, 1);
    problem.a = problem.b = problem.c = memory;
    problem.c0 = NULL;
    ck_assert(!device_layout(&problem, &any, there, &layout)); /* the bias has 2^65 bytes */
    problem.bias = NULL;
    ck_assert(device_layout(&problem, &any, there, &layout));
}
END_TEST

START_TEST(problems_that_are_apart_are_packed)
{
    static unsigned char memory[4096];
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.b = memory;
    problem.stride_b = 40; /* rows without gaps, problems with */
    ck_assert(
        device_layout(&problem, &kernel, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.b.bytes, F16 * 2 * 7 * 5);
    ck_assert_uint_eq(layout.problem.stride_b, 35);
}
END_TEST

START_TEST(scales_have_parts_of_their_own)
{
    static float scales[16];
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.scales = GEMM_SCALES_ROWCOL;
    problem.a_scale.data = scales;
    problem.b_scale.data = scales + 8;
    gemm_problem_scales_contiguous(&problem, false, false);
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.a_scale.bytes, 2 * 3 * sizeof *scales);
    ck_assert_uint_eq(layout.b_scale.bytes, 2 * 5 * sizeof *scales);
    ck_assert_uint_ge(layout.b_scale.offset, layout.a_scale.offset + layout.a_scale.bytes);
    /* Scales that are on the device already have no part. */
    ck_assert(device_layout(&problem, &kernel, (struct device_span){scales + 8, 8 * sizeof *scales},
                            &layout));
    ck_assert_uint_eq(layout.a_scale.bytes, 2 * 3 * sizeof *scales);
    ck_assert_uint_eq(layout.b_scale.bytes, 0);
    problem.b_scale.step = UINT64_MAX / 2;
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.b_scale.step = UINT64_MAX / 8; /* too many bytes for as many elements */
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
    problem.b_scale.step = 1;
    problem.a_scale.stride = UINT64_MAX;
    ck_assert(!device_layout(&problem, &kernel, nowhere, &layout));
}
END_TEST

START_TEST(a_problem_is_moved_to_its_parts)
{
    static unsigned char range[1 << 16];
    static float scales[16];
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.scales = GEMM_SCALES_ROWCOL;
    problem.a_scale.data = scales;
    problem.b_scale.data = scales;
    gemm_problem_scales_contiguous(&problem, false, false);
    ck_assert(device_layout(&problem, &kernel, nowhere, &layout));
    struct gemm_problem moved = device_layout_problem(&layout, range);
    ck_assert_ptr_eq(moved.a, range + layout.a.offset);
    ck_assert_ptr_eq(moved.b, range + layout.b.offset);
    ck_assert_ptr_eq(moved.bias, range + layout.bias.offset);
    ck_assert_ptr_eq(moved.c0, range + layout.c0.offset);
    ck_assert_ptr_eq((const unsigned char *)moved.a_scale.data, range + layout.a_scale.offset);
    ck_assert_ptr_eq((const unsigned char *)moved.b_scale.data, range + layout.b_scale.offset);
    ck_assert_ptr_eq(moved.c, range + layout.c.offset);
    /* Operands without a part stay where they are. */
    problem.scales = GEMM_SCALES_NONE;
    problem.a_scale.data = problem.b_scale.data = NULL;
    problem.a = problem.b = problem.c = scales;
    problem.bias = problem.c0 = NULL;
    struct operation_kernel any = {.workspace_bytes = workspace_bytes, .any_leading = true};
    ck_assert(device_layout(&problem, &any, (struct device_span){scales, sizeof scales}, &layout));
    moved = device_layout_problem(&layout, range);
    ck_assert_ptr_eq(moved.a, scales);
    ck_assert_ptr_eq(moved.b, scales);
    ck_assert_ptr_eq(moved.c, scales);
    ck_assert_ptr_null(moved.bias);
    ck_assert_ptr_null(moved.c0);
    ck_assert_ptr_null(moved.a_scale.data);
    ck_assert_ptr_null(moved.b_scale.data);
}
END_TEST

/* A, B and C in `there`, A and C with gaps between their rows. */
static struct gemm_problem resident_problem(unsigned char *there)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    problem.a = there;
    problem.b = there + 1024;
    problem.c = there + 2048;
    problem.lda = 8;
    problem.stride_a = 3 * 8;
    problem.ldc = 6;
    problem.stride_c = 3 * 6;
    return problem;
}

START_TEST(what_is_there_already_has_no_part)
{
    static unsigned char memory[4096];
    struct operation_kernel any = {.workspace_bytes = workspace_bytes, .any_leading = true};
    struct gemm_problem problem = resident_problem(memory);
    struct device_layout layout;
    ck_assert(device_layout(&problem, &any, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.a.bytes + layout.b.bytes + layout.c.bytes, 0);
    ck_assert_uint_gt(layout.bias.bytes, 0);
    ck_assert_uint_eq(layout.problem.lda, 8);
    ck_assert_uint_eq(layout.problem.ldc, 6);
    ck_assert_uint_eq(layout.problem.stride_c, 3 * 6);
}
END_TEST

START_TEST(gaps_are_taken_out_for_kernels_that_they_matter_to)
{
    static unsigned char memory[4096];
    struct gemm_problem problem = resident_problem(memory);
    struct device_layout layout;
    ck_assert(
        device_layout(&problem, &kernel, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.a.bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_eq(layout.problem.lda, 7);
    ck_assert_uint_eq(layout.problem.stride_a, 3 * 7);
    ck_assert_uint_eq(layout.b.bytes, 0); /* has none */
    ck_assert_uint_eq(layout.c.bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.problem.ldc, 5);
}
END_TEST

START_TEST(a_span_ends_where_it_ends)
{
    static unsigned char memory[16];
    const struct device_span span = {memory, 8};
    ck_assert(device_span_has(span, memory));
    ck_assert(device_span_has(span, memory + 7));
    ck_assert(!device_span_has(span, memory + 8));
    ck_assert(!device_span_has(span, NULL));
    ck_assert(!device_span_has(nowhere, memory));
    ck_assert(!device_span_has(nowhere, NULL));
}
END_TEST

/* A kernel that moves rows apart itself unless their leading dimension is 8 elements. */
static bool workspace_of_unaligned(const struct gemm_problem *problem, uint64_t *out)
{
    *out = (problem->lda % 8 != 0 ? 1000u : 0) + (problem->ldb % 8 != 0 ? 100u : 0);
    return true;
}
static const struct operation_kernel wants_aligned = {.any_leading = true,
                                                 .workspace_bytes = workspace_of_unaligned};

START_TEST(rows_are_further_apart_where_that_spares_workspace)
{
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct device_layout layout;
    const struct device_leading wanted = {8, 64};
    problem.transa = _i & 1;
    gemm_problem_contiguous(&problem);
    ck_assert(device_layout_padded(&problem, &wants_aligned, wanted, nowhere, &layout));
    const uint64_t rows = problem.transa ? 7 : 3, columns = problem.transa ? 3 : 7;
    ck_assert_uint_eq(layout.problem.lda, 8);
    ck_assert_uint_eq(layout.problem.stride_a, 8 * rows);
    ck_assert_uint_eq(layout.a.bytes, F16 * (8 * (2 * rows - 1) + columns));
    ck_assert_uint_eq(layout.a_staging.bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_ge(layout.a_staging.offset, layout.workspace.offset + layout.workspace.bytes);
    ck_assert_uint_le(layout.a_staging.offset + layout.a_staging.bytes, layout.total_bytes);
    /* B is well as it is. */
    ck_assert_uint_eq(layout.problem.ldb, 16);
    ck_assert_uint_eq(layout.b_staging.bytes, 0);
    ck_assert_uint_eq(layout.workspace.bytes, 0);
}
END_TEST

/* A kernel that takes rows of 7 elements and no others. */
static bool workspace_of_seven(const struct gemm_problem *problem, uint64_t *out)
{
    *out = WORKSPACE;
    return problem->lda == 7;
}

START_TEST(rows_stay_together_where_the_kernel_takes_no_others)
{
    const struct operation_kernel seven = {.any_leading = true, .workspace_bytes = workspace_of_seven};
    const struct operation_kernel overflowing = {.any_leading = true,
                                            .workspace_bytes = overflowing_workspace};
    const struct device_leading wanted = {8, 16};
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct device_layout layout;
    ck_assert(device_layout_padded(&problem, &seven, wanted, nowhere, &layout));
    ck_assert_uint_eq(layout.problem.lda, 7);
    ck_assert(!device_layout_padded(&problem, &overflowing, wanted, nowhere, &layout));
}
END_TEST

START_TEST(rows_of_b_are_further_apart_too)
{
    struct gemm_problem problem = problem_of(3, 15, 8, 2);
    struct device_layout layout;
    problem.transb = _i & 1;
    gemm_problem_contiguous(&problem);
    problem.transb = _i & 1;
    const uint64_t rows = problem.transb ? 15 : 8;
    const struct device_leading wanted = {8, 16};
    if (problem.transb) /* rows of 8 elements are well as they are */
        problem.ldb = 8;
    ck_assert(device_layout_padded(&problem, &wants_aligned, wanted, nowhere, &layout));
    ck_assert_uint_eq(layout.problem.ldb, problem.transb ? 8 : 16);
    ck_assert_uint_eq(layout.problem.stride_b, (problem.transb ? 8 : 16) * rows);
    ck_assert_uint_eq(layout.b_staging.bytes, problem.transb ? 0 : F16 * 2 * 8 * 15);
    ck_assert_uint_eq(layout.a_staging.bytes, 0);
}
END_TEST

static void assert_not_padded(const struct gemm_problem *problem, const struct operation_kernel *of,
                              struct device_leading wanted, struct device_span there)
{
    struct device_layout layout, plain;
    ck_assert(device_layout_padded(problem, of, wanted, there, &layout));
    ck_assert(device_layout(problem, of, there, &plain));
    ck_assert_uint_eq(layout.problem.lda, problem->lda);
    ck_assert_uint_eq(layout.problem.stride_a, problem->stride_a);
    ck_assert_uint_eq(layout.a_staging.bytes + layout.b_staging.bytes, 0);
    ck_assert_uint_eq(layout.total_bytes, plain.total_bytes);
}

START_TEST(rows_stay_as_they_came_where_that_is_as_well)
{
    static unsigned char memory[4096];
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct operation_kernel particular = wants_aligned, indifferent = kernel;
    const struct device_leading wanted = {8, 16};
    particular.any_leading = false; /* its bits could change */
    indifferent.any_leading = true;
    assert_not_padded(&problem, &particular, wanted, nowhere);
    assert_not_padded(&problem, &indifferent, wanted, nowhere);
    assert_not_padded(&problem, &wants_aligned, (struct device_leading){7, 16}, nowhere);
    problem.a = memory; /* there already */
    assert_not_padded(&problem, &wants_aligned, wanted,
                      (struct device_span){memory, sizeof memory});
    problem.a = NULL;
    problem.stride_a = 0; /* one for all */
    assert_not_padded(&problem, &wants_aligned, wanted, nowhere);
    problem = problem_of(3, 16, 7, 2);
    assert_not_padded(&problem, &wants_aligned, (struct device_leading){UINT64_MAX, 16}, nowhere);
    problem.lda = 9; /* rows are apart already */
    assert_not_padded(&problem, &wants_aligned, (struct device_leading){16, 16}, nowhere);
    problem = problem_of(3, 15, 8, 2);
    problem.b = memory;
    assert_not_padded(&problem, &wants_aligned, (struct device_leading){8, 16},
                      (struct device_span){memory, sizeof memory});
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_layout");
    TCase *tests = tcase_create("device_layout");
    tcase_add_loop_test(tests, parts_are_whole_aligned_and_apart, 0, 4);
    tcase_add_test(tests, what_is_not_there_takes_nothing);
    tcase_add_test(tests, strided_operands_span_their_gaps);
    tcase_add_test(tests, one_operand_for_all_is_there_once);
    tcase_add_test(tests, sizes_beyond_64_bits_are_refused);
    tcase_add_test(tests, each_size_alone_can_be_beyond_64_bits);
    tcase_add_test(tests, sizes_of_what_is_there_already_can_overflow_too);
    tcase_add_test(tests, problems_that_are_apart_are_packed);
    tcase_add_test(tests, scales_have_parts_of_their_own);
    tcase_add_test(tests, a_problem_is_moved_to_its_parts);
    tcase_add_test(tests, rows_stay_together_where_the_kernel_takes_no_others);
    tcase_add_loop_test(tests, rows_of_b_are_further_apart_too, 0, 2);
    tcase_add_test(tests, what_is_there_already_has_no_part);
    tcase_add_test(tests, gaps_are_taken_out_for_kernels_that_they_matter_to);
    tcase_add_test(tests, a_span_ends_where_it_ends);
    tcase_add_loop_test(tests, rows_are_further_apart_where_that_spares_workspace, 0, 2);
    tcase_add_test(tests, rows_stay_as_they_came_where_that_is_as_well);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
