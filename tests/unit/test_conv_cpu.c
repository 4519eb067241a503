/* The CPU's convolution kernels against long double: odd sizes, strides, dilations, groups,
 * paddings and layouts in every type, and that an image has the same bits in any batch. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/conv_sample.h"

enum { GUARD = 64, POISON = 0xff };

static const struct {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
} types[] = {
    {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL}, {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32},
    {GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL}, {GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL},
    {GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL},  {GEMMD_I8, GEMMD_F32, GEMM_PRECISION_FULL}};
enum { TYPES = sizeof types / sizeof *types, CASE_STEP = 5 };

static void run_conv(const struct operation_kernel *kernel, const struct conv_problem *problem,
                     uint32_t threads)
{
    struct gemm_context *context;
    struct fault fault;
    uint64_t bytes;
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, threads, &context, &fault),
                      GEMMD_OK);
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    unsigned char *workspace = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, POISON, bytes + GUARD);
    ck_assert_uint_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    for (uint64_t i = 0; i < GUARD; i++)
        ck_assert_msg(workspace[bytes + i] == POISON, "%s wrote beyond its workspace",
                      kernel->name);
    free(workspace);
    gemm_context_destroy(context);
}

/* Whether a kernel takes the problem. `product` and `naive` take all. */
static bool takes_case(const struct operation_kernel *kernel, const struct conv_problem *problem)
{
    const bool takes = kernel->takes(problem);
    if (strcmp(kernel->name, "product") == 0 || strcmp(kernel->name, "naive") == 0)
        ck_assert_msg(takes, "%s does not take all", kernel->name);
    return takes;
}

static void check_kernels(const struct conv_problem *like, enum product_fill fill, uint64_t seed)
{
    char what[384], why[512];
    struct conv_sample sample;
    ck_assert(conv_sample_create(&sample, like, fill, seed));
    const struct conv_problem *p = &sample.problem;
    conv_describe(p, what, sizeof what);
    const double error = product_sum_error(p->dtype, sample.groups[0].problem.k);
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_conv2d, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        if (!takes_case(*k, p))
            continue;
        conv_sample_poison(&sample);
        run_conv(*k, p, 2);
        ck_assert_msg(conv_sample_check(&sample, error, NULL, why, sizeof why), "%s, %s: %s",
                      (*k)->name, what, why);
    }
    conv_sample_destroy(&sample);
}

START_TEST(every_shape_and_type)
{
    /* Each type has every shape, and the types share the variants of a shape. Thinned, the types
     * share the shapes, too. */
    for (unsigned i = (unsigned)_i % CASE_STEP; i < conv_case_count();
         i += CASE_STEP * CASE_THINNING) {
        const unsigned type = (unsigned)_i;
        const struct conv_problem problem =
            conv_case(i, types[type].dtype, types[type].out, types[type].precision);
        check_kernels(&problem, PRODUCT_UNIFORM, i + 1);
    }
}
END_TEST

/* NaN and infinity reach what IEEE arithmetic says, also by way of padding. */
START_TEST(special_numbers)
{
    for (unsigned i = 4; i < 20; i += 3 * CASE_STRIDE) {
        const struct conv_problem problem =
            conv_case(i, types[_i].dtype, types[_i].out, types[_i].precision);
        check_kernels(&problem, PRODUCT_SPECIAL, i + 1);
    }
}
END_TEST

/* Each image alone, and the parts of a batch, have the bytes that they have in the batch. */
START_TEST(images_have_bits_of_their_own)
{
    for (unsigned i = 0; i < conv_case_count(); i += 7 * CASE_THINNING) {
        struct conv_problem like =
            conv_case(i, types[_i].dtype, types[_i].out, types[_i].precision);
        like.shape.batch = 3;
        struct conv_sample sample;
        ck_assert(conv_sample_create(&sample, &like, PRODUCT_UNIFORM, i + 1));
        const struct product_buffer *y = &sample.buffers[CONV_Y];
        unsigned char *whole = malloc(y->bytes);
        ck_assert_ptr_nonnull(whole);
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_conv2d, GEMM_BACKEND_CPU);
             *k != NULL; k++) {
            if (!takes_case(*k, &sample.problem))
                continue;
            run_conv(*k, &sample.problem, 2);
            memcpy(whole, y->data, y->bytes);
            conv_sample_poison(&sample);
            for (uint64_t image = 0; image < 3; image++) {
                const struct conv_problem part = conv_subproblem(&sample.problem, image, 1);
                run_conv(*k, &part, 2);
            }
            ck_assert_msg(
                memcmp(whole + y->offset, y->data + y->offset, y->bytes - 2 * y->offset) == 0,
                "%s gives an image other bits alone", (*k)->name);
        }
        free(whole);
        conv_sample_destroy(&sample);
    }
}
END_TEST

/* Convolutions of any shapes have the bytes in a group that they have alone. */
START_TEST(members_of_a_group_have_bits_of_their_own)
{
    enum { CASES = 12, DEPTHWISE = 52, MEMBERS = CASES_OF(66) };
    static struct conv_sample samples[CASES];
    static struct conv_problem problems[MEMBERS];
    static struct operation_member members[MEMBERS];
    struct gemm_context *context;
    struct fault fault;
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, &fault), GEMMD_OK);
    for (unsigned i = 0; i < CASES; i++) {
        const struct conv_problem like = conv_case(
            i % 2 ? 4 * i : DEPTHWISE + i / 2, types[_i].dtype, types[_i].out, types[_i].precision);
        ck_assert(conv_sample_create(&samples[i], &like, PRODUCT_UNIFORM, i + 1));
    }
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_conv2d, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        const struct conv_sample *taken[CASES];
        unsigned count = 0;
        for (unsigned i = 0; i < CASES; i++)
            if (takes_case(*k, &samples[i].problem))
                taken[count++] = &samples[i];
        ck_assert_uint_gt(count, 1);
        for (unsigned i = 0; i < MEMBERS; i++) {
            uint64_t bytes;
            problems[i] = taken[i % count]->problem;
            problems[i].y = calloc(1, taken[i % count]->buffers[CONV_Y].bytes);
            ck_assert((*k)->workspace_bytes(&problems[i], &bytes));
            members[i] =
                (struct operation_member){&problems[i], aligned_alloc(64, (bytes + 64) / 64 * 64)};
            ck_assert_ptr_nonnull(problems[i].y);
            ck_assert_ptr_nonnull(members[i].workspace);
        }
        ck_assert_uint_eq((*k)->run_group(context, members, MEMBERS), GEMMD_OK);
        for (unsigned i = 0; i < MEMBERS; i++) {
            const struct conv_sample *sample = taken[i % count];
            uint64_t elements;
            if (i < count)
                run_conv(*k, &sample->problem, 2);
            ck_assert(conv_shape_y(&problems[i].shape, &elements));
            ck_assert_msg(
                memcmp(sample->problem.y, problems[i].y, elements * dtype_size(types[_i].out)) == 0,
                "%s gives member %u of a group other bits", (*k)->name, i);
            free(problems[i].y);
            free(members[i].workspace);
        }
    }
    for (unsigned i = 0; i < CASES; i++)
        conv_sample_destroy(&samples[i]);
    gemm_context_destroy(context);
}
END_TEST

/* The kernels whose bits are compared are fused multiply-adds in the order of `naive`. */
static bool has_fused(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

static const struct operation_kernel *kernel_named(const char *name)
{
    const struct operation_kernel *const *kernels =
        operation_kernels(&operation_conv2d, GEMM_BACKEND_CPU);
    while (strcmp((*kernels)->name, name) != 0)
        kernels++;
    return *kernels;
}

static void expect_bits_of_naive(const struct operation_kernel *kernel,
                                 const struct conv_problem *like, uint32_t threads, uint64_t seed)
{
    char what[384];
    struct conv_sample sample;
    ck_assert(conv_sample_create(&sample, like, PRODUCT_UNIFORM, seed));
    const struct product_buffer *y = &sample.buffers[CONV_Y];
    unsigned char *expected = malloc(y->bytes);
    ck_assert_ptr_nonnull(expected);
    run_conv(kernel_named("naive"), &sample.problem, 2);
    memcpy(expected, y->data, y->bytes);
    conv_sample_poison(&sample);
    run_conv(kernel, &sample.problem, threads);
    conv_describe(&sample.problem, what, sizeof what);
    ck_assert_msg(memcmp(expected + y->offset, y->data + y->offset, y->bytes - 2 * y->offset) == 0,
                  "%s has other bits than naive: %s", kernel->name, what);
    free(expected);
    conv_sample_destroy(&sample);
}

/* The kernel `depthwise` adds in the order of `naive`, in vectors or not. */
START_TEST(depthwise_has_the_bits_of_naive)
{
    const struct operation_kernel *depthwise = kernel_named("depthwise");
    unsigned count = 0;
    for (unsigned i = 0; has_fused() && i < conv_case_count(); i++) {
        const struct conv_problem like =
            conv_case(i, types[_i].dtype, types[_i].out, types[_i].precision);
        if (depthwise->takes(&like) && count++ % (5 * CASE_THINNING) == 0)
            expect_bits_of_naive(depthwise, &like, 1, i + 1);
    }
}
END_TEST

/* So does the kernel `implicit` in NHWC, and in NCHW if a filter has one tap: for every way in
 * which it reads X. */
START_TEST(implicit_has_the_bits_of_naive)
{
    /* layout, batch, channels, height, width, filters, taps, stride, padding */
    static const struct {
        enum conv_layout layout;
        uint16_t sizes[8];
    } cases[] = {
        {CONV_NHWC, {2, 20, 11, 9, 70, 3, 2, 0}},   /* in place in f32 */
        {CONV_NHWC, {2, 1024, 5, 6, 40, 1, 1, 0}},  /* pixels far apart */
        {CONV_NHWC, {1, 96, 150, 100, 4, 3, 2, 1}}, /* an image of several windows */
        {CONV_NHWC, {9, 256, 32, 32, 4, 1, 1, 1}},  /* windows that are not filled together */
        {CONV_NHWC, {1, 300, 5, 5, 48, 3, 1, 1}},   /* filters that are packed once */
        {CONV_NCHW, {2, 40, 20, 20, 24, 1, 1, 0}},  /* rows that are copied together */
        {CONV_NCHW, {1, 80, 130, 120, 4, 1, 1, 0}}, /* the same, of several windows */
        {CONV_NCHW, {1, 80, 130, 120, 4, 1, 1, 1}}, /* rows with padding */
        {CONV_NCHW, {1, 24, 30, 31, 16, 1, 3, 0}},  /* columns that no filter meets */
        {CONV_NCHW, {2, 40, 23, 25, 70, 1, 1, 0}},  /* filters times X in place in f32 */
        {CONV_NCHW, {1, 300, 23, 25, 13, 1, 1, 0}}, /* the same, in several blocks of k */
        {CONV_NCHW, {1, 1100, 16, 36, 5, 1, 1, 0}},
    };
    const struct operation_kernel *implicit = kernel_named("implicit");
    /* Thinned, the types share the cases. */
    const unsigned step = CASE_THINNING > 1 ? TYPES : 1, first = (unsigned)_i % step;
    for (unsigned i = first; has_fused() && i < sizeof cases / sizeof *cases; i += step) {
        const uint16_t *c = cases[i].sizes;
        const bool channels_last = cases[i].layout == CONV_NHWC;
        struct conv_problem like =
            conv_case(4 * i, types[_i].dtype, types[_i].out, types[_i].precision);
        like.shape = (struct conv_shape){
            .layout = cases[i].layout,
            .w_layout = channels_last ? CONV_KRSC : CONV_KCRS,
            .batch = c[0],
            .channels = c[1],
            .height = c[2],
            .width = c[3],
            .filters = c[4],
            .r = c[5],
            .s = c[5],
            .groups = 1,
            .stride_h = c[6],
            .stride_w = c[6],
            .dilation_h = 1,
            .dilation_w = 1,
            .pad_top = c[7],
            .pad_bottom = c[7],
            .pad_left = c[7],
            .pad_right = c[7],
        };
        ck_assert_int_eq(conv_shape_settle(&like.shape, NULL), GEMMD_OK);
        ck_assert(implicit->takes(&like));
        expect_bits_of_naive(implicit, &like, 2, i + 1);
    }
}
END_TEST

/* Small ones of one type and kernel share launches. */
START_TEST(groups_are_of_small_ones)
{
    const struct operation_kernel *const *kernels =
        operation_kernels(&operation_conv2d, GEMM_BACKEND_CPU);
    struct conv_problem one, other;
    while (strcmp((*kernels)->name, "product") != 0)
        kernels++;
    ck_assert(operation_conv2d.example(GEMMD_F32, GEMMD_F32, &one));
    ck_assert(operation_conv2d.example(GEMMD_F16, GEMMD_F16, &other));
    ck_assert(operation_can_group(&operation_conv2d, kernels[0], &one));
    ck_assert(!operation_same_group(&operation_conv2d, kernels[0], &one, kernels[0], &other));
    ck_assert(!operation_same_group(&operation_conv2d, kernels[0], &one, kernels[1], &one));
    other = one;
    other.alpha = 2;
    other.shape.layout = CONV_NCHW;
    ck_assert(operation_same_group(&operation_conv2d, kernels[0], &one, kernels[0], &other));
    other.shape.batch = 100; /* 470 million operations */
    ck_assert(!operation_can_group(&operation_conv2d, kernels[0], &other));
    other.shape.batch = UINT32_MAX;
    ck_assert(!operation_can_group(&operation_conv2d, kernels[0], &other));
    other = one;
    other.shape.filters = other.shape.r = other.shape.s = 1;
    other.shape.height = other.shape.width = 2048; /* bytes count, too */
    ck_assert_int_eq(conv_shape_settle(&other.shape, NULL), GEMMD_OK);
    ck_assert_uint_gt(operation_group_units(&operation_conv2d, &other), 10000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv_cpu");
    TCase *test = tcase_create("conv_cpu");
    tcase_add_loop_test(test, every_shape_and_type, 0, TYPES);
    tcase_add_loop_test(test, special_numbers, 0, 4);
    tcase_add_loop_test(test, images_have_bits_of_their_own, 0, TYPES);
    tcase_add_loop_test(test, members_of_a_group_have_bits_of_their_own, 0, TYPES);
    tcase_add_loop_test(test, depthwise_has_the_bits_of_naive, 0, TYPES);
    tcase_add_loop_test(test, implicit_has_the_bits_of_naive, 0, TYPES);
    tcase_add_test(test, groups_are_of_small_ones);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
