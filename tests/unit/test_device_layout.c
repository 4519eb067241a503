/* server/device/device_layout.c: the locations of the parts of a problem in device memory. */
#include <check.h>
#include <stdlib.h>

#include "server/device/device_layout.h"

static const uint64_t WORKSPACE = 1000;
static const uint64_t F16 = 2, F32 = 4; /* bytes an element */

static bool workspace_bytes(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = WORKSPACE;
    return true;
}

static bool endless_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = UINT64_MAX;
    return true;
}

static bool overflowing_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    (void)out;
    return false;
}

static const struct operation_kernel kernel = {.workspace_bytes = workspace_bytes};
static const struct device_span nowhere = {.start = NULL};
static unsigned char tensors[4096], range[1 << 16];
static const struct device_span tensor_memory = {tensors, sizeof tensors};

/* The leading dimensions of rows of two widths at which a device's kernels use them without a copy.
 * The linker sends the calls of gemm_leading to the function below (-Wl,--wrap). */
static struct {
    uint64_t width, leading;
} wanted[2];
uint64_t __wrap_gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays);

uint64_t __wrap_gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays)
{
    (void)device;
    ck_assert_int_eq(dtype, GEMMD_F16);
    ck_assert(!stays);
    for (int i = 0; i < 2; i++)
        if (wanted[i].width == width)
            return wanted[i].leading;
    return width;
}

/* Rows of A and B of these widths are wanted that far apart. */
static void want(uint64_t a_width, uint64_t a_leading, uint64_t b_width, uint64_t b_leading)
{
    wanted[0].width = a_width;
    wanted[0].leading = a_leading;
    wanted[1].width = b_width;
    wanted[1].leading = b_leading;
}

static struct task product_task(const struct gemm_problem *problem,
                                const struct operation_kernel *by)
{
    return (struct task){.operation = &operation_gemm, .kernel = by, .problem.gemm = *problem};
}

/* No row is moved apart. */
static bool product_layout(const struct gemm_problem *problem, const struct operation_kernel *by,
                           struct device_span there, struct device_layout *layout)
{
    const struct task task = product_task(problem, by);
    return device_layout_make(&task, NULL, there, layout);
}

/* Rows from the host are moved apart for the kernels of a device. */
static bool product_layout_apart(const struct gemm_problem *problem,
                                 const struct operation_kernel *by, struct device_span there,
                                 struct device_layout *layout)
{
    static const struct gemm_device device;
    const struct task task = product_task(problem, by);
    return device_layout_make(&task, &device, there, layout);
}

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
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A].bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_eq(layout.locations[GEMM_PART_B].bytes, F16 * 2 * 7 * 5);
    ck_assert_uint_eq(layout.locations[GEMM_PART_BIAS].bytes, F32 * 5);
    ck_assert_uint_eq(layout.locations[GEMM_PART_C0].bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.locations[GEMM_PART_C].bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.workspace.bytes, WORKSPACE);

    const struct device_location *parts[] = {
        &layout.locations[GEMM_PART_A],    &layout.locations[GEMM_PART_B],
        &layout.locations[GEMM_PART_BIAS], &layout.locations[GEMM_PART_C0],
        &layout.locations[GEMM_PART_C],    &layout.workspace};
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
    ck_assert(product_layout(&problem, &kernel, nowhere, &with));
    problem.bias = problem.c0 = NULL;
    ck_assert(product_layout(&problem, &kernel, nowhere, &without));
    ck_assert_uint_eq(without.locations[GEMM_PART_BIAS].bytes, 0);
    ck_assert_uint_eq(without.locations[GEMM_PART_C0].bytes, 0);
    ck_assert_uint_lt(without.total_bytes, with.total_bytes);
}
END_TEST

START_TEST(strided_operands_span_their_gaps)
{
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.lda = 10;
    problem.stride_a = 100;
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A].bytes, F16 * (100 + 2 * 10 + 7));
}
END_TEST

START_TEST(sizes_beyond_64_bits_are_refused)
{
    struct operation_kernel endless = {.workspace_bytes = endless_workspace};
    struct operation_kernel overflowing = {.workspace_bytes = overflowing_workspace};
    struct gemm_problem small = problem_of(1, 1, 1, 1);
    struct gemm_problem large = problem_of(2147483647, 2147483647, 2147483647, 2147483647);
    struct device_layout layout;
    ck_assert(product_layout(&small, &kernel, nowhere, &layout));
    ck_assert(!product_layout(&small, &endless, nowhere, &layout));
    ck_assert(!product_layout(&small, &overflowing, nowhere, &layout));
    ck_assert(!product_layout(&large, &kernel, nowhere, &layout));
}
END_TEST

START_TEST(each_size_alone_can_be_beyond_64_bits)
{
    const uint64_t huge = UINT64_C(1) << 63;
    struct device_layout layout;
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    problem.lda = huge; /* (3 - 1) * 2^63 */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.lda = 7;
    problem.stride_b = UINT64_MAX; /* added to the rows of one problem */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_b = huge + 1; /* times the bytes of an element */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_b = 35;
    problem.stride_c0 = huge;
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_c0 = 15;
    problem.stride_c = huge;
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.stride_c = 15;
    problem.stride_a = UINT64_MAX - 14; /* rows and problems fit, their sum with the columns not */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(3, 5, 7, 2);
    problem.stride_b = UINT64_MAX / 2 - 35; /* 2^64 - 2 bytes, which cannot be aligned */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(3, 5, 7, 2);
    problem.batch = 0;
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem = problem_of(0, 5, 7, 1);
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
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
    ck_assert(!product_layout(&problem, &any, there, &layout)); /* B has 2^66 elements */
    problem = problem_of(1, UINT64_C(1) << 63, 1, 1);
    problem.a = problem.b = problem.c = memory;
    problem.c0 = NULL;
    ck_assert(!product_layout(&problem, &any, there, &layout)); /* the bias has 2^65 bytes */
    problem.bias = NULL;
    ck_assert(!product_layout(&problem, &any, there, &layout)); /* so has C */
    problem = problem_of(1, UINT64_C(1) << 61, 1, 1);
    problem.a = problem.b = problem.c = memory;
    problem.bias = problem.c0 = NULL;
    ck_assert(product_layout(&problem, &any, there, &layout));
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
        product_layout(&problem, &kernel, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_B].bytes, F16 * 2 * 7 * 5);
    ck_assert_uint_eq(layout.problem.gemm.stride_b, 35);
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
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A_SCALE].bytes, 2 * 3 * sizeof *scales);
    ck_assert_uint_eq(layout.locations[GEMM_PART_B_SCALE].bytes, 2 * 5 * sizeof *scales);
    ck_assert_uint_ge(layout.locations[GEMM_PART_B_SCALE].offset,
                      layout.locations[GEMM_PART_A_SCALE].offset +
                          layout.locations[GEMM_PART_A_SCALE].bytes);
    /* Scales that are on the device already have no part. */
    ck_assert(product_layout(&problem, &kernel,
                             (struct device_span){scales + 8, 8 * sizeof *scales}, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A_SCALE].bytes, 2 * 3 * sizeof *scales);
    ck_assert_uint_eq(layout.locations[GEMM_PART_B_SCALE].bytes, 0);
    problem.b_scale.step = UINT64_MAX / 2;
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.b_scale.step = UINT64_MAX / 8; /* too many bytes for as many elements */
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
    problem.b_scale.step = 1;
    problem.a_scale.stride = UINT64_MAX;
    ck_assert(!product_layout(&problem, &kernel, nowhere, &layout));
}
END_TEST

START_TEST(a_problem_is_moved_to_its_parts)
{
    static float scales[16];
    struct gemm_problem problem = problem_of(3, 5, 7, 2);
    struct device_layout layout;
    problem.scales = GEMM_SCALES_ROWCOL;
    problem.a_scale.data = scales;
    problem.b_scale.data = scales;
    gemm_problem_scales_contiguous(&problem, false, false);
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    union operation_problem there;
    device_layout_problem(&layout, range, &there);
    struct gemm_problem moved = there.gemm;
    ck_assert_ptr_eq(moved.a, range + layout.locations[GEMM_PART_A].offset);
    ck_assert_ptr_eq(moved.b, range + layout.locations[GEMM_PART_B].offset);
    ck_assert_ptr_eq(moved.bias, range + layout.locations[GEMM_PART_BIAS].offset);
    ck_assert_ptr_eq(moved.c0, range + layout.locations[GEMM_PART_C0].offset);
    ck_assert_ptr_eq((const unsigned char *)moved.a_scale.data,
                     range + layout.locations[GEMM_PART_A_SCALE].offset);
    ck_assert_ptr_eq((const unsigned char *)moved.b_scale.data,
                     range + layout.locations[GEMM_PART_B_SCALE].offset);
    ck_assert_ptr_eq(moved.c, range + layout.locations[GEMM_PART_C].offset);
    /* Operands without a part stay where they are. */
    problem.scales = GEMM_SCALES_NONE;
    problem.a_scale.data = problem.b_scale.data = NULL;
    problem.a = problem.b = problem.c = scales;
    problem.bias = problem.c0 = NULL;
    struct operation_kernel any = {.workspace_bytes = workspace_bytes, .any_leading = true};
    ck_assert(product_layout(&problem, &any, (struct device_span){scales, sizeof scales}, &layout));
    device_layout_problem(&layout, range, &there);
    moved = there.gemm;
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
    ck_assert(product_layout(&problem, &any, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A].bytes + layout.locations[GEMM_PART_B].bytes +
                          layout.locations[GEMM_PART_C].bytes,
                      0);
    ck_assert_uint_gt(layout.locations[GEMM_PART_BIAS].bytes, 0);
    ck_assert_uint_eq(layout.problem.gemm.lda, 8);
    ck_assert_uint_eq(layout.problem.gemm.ldc, 6);
    ck_assert_uint_eq(layout.problem.gemm.stride_c, 3 * 6);
}
END_TEST

START_TEST(gaps_are_taken_out_for_kernels_that_they_matter_to)
{
    static unsigned char memory[4096];
    struct gemm_problem problem = resident_problem(memory);
    struct device_layout layout;
    ck_assert(
        product_layout(&problem, &kernel, (struct device_span){memory, sizeof memory}, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_A].bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_eq(layout.problem.gemm.lda, 7);
    ck_assert_uint_eq(layout.problem.gemm.stride_a, 3 * 7);
    ck_assert_uint_eq(layout.locations[GEMM_PART_B].bytes, 0); /* has none */
    ck_assert_uint_eq(layout.locations[GEMM_PART_C].bytes, F32 * 2 * 3 * 5);
    ck_assert_uint_eq(layout.problem.gemm.ldc, 5);
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
static bool workspace_of_unaligned(const void *of, uint64_t *out)
{
    const struct gemm_problem *problem = of;
    *out = (problem->lda % 8 != 0 ? 1000u : 0) + (problem->ldb % 8 != 0 ? 100u : 0);
    return true;
}
static const struct operation_kernel wants_aligned = {.any_leading = true,
                                                      .workspace_bytes = workspace_of_unaligned};

START_TEST(rows_are_further_apart_where_that_spares_workspace)
{
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct device_layout layout;
    problem.transa = _i & 1;
    want(problem.transa ? 3 : 7, 8, 16, 64);
    gemm_problem_contiguous(&problem);
    ck_assert(product_layout_apart(&problem, &wants_aligned, nowhere, &layout));
    const uint64_t rows = problem.transa ? 7 : 3, columns = problem.transa ? 3 : 7;
    ck_assert_uint_eq(layout.problem.gemm.lda, 8);
    ck_assert_uint_eq(layout.problem.gemm.stride_a, 8 * rows);
    ck_assert_uint_eq(layout.locations[GEMM_PART_A].bytes, F16 * (8 * (2 * rows - 1) + columns));
    ck_assert_uint_eq(layout.staging[GEMM_PART_A].bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_ge(layout.staging[GEMM_PART_A].offset,
                      layout.workspace.offset + layout.workspace.bytes);
    ck_assert_uint_le(layout.staging[GEMM_PART_A].offset + layout.staging[GEMM_PART_A].bytes,
                      layout.total_bytes);
    /* B is well as it is. */
    ck_assert_uint_eq(layout.problem.gemm.ldb, 16);
    ck_assert_uint_eq(layout.staging[GEMM_PART_B].bytes, 0);
    ck_assert_uint_eq(layout.workspace.bytes, 0);
}
END_TEST

/* A kernel that takes rows of 7 elements and no others. */
static bool workspace_of_seven(const void *problem, uint64_t *out)
{
    *out = WORKSPACE;
    return ((const struct gemm_problem *)problem)->lda == 7;
}

START_TEST(rows_stay_together_where_the_kernel_takes_no_others)
{
    const struct operation_kernel seven = {.any_leading = true,
                                           .workspace_bytes = workspace_of_seven};
    const struct operation_kernel overflowing = {.any_leading = true,
                                                 .workspace_bytes = overflowing_workspace};
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct device_layout layout;
    want(7, 8, 16, 16);
    ck_assert(product_layout_apart(&problem, &seven, nowhere, &layout));
    ck_assert_uint_eq(layout.problem.gemm.lda, 7);
    ck_assert(!product_layout_apart(&problem, &overflowing, nowhere, &layout));
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
    want(8, problem.transb ? 16 : 8, 15, 16);
    if (problem.transb) /* rows of 8 elements are well as they are */
        problem.ldb = 8;
    ck_assert(product_layout_apart(&problem, &wants_aligned, nowhere, &layout));
    ck_assert_uint_eq(layout.problem.gemm.ldb, problem.transb ? 8 : 16);
    ck_assert_uint_eq(layout.problem.gemm.stride_b, (problem.transb ? 8 : 16) * rows);
    ck_assert_uint_eq(layout.staging[GEMM_PART_B].bytes, problem.transb ? 0 : F16 * 2 * 8 * 15);
    ck_assert_uint_eq(layout.staging[GEMM_PART_A].bytes, 0);
}
END_TEST

static void assert_not_apart(const struct gemm_problem *problem, const struct operation_kernel *of,
                             struct device_span there)
{
    struct device_layout layout, plain;
    ck_assert(product_layout_apart(problem, of, there, &layout));
    ck_assert(product_layout(problem, of, there, &plain));
    ck_assert_uint_eq(layout.problem.gemm.lda, problem->lda);
    ck_assert_uint_eq(layout.problem.gemm.stride_a, problem->stride_a);
    ck_assert_uint_eq(layout.staging[GEMM_PART_A].bytes + layout.staging[GEMM_PART_B].bytes, 0);
    ck_assert_uint_eq(layout.total_bytes, plain.total_bytes);
}

START_TEST(rows_stay_as_they_came_where_that_is_as_well)
{
    struct gemm_problem problem = problem_of(3, 16, 7, 2);
    struct operation_kernel particular = wants_aligned, indifferent = kernel;
    want(7, 8, 16, 16);
    particular.any_leading = false; /* its bits could change */
    indifferent.any_leading = true;
    assert_not_apart(&problem, &particular, nowhere);
    assert_not_apart(&problem, &indifferent, nowhere);
    want(7, 7, 16, 16);
    assert_not_apart(&problem, &wants_aligned, nowhere);
    want(7, 8, 16, 16);
    problem.a = tensors; /* there already */
    assert_not_apart(&problem, &wants_aligned, tensor_memory);
    problem.a = NULL;
    problem = problem_of(3, 16, 7, 2);
    want(7, UINT64_MAX, 16, 16);
    assert_not_apart(&problem, &wants_aligned, nowhere);
    problem.lda = 9; /* rows are apart already */
    want(7, 16, 16, 16);
    assert_not_apart(&problem, &wants_aligned, nowhere);
    problem = problem_of(3, 15, 8, 2);
    problem.b = tensors;
    want(8, 8, 15, 16);
    assert_not_apart(&problem, &wants_aligned, tensor_memory);
}
END_TEST

/* A kernel with the bits of one leading dimension only: B in tensor memory is packed, and A from
 * the host stays, because moving its rows apart could change bits too. */
START_TEST(packed_and_apart_are_of_different_kernels)
{
    struct gemm_problem problem = problem_of(3, 15, 7, 2);
    struct operation_kernel particular = wants_aligned;
    struct device_layout layout;
    particular.any_leading = false;
    problem.b = tensors;
    problem.ldb = 16;
    problem.stride_b = 7 * 16;
    want(7, 8, 15, 16);
    ck_assert(product_layout_apart(&problem, &particular, tensor_memory, &layout));
    ck_assert_uint_eq(layout.resident, 1u << GEMM_PART_B);
    ck_assert_uint_eq(layout.locations[GEMM_PART_B].bytes, F16 * 2 * 7 * 15);
    ck_assert_uint_eq(layout.pitches[GEMM_PART_B], F16 * 16); /* where B is now */
    ck_assert_uint_eq(layout.list[GEMM_PART_B].pitch, F16 * 15);
    ck_assert_uint_eq(layout.problem.gemm.ldb, 15);
    ck_assert_uint_eq(layout.problem.gemm.lda, 7);
    ck_assert_uint_eq(layout.staging[GEMM_PART_A].bytes, 0);
    /* With a kernel that takes any leading dimension, A is moved apart and B is used where it is.
     */
    ck_assert(product_layout_apart(&problem, &wants_aligned, tensor_memory, &layout));
    ck_assert_uint_eq(layout.locations[GEMM_PART_B].bytes, 0);
    ck_assert_uint_eq(layout.problem.gemm.ldb, 16);
    ck_assert_uint_eq(layout.problem.gemm.lda, 8);
    ck_assert_uint_eq(layout.pitches[GEMM_PART_A], F16 * 7);
    ck_assert_uint_eq(layout.list[GEMM_PART_A].pitch, F16 * 8);
    ck_assert_uint_eq(layout.staging[GEMM_PART_A].bytes, F16 * 2 * 3 * 7);
}
END_TEST

START_TEST(both_operands_are_moved_apart)
{
    struct gemm_problem problem = problem_of(3, 15, 7, 2);
    struct device_layout layout;
    want(7, 8, 15, 16);
    ck_assert(product_layout_apart(&problem, &wants_aligned, nowhere, &layout));
    ck_assert_uint_eq(layout.problem.gemm.lda, 8);
    ck_assert_uint_eq(layout.problem.gemm.ldb, 16);
    ck_assert_uint_eq(layout.workspace.bytes, 0);
    const struct device_location a = layout.staging[GEMM_PART_A], b = layout.staging[GEMM_PART_B];
    ck_assert_uint_eq(a.bytes, F16 * 2 * 3 * 7);
    ck_assert_uint_eq(b.bytes, F16 * 2 * 7 * 15);
    ck_assert_uint_ge(a.offset, layout.locations[GEMM_PART_C].offset + F32 * 2 * 3 * 15);
    ck_assert_uint_ge(b.offset, a.offset + a.bytes);
    ck_assert_uint_le(b.offset + b.bytes, layout.total_bytes);
}
END_TEST

START_TEST(a_workspace_is_in_the_range_if_there_is_one)
{
    const struct gemm_problem problem = problem_of(3, 16, 8, 2);
    struct device_layout layout;
    ck_assert(product_layout(&problem, &kernel, nowhere, &layout));
    ck_assert_ptr_eq(device_layout_workspace(&layout, range), range + layout.workspace.offset);
    ck_assert(product_layout(&problem, &wants_aligned, nowhere, &layout));
    ck_assert_ptr_null(device_layout_workspace(&layout, range));
}
END_TEST

/* --- problems of an operation that arranges nothing --- */

static struct attention_problem attention_of(enum attention_layout layout)
{
    struct attention_problem p = {.dtype = GEMMD_F16,
                                  .batch = 3,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .sq = 5,
                                  .skv = 7,
                                  .d = 11,
                                  .dv = 13};
    p.q_strides = attention_strides(layout, p.heads, p.sq, p.d);
    p.k_strides = attention_strides(layout, p.kv_heads, p.skv, p.d);
    p.v_strides = attention_strides(layout, p.kv_heads, p.skv, p.dv);
    p.o_strides = attention_strides(layout, p.heads, p.sq, p.dv);
    return p;
}

static bool place(const struct attention_problem *problem, const struct operation_kernel *by,
                  struct device_span there, struct device_layout *layout)
{
    const struct task task = {
        .operation = &operation_attention, .kernel = by, .problem.attention = *problem};
    return device_layout_make(&task, NULL, there, layout);
}

static struct attention_problem moved_problem(const struct device_layout *layout)
{
    union operation_problem moved;
    device_layout_problem(layout, range, &moved);
    return moved.attention;
}

START_TEST(parts_of_an_attention_are_whole_aligned_and_apart)
{
    static const int32_t lens[3];
    static float lse;
    struct attention_problem p = attention_of(_i % 2 ? ATTENTION_BSHD : ATTENTION_BHSD);
    struct device_layout layout;
    p.lens_q = p.lens_kv = lens;
    p.lse = &lse;
    ck_assert(place(&p, &kernel, nowhere, &layout));
    const struct device_location all[] = {
        layout.locations[ATTENTION_PART_LENS_Q], layout.locations[ATTENTION_PART_LENS_KV],
        layout.locations[ATTENTION_PART_Q],      layout.locations[ATTENTION_PART_K],
        layout.locations[ATTENTION_PART_V],      layout.locations[ATTENTION_PART_O],
        layout.locations[ATTENTION_PART_LSE],    layout.workspace};
    const uint64_t bytes[] = {3 * 4,
                              3 * 4,
                              3 * 4 * 5 * 11 * 2,
                              3 * 2 * 7 * 11 * 2,
                              3 * 2 * 7 * 13 * 2,
                              3 * 4 * 5 * 13 * 2,
                              3 * 4 * 5 * 4,
                              WORKSPACE};
    uint64_t end = 0;
    for (int i = 0; i < 8; i++) {
        ck_assert_uint_eq(all[i].bytes, bytes[i]);
        ck_assert_uint_eq(all[i].offset % DEVICE_LAYOUT_ALIGNMENT, 0);
        ck_assert_uint_eq(all[i].offset, end);
        end = all[i].offset + (all[i].bytes + DEVICE_LAYOUT_ALIGNMENT - 1) /
                                  DEVICE_LAYOUT_ALIGNMENT * DEVICE_LAYOUT_ALIGNMENT;
    }
    ck_assert_uint_eq(layout.total_bytes, end);

    const struct attention_problem moved = moved_problem(&layout);
    ck_assert_ptr_eq(moved.lens_q, range + layout.locations[ATTENTION_PART_LENS_Q].offset);
    ck_assert_ptr_eq(moved.lens_kv, range + layout.locations[ATTENTION_PART_LENS_KV].offset);
    ck_assert_ptr_eq(moved.q, range + layout.locations[ATTENTION_PART_Q].offset);
    ck_assert_ptr_eq(moved.k, range + layout.locations[ATTENTION_PART_K].offset);
    ck_assert_ptr_eq(moved.v, range + layout.locations[ATTENTION_PART_V].offset);
    ck_assert_ptr_eq(moved.o, range + layout.locations[ATTENTION_PART_O].offset);
    ck_assert_ptr_eq(moved.lse, range + layout.locations[ATTENTION_PART_LSE].offset);
}
END_TEST

START_TEST(what_an_attention_lacks_takes_no_memory)
{
    const struct attention_problem p = attention_of(ATTENTION_BHSD);
    struct device_layout layout;
    ck_assert(place(&p, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.locations[ATTENTION_PART_LENS_Q].bytes +
                          layout.locations[ATTENTION_PART_LENS_KV].bytes +
                          layout.locations[ATTENTION_PART_LSE].bytes,
                      0);
    ck_assert_uint_eq(layout.locations[ATTENTION_PART_Q].offset, 0);
    const struct attention_problem moved = moved_problem(&layout);
    ck_assert_ptr_null(moved.lens_q);
    ck_assert_ptr_null(moved.lens_kv);
    ck_assert_ptr_null(moved.lse);
}
END_TEST

START_TEST(k_and_v_in_tensor_memory_stay_there)
{
    struct attention_problem p = attention_of(ATTENTION_BHSD);
    struct device_layout layout, with_both;
    p.k = _i & 1 ? tensors : NULL;
    p.v = _i & 2 ? tensors + 256 : NULL;
    ck_assert(place(&p, &kernel, nowhere, &with_both));
    ck_assert(place(&p, &kernel, tensor_memory, &layout));
    const struct attention_problem moved = moved_problem(&layout);
    ck_assert_uint_eq(layout.locations[ATTENTION_PART_K].bytes,
                      _i & 1 ? 0 : with_both.locations[ATTENTION_PART_K].bytes);
    ck_assert_uint_eq(layout.locations[ATTENTION_PART_V].bytes,
                      _i & 2 ? 0 : with_both.locations[ATTENTION_PART_V].bytes);
    ck_assert_ptr_eq(moved.k, _i & 1 ? tensors : range + layout.locations[ATTENTION_PART_K].offset);
    ck_assert_ptr_eq(moved.v,
                     _i & 2 ? tensors + 256 : range + layout.locations[ATTENTION_PART_V].offset);
    ck_assert_uint_eq(layout.total_bytes,
                      with_both.total_bytes - (_i & 1 ? 1024 : 0) - (_i & 2 ? 1280 : 0));
}
END_TEST

/* Up to the last element, gaps between rows included. */
START_TEST(gaps_are_part_of_a_tensor_of_an_attention)
{
    struct attention_problem p = attention_of(ATTENTION_BHSD);
    struct device_layout layout;
    p.k_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d + 5);
    ck_assert(place(&p, &kernel, nowhere, &layout));
    ck_assert_uint_eq(layout.locations[ATTENTION_PART_K].bytes, (3 * 2 * 7 * 16 - 5) * 2);
}
END_TEST

START_TEST(sizes_of_an_attention_that_overflow_are_refused)
{
    struct attention_problem p = attention_of(ATTENTION_BHSD);
    struct device_layout layout;
    p.batch = UINT64_MAX / 2;
    ck_assert(!place(&p, &kernel, nowhere, &layout));
    p = attention_of(ATTENTION_BHSD);
    p.q_strides.batch = UINT64_MAX / 4;
    ck_assert(!place(&p, &kernel, nowhere, &layout));
    p = attention_of(ATTENTION_BHSD);
    p.v_strides.head = UINT64_MAX - 3;
    ck_assert(!place(&p, &kernel, nowhere, &layout));
    p = attention_of(ATTENTION_BHSD);
    const struct operation_kernel overflowing = {.workspace_bytes = overflowing_workspace};
    ck_assert(!place(&p, &overflowing, nowhere, &layout));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_layout");
    TCase *tests = tcase_create("device_layout");
    tcase_add_loop_test(tests, parts_are_whole_aligned_and_apart, 0, 4);
    tcase_add_test(tests, what_is_not_there_takes_nothing);
    tcase_add_test(tests, strided_operands_span_their_gaps);
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
    tcase_add_test(tests, packed_and_apart_are_of_different_kernels);
    tcase_add_test(tests, both_operands_are_moved_apart);
    tcase_add_test(tests, a_workspace_is_in_the_range_if_there_is_one);
    tcase_add_loop_test(tests, parts_of_an_attention_are_whole_aligned_and_apart, 0, 2);
    tcase_add_test(tests, what_an_attention_lacks_takes_no_memory);
    tcase_add_loop_test(tests, k_and_v_in_tensor_memory_stay_there, 0, 4);
    tcase_add_test(tests, gaps_are_part_of_a_tensor_of_an_attention);
    tcase_add_test(tests, sizes_of_an_attention_that_overflow_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
