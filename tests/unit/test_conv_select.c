/* The sizes of convolutions and their refusals, and the choice of a kernel on the CPU. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "tests/product/conv_sample.h"

static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};

/* A 3 x 3 filter on 2 images of 4 x 8 x 10. */
static struct conv_shape shape_of(void)
{
    return (struct conv_shape){.batch = 2,
                               .channels = 4,
                               .height = 8,
                               .width = 10,
                               .filters = 6,
                               .r = 3,
                               .s = 3,
                               .groups = 1,
                               .stride_h = 1,
                               .stride_w = 1,
                               .dilation_h = 1,
                               .dilation_w = 1};
}

static void expect_output(struct conv_shape shape, uint64_t height, uint64_t width)
{
    struct fault fault;
    ck_assert_uint_eq(conv_shape_settle(&shape, &fault), GEMMD_OK);
    ck_assert_uint_eq(shape.out_height, height);
    ck_assert_uint_eq(shape.out_width, width);
}

START_TEST(outputs)
{
    struct conv_shape shape = shape_of();
    expect_output(shape, 6, 8);
    shape.stride_h = 2;
    expect_output(shape, 3, 8);
    shape.dilation_w = 3;
    expect_output(shape, 3, 4);
    shape.pad_right = 5;
    expect_output(shape, 3, 9);
    shape.stride_w = CONV_DIM_MAX;
    expect_output(shape, 3, 1);
}
END_TEST

START_TEST(same_padding)
{
    struct conv_shape shape = shape_of();
    conv_shape_pad_same(&shape);
    ck_assert_uint_eq(shape.pad_top, 1);
    ck_assert_uint_eq(shape.pad_bottom, 1);
    expect_output(shape, 8, 10);
    shape.r = 4; /* 3 elements of padding: the larger half is at the bottom */
    shape.stride_w = 3;
    conv_shape_pad_same(&shape);
    ck_assert_uint_eq(shape.pad_top, 1);
    ck_assert_uint_eq(shape.pad_bottom, 2);
    expect_output(shape, 8, 4);
    shape.stride_h = 5; /* the last position, 5, needs 9 elements */
    conv_shape_pad_same(&shape);
    ck_assert_uint_eq(shape.pad_top, 0);
    ck_assert_uint_eq(shape.pad_bottom, 1);
    expect_output(shape, 2, 4);
    shape.r = shape.s = 1; /* nothing to pad */
    conv_shape_pad_same(&shape);
    ck_assert_uint_eq(shape.pad_top + shape.pad_bottom + shape.pad_left + shape.pad_right, 0);
}
END_TEST

static void expect_fault(struct conv_shape shape, enum gemmd_error code, const char *field,
                         const char *text)
{
    struct fault fault = {.detail = ""};
    ck_assert_uint_eq(conv_shape_settle(&shape, &fault), code);
    ck_assert_str_eq(fault.field, field);
    ck_assert_msg(strstr(fault.detail, text) != NULL, "'%s' is not in '%s'", text, fault.detail);
}

START_TEST(refusals)
{
    struct conv_shape shape = shape_of();
    shape.r = 9;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "filter_h", "covers 9 x 3");
    shape.r = 3;
    shape.dilation_w = 5;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "filter_w", "covers 3 x 11");
    shape.dilation_w = CONV_DIM_MAX;
    shape.s = CONV_DIM_MAX;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "filter_w", "padded input");
    shape = shape_of();
    shape.groups = 3;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "groups", "channels, 4,");
    shape.groups = 4;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "groups", "filters, 6,");
    shape.groups = 0;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "groups", "at least 1");
    shape = shape_of();
    shape.stride_w = 0;
    expect_fault(shape, GEMMD_ERR_MALFORMED, "stride", "at least 1");
    shape = shape_of();
    shape.pad_left = (uint64_t)CONV_DIM_MAX + 1;
    expect_fault(shape, GEMMD_ERR_TOO_LARGE, "padding", "2147483648");
    shape.pad_left = shape.pad_top = CONV_DIM_MAX;
    expect_fault(shape, GEMMD_ERR_TOO_LARGE, "padding", "output");
    shape = shape_of();
    shape.channels = CONV_DIM_MAX;
    expect_fault(shape, GEMMD_ERR_TOO_LARGE, "channels", "filter");
}
END_TEST

START_TEST(selection)
{
    struct conv_problem problem = conv_case(4, GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL);
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "auto", &problem, &kernel, &fault),
                      GEMMD_OK);
    ck_assert_str_eq(kernel->name, "implicit");
    const struct conv_problem halves = conv_case(40, GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL);
    ck_assert(conv_shape_is_pointwise(&halves.shape));
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "auto", &halves, &kernel, &fault),
                      GEMMD_OK);
    ck_assert_str_eq(kernel->name, "product"); /* in place */
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "naive", &problem, &kernel, &fault),
                      GEMMD_OK);
    ck_assert_str_eq(kernel->name, "naive");
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "fast", &problem, &kernel, &fault),
                      GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "kernel");
    problem.out = GEMMD_F16;
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "auto", &problem, &kernel, &fault),
                      GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "dtype");
    problem = conv_case(4, GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL);
    problem.alpha = 0.5;
    ck_assert_uint_eq(operation_select(&operation_conv2d, &cpu, "auto", &problem, &kernel, &fault),
                      GEMMD_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(operations)
{
    struct conv_problem problem = {.shape = shape_of()};
    struct fault fault;
    ck_assert_uint_eq(conv_shape_settle(&problem.shape, &fault), GEMMD_OK);
    ck_assert_double_eq(conv_flops(&problem), 2.0 * 2 * 6 * 6 * 8 * 4 * 3 * 3);
    problem.shape.groups = 2;
    ck_assert_double_eq(conv_flops(&problem), 2.0 * 2 * 6 * 6 * 8 * 2 * 3 * 3);
}
END_TEST

static bool takes_some_example(const struct operation *operation,
                               const struct operation_kernel *kernel)
{
    union operation_problem problem;
    for (int i = 0; i < GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT; i++) {
        const enum gemmd_dtype dtype = (enum gemmd_dtype)(i / GEMMD_DTYPE_COUNT);
        const enum gemmd_dtype out = (enum gemmd_dtype)(i % GEMMD_DTYPE_COUNT);
        if ((operation->example(dtype, out, &problem) && kernel->takes(&problem)) ||
            (operation->special_example != NULL &&
             operation->special_example(dtype, out, &problem) && kernel->takes(&problem)))
            return true;
    }
    return false;
}

/* So that /info has types for each; of every operation, and of CUDA where it is built. */
START_TEST(examples_for_every_kernel)
{
    static const enum gemm_backend backends[] = {GEMM_BACKEND_CPU, GEMM_BACKEND_CUDA};
    for (uint32_t i = 0; i < OPERATION_COUNT; i++)
        for (int b = 0; b < 2; b++)
            for (const struct operation_kernel *const *k =
                     operation_kernels(operation_table[i], backends[b]);
                 *k != NULL; k++)
                ck_assert_msg(takes_some_example(operation_table[i], *k), "%s %s",
                              operation_table[i]->name, (*k)->name);
}
END_TEST

/* No kernel of CUDA takes what the kernels of CUDA do not compute; without CUDA there are none. */
START_TEST(properties_that_kernels_of_cuda_do_not_take)
{
    for (const struct operation_property *p = operation_attention.properties; p->name != NULL; p++)
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_attention, GEMM_BACKEND_CUDA);
             *k != NULL; k++)
            for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
                ck_assert_msg(strcmp(p->name, "mask") == 0 || strcmp(p->name, "offset") == 0 ||
                                  !operation_takes_property(&operation_attention, *k, p,
                                                            (enum gemmd_dtype)dtype),
                              "kernel %s of CUDA takes %s, which PROTOCOL.md says no GPU does",
                              (*k)->name, p->name);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("conv_select");
    tcase_add_test(tests, examples_for_every_kernel);
    tcase_add_test(tests, properties_that_kernels_of_cuda_do_not_take);
    tcase_add_test(tests, outputs);
    tcase_add_test(tests, same_padding);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, selection);
    tcase_add_test(tests, operations);
    Suite *suite = suite_create("conv_select");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
