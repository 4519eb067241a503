/* The CPU's kernels of convolutions, reductions, softmaxes, attentions and experts look inside of a
 * long part whether they have to stop, and `openblas` looks between the calls of a long product.
 * The kernels then end with an incomplete result. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/team.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

enum {
    SLICES = 10,
    ELEMENTS = SLICES * TEAM_PACE_STEPS,
    STOPS_AT = 4,
    FILL = 0x3c /* the byte of positive numbers in every type */
};

static struct gemm_context *context;
static unsigned char *x, *w, *y, *whole;

static void setup(void)
{
    struct fault fault;
    const size_t bytes = (size_t)ELEMENTS * sizeof(float);
    ck_assert_int_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &context, &fault), GEMMD_OK);
    x = malloc(bytes);
    w = malloc(bytes);
    y = malloc(bytes);
    whole = malloc(bytes);
    ck_assert_ptr_nonnull(x);
    ck_assert_ptr_nonnull(w);
    ck_assert_ptr_nonnull(y);
    ck_assert_ptr_nonnull(whole);
    memset(x, FILL, bytes);
    memset(w, FILL, bytes);
}

static void teardown(void)
{
    gemm_context_destroy(context);
    free(x);
    free(w);
    free(y);
    free(whole);
}

struct stopper {
    uint32_t asked, stops_at; /* 0: never */
};

static bool stopper_stops(void *argument)
{
    struct stopper *stopper = argument;
    return ++stopper->asked == stopper->stops_at;
}

/* Runs a problem on the context's single thread. Returns how often the kernel asked. */
static uint32_t run(const struct operation_kernel *kernel, const void *problem, uint32_t stops_at)
{
    struct stopper stopper = {.stops_at = stops_at};
    uint64_t bytes;
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    void *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
    ck_assert_ptr_nonnull(workspace);
    cpu_watch_begin(context, stopper_stops, &stopper);
    ck_assert_int_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    ck_assert_uint_eq(cpu_watch_end(context), (stops_at != 0));
    free(workspace);
    return stopper.asked;
}

/* A problem of one part: `slices` is how many times TEAM_PACE_STEPS steps it has at least. */
static void expect_stops(const struct operation *operation, const void *problem, uint64_t y_bytes,
                         uint32_t slices)
{
    for (const struct operation_kernel *const *kernel =
             operation_kernels(operation, GEMM_BACKEND_CPU);
         *kernel != NULL; kernel++) {
        if (!(*kernel)->takes(problem))
            continue;
        memset(y, 0xff, y_bytes);
        const uint32_t asked = run(*kernel, problem, 0);
        ck_assert_msg(asked >= slices, "%s %s asked %u times", operation->name, (*kernel)->name,
                      asked);
        memcpy(whole, y, y_bytes);
        memset(y, 0xff, y_bytes);
        run(*kernel, problem, STOPS_AT);
        ck_assert_msg(memcmp(whole, y, y_bytes) != 0, "%s %s computed all", operation->name,
                      (*kernel)->name);
    }
}

static const enum gemmd_dtype conv_types[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16, GEMMD_I8};
enum { CONV_TYPES = sizeof conv_types / sizeof *conv_types };

static struct conv_problem conv_problem(enum gemmd_dtype dtype, struct conv_shape shape)
{
    struct fault fault;
    shape.batch = shape.groups = 1;
    shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
    ck_assert_int_eq(conv_shape_settle(&shape, &fault), GEMMD_OK);
    return (struct conv_problem){.dtype = dtype,
                                 .out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype,
                                 .alpha = dtype == GEMMD_I8 ? 1 : 1e-6, /* so that f16 can hold Y */
                                 .shape = shape,
                                 .x = x,
                                 .w = w,
                                 .y = y};
}

/* A single element of Y over many channels, and over a large filter. */
START_TEST(one_element_of_a_convolution)
{
    const enum gemmd_dtype dtype = conv_types[_i];
    const struct conv_problem channels = conv_problem(
        dtype, (struct conv_shape){
                   .channels = ELEMENTS, .height = 1, .width = 1, .filters = 1, .r = 1, .s = 1});
    expect_stops(&operation_conv2d, &channels, dtype_size(channels.out), SLICES);
    const struct conv_problem filter =
        conv_problem(dtype, (struct conv_shape){.channels = 1,
                                                .height = SLICES,
                                                .width = TEAM_PACE_STEPS,
                                                .filters = 1,
                                                .r = SLICES,
                                                .s = TEAM_PACE_STEPS});
    expect_stops(&operation_conv2d, &filter, dtype_size(filter.out), SLICES);
}
END_TEST

/* Many filters on one block of pixels are several calls of the product's kernel. */
START_TEST(many_filters)
{
    enum { PIXELS = 64, TAPS = 1 << 15, FILTERS = 1024 };
    static float filters[(size_t)TAPS * 8];
    struct conv_problem problem = conv_problem(
        GEMMD_F32,
        (struct conv_shape){
            .channels = TAPS, .height = 1, .width = PIXELS, .filters = 8, .r = 1, .s = 1});
    problem.w = filters;
    problem.alpha = 1; /* so that nothing follows the product */
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    ck_assert_int_eq(operation_select(&operation_conv2d, &cpu, "product", &problem, &kernel, NULL),
                     GEMMD_OK);
    const uint32_t few = run(kernel, &problem, 0);
    float *all = calloc((size_t)TAPS * FILTERS, sizeof *all);
    ck_assert_ptr_nonnull(all);
    problem.shape.filters = FILTERS;
    problem.w = all;
    /* The kernel asks once for each filter whose results it copies, and once for each call. */
    ck_assert_uint_gt(run(kernel, &problem, 0), few + FILTERS - 8 + 1);
    free(all);
}
END_TEST

/* Over the last dimension, and over one before it. */
START_TEST(one_result_of_a_reduction)
{
    enum { COLUMNS = 64 };
    static const enum gemmd_dtype types[] = {GEMMD_F64, GEMMD_F32, GEMMD_BF16, GEMMD_I8};
    const struct array_shape row = {1, {ELEMENTS / 2}},
                             columns = {2, {ELEMENTS / 2 / COLUMNS, COLUMNS}};
    for (int op = 0; op < REDUCE_OP_COUNT; op++) {
        struct reduce_problem p;
        /* The place and value of the greatest of equal elements are known early. */
        if (op == REDUCE_MAX || op == REDUCE_MIN || op == REDUCE_ARGMAX)
            continue;
        reduce_problem_of(&p, &row, 0, ELEMENTS / 2);
        p.op = (enum reduce_op)op;
        p.dtype = types[_i];
        p.out = reduce_default_out(p.op, p.dtype);
        p.x = x;
        p.y = y;
        expect_stops(&operation_reduce, &p, dtype_size(p.out), SLICES / 2);
        reduce_problem_of(&p, &columns, 0, COLUMNS);
        p.op = (enum reduce_op)op;
        p.dtype = types[_i];
        p.out = reduce_default_out(p.op, p.dtype);
        p.x = x;
        p.y = y;
        expect_stops(&operation_reduce, &p, COLUMNS * dtype_size(p.out), SLICES / 2);
    }
}
END_TEST

/* Of elements that count, and of elements that are masked. */
START_TEST(one_row_of_a_softmax)
{
    static const enum gemmd_dtype types[] = {GEMMD_F64, GEMMD_F32, GEMMD_BF16};
    static const int32_t lens[] = {1};
    const struct array_shape row = {2, {1, ELEMENTS / 2}};
    struct softmax_problem p;
    softmax_problem_of(&p, &row, 0);
    p.dtype = p.out = types[_i];
    p.x = x;
    p.y = y;
    expect_stops(&operation_softmax, &p, (uint64_t)ELEMENTS / 2 * dtype_size(p.out), SLICES);
    softmax_problem_of(&p, &row, 1);
    p.dtype = p.out = types[_i];
    p.x = x;
    p.y = y;
    p.lens = lens;
    expect_stops(&operation_softmax, &p, (uint64_t)ELEMENTS / 2 * dtype_size(p.out), SLICES / 2);
}
END_TEST

START_TEST(one_query_of_an_attention)
{
    static const enum gemmd_dtype types[] = {GEMMD_F32, GEMMD_BF16};
    enum { SIZE = 64, KEYS = ELEMENTS / SIZE };
    const struct attention_strides query = attention_strides(ATTENTION_BHSD, 1, 1, SIZE);
    const struct attention_strides keys = attention_strides(ATTENTION_BHSD, 1, KEYS, SIZE);
    const struct attention_problem p = {.dtype = types[_i],
                                        .batch = 1,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .sq = 1,
                                        .skv = KEYS,
                                        .d = SIZE,
                                        .dv = SIZE,
                                        .scale = 1,
                                        .q = x,
                                        .k = x,
                                        .v = w,
                                        .o = y,
                                        .q_strides = query,
                                        .k_strides = keys,
                                        .v_strides = keys,
                                        .o_strides = query};
    expect_stops(&operation_attention, &p, SIZE * dtype_size(p.dtype), SLICES);
}
END_TEST

/* Between the experts of a block, and between places where each is a product of its own. */
START_TEST(experts_of_one_row_each)
{
    enum { EXPERTS = 2 * SLICES, COLUMNS = 64, K = 1000 };
    static const enum gemmd_dtype types[] = {GEMMD_F64, GEMMD_F32, GEMMD_F16, GEMMD_BF16};
    int32_t numbers[EXPERTS];
    for (int32_t i = 0; i < EXPERTS; i++)
        numbers[i] = i;
    struct experts_problem p = {.dtype = types[_i],
                                .out = types[_i],
                                .m = EXPERTS,
                                .n = COLUMNS,
                                .k = K,
                                .count = EXPERTS,
                                .topk = 1,
                                .a = x,
                                .w = w,
                                .experts = numbers,
                                .c = y};
    experts_problem_contiguous(&p);
    _Static_assert((uint64_t)EXPERTS * COLUMNS * K * sizeof(double) <= ELEMENTS * sizeof(float),
                   "W fits");
    expect_stops(&operation_experts, &p, (uint64_t)EXPERTS * COLUMNS * dtype_size(p.out), EXPERTS);
}
END_TEST

/* Products that `openblas` cuts into several calls. */
static const struct long_product {
    enum gemmd_dtype dtype, out;
    bool transa, transb;
    uint64_t m, n, k;
    uint32_t calls; /* at least */
} long_products[] = {
    {GEMMD_F64, GEMMD_F64, false, false, 1450, 1470, 400, 4}, /* cut along m and k */
    {GEMMD_F64, GEMMD_F64, true, true, 640, 640, 2100, 2},    /* along k */
    {GEMMD_F32, GEMMD_F32, false, true, 2000, 2120, 400, 4},  /* along n and k */
    {GEMMD_F16, GEMMD_F32, true, false, 1030, 4100, 390,
     5}, /* in blocks of rows, one of them cut */
};

static double factor_of_k(uint64_t p, uint64_t period)
{
    const uint64_t half = period / 2;
    return (double)(p % period) - (double)half;
}

static void put_element(enum gemmd_dtype dtype, unsigned char *data, uint64_t at, double value)
{
    const float single = (float)value;
    if (dtype == GEMMD_F64)
        memcpy(data + at * sizeof value, &value, sizeof value);
    else
        convert_narrow(dtype, &single, data + at * dtype_size(dtype), 1);
}

/* An operand whose element of a line and a step of k is a product of a number of each, which every
 * type holds exactly. */
static unsigned char *make_operand(enum gemmd_dtype dtype, uint64_t lines, uint64_t k, bool along_k,
                                   uint64_t line_period, uint64_t k_period)
{
    unsigned char *data = malloc(lines * k * dtype_size(dtype));
    ck_assert_ptr_nonnull(data);
    for (uint64_t i = 0; i < lines; i++)
        for (uint64_t p = 0; p < k; p++)
            put_element(dtype, data, along_k ? i * k + p : p * lines + i,
                        (double)(i % line_period + 1) * factor_of_k(p, k_period));
    return data;
}

START_TEST(long_product_of_openblas)
{
    const struct long_product *of = &long_products[_i];
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    unsigned char *a = make_operand(of->dtype, of->m, of->k, !of->transa, 5, 7);
    unsigned char *b = make_operand(of->dtype, of->n, of->k, of->transb, 3, 11);
    const uint64_t elements = of->m * of->n, bytes = elements * dtype_size(of->out);
    unsigned char *c = malloc(bytes);
    ck_assert_ptr_nonnull(c);
    struct gemm_problem problem = {.dtype = of->dtype,
                                   .out = of->out,
                                   .transa = of->transa,
                                   .transb = of->transb,
                                   .m = of->m,
                                   .n = of->n,
                                   .k = of->k,
                                   .alpha = 1,
                                   .batch = 1};
    gemm_problem_contiguous(&problem);
    problem.a = a;
    problem.b = b;
    problem.c = c;
    ck_assert_int_eq(operation_select(&operation_gemm, &cpu, "openblas", &problem, &kernel, NULL),
                     GEMMD_OK);

    memset(c, 0xff, bytes);
    const uint32_t asked = run(kernel, &problem, 0);
    ck_assert_msg(asked + 1 >= of->calls, "asked %u times", asked);
    double sum = 0;
    for (uint64_t p = 0; p < of->k; p++)
        sum += factor_of_k(p, 7) * factor_of_k(p, 11);
    for (uint64_t i = 0; i < elements; i++) {
        double got;
        convert_to_f64(of->out, c + i * dtype_size(of->out), &got, 1);
        const uint64_t factor = (i / of->n % 5 + 1) * (i % of->n % 3 + 1);
        const double right = sum * (double)factor;
        if (got != right)
            ck_abort_msg("C(%lu, %lu) is %g and not %g", i / of->n, i % of->n, got, right);
    }
    memset(c, 0xff, bytes);
    run(kernel, &problem, 1);
    double last;
    convert_to_f64(of->out, c + (elements - 1) * dtype_size(of->out), &last, 1);
    ck_assert_msg(last != sum * (double)((of->m - 1) % 5 + 1) * (double)((of->n - 1) % 3 + 1),
                  "computed all");
    free(a);
    free(b);
    free(c);
}
END_TEST

/* What precedes and follows the calls of `openblas`: an epilogue of one long row, and the widening
 * of one long line of each operand. */
static const struct long_line {
    enum gemmd_dtype dtype;
    enum gemm_act act;
    uint64_t n, k;
    uint32_t slices;
} long_lines[] = {
    {GEMMD_F32, GEMM_ACT_GELU_TANH, ELEMENTS, 1, SLICES},
    {GEMMD_BF16, GEMM_ACT_NONE, 1, ELEMENTS, 2 * SLICES - 1},
};

static struct gemm_problem line_problem(enum gemmd_dtype dtype, enum gemmd_dtype out,
                                        enum gemm_act act, uint64_t n, uint64_t k)
{
    struct gemm_problem problem = {.dtype = dtype,
                                   .out = out,
                                   .act = act,
                                   .transb = true,
                                   .m = 1,
                                   .n = n,
                                   .k = k,
                                   .alpha = 1,
                                   .batch = 1,
                                   .a = w,
                                   .b = x,
                                   .c = y};
    gemm_problem_contiguous(&problem);
    return problem;
}

START_TEST(long_line_of_openblas)
{
    const struct long_line *of = &long_lines[_i];
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel = NULL;
    const struct gemm_problem problem = line_problem(of->dtype, of->dtype, of->act, of->n, of->k);
    const uint64_t bytes = of->n * dtype_size(of->dtype);
    ck_assert_int_eq(operation_select(&operation_gemm, &cpu, "openblas", &problem, &kernel, NULL),
                     GEMMD_OK);
    memset(y, 0xff, bytes);
    const uint32_t asked = run(kernel, &problem, 0);
    ck_assert_msg(asked >= of->slices, "asked %u times", asked);
    memcpy(whole, y, bytes);
    memset(y, 0xff, bytes);
    ck_assert_uint_eq(run(kernel, &problem, STOPS_AT), STOPS_AT);
    ck_assert_msg(memcmp(whole, y, bytes) != 0, "computed all");
}
END_TEST

/* The check of a product of one long row: the vector r is drawn and multiplied by the row. */
START_TEST(check_of_one_row)
{
    const enum gemmd_dtype types[][2] = {{GEMMD_F32, GEMMD_F32}, {GEMMD_I8, GEMMD_I32}};
    const struct gemm_problem problem =
        line_problem(types[_i][0], types[_i][1], GEMM_ACT_NONE, ELEMENTS, 1);
    uint64_t bytes;
    ck_assert(operation_gemm.check_bytes(&problem, &bytes));
    unsigned char *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
    ck_assert_ptr_nonnull(workspace);
    const uint32_t stops_at[] = {0, STOPS_AT};
    uint32_t asked[2];
    memset(y, 0, ELEMENTS * dtype_size(problem.out)); /* the result that is checked */
    for (int i = 0; i < 2; i++) {
        struct stopper stopper = {.stops_at = stops_at[i]};
        cpu_watch_begin(context, stopper_stops, &stopper);
        ck_assert_int_eq(operation_gemm.check(context, &problem, 7, workspace), GEMMD_OK);
        ck_assert_uint_eq(cpu_watch_end(context), (stops_at[i] != 0));
        asked[i] = stopper.asked;
    }
    /* An element of r takes eight steps, and the products of the row one each. */
    ck_assert_msg(asked[0] >= 9 * SLICES, "asked %u times", asked[0]);
    ck_assert_uint_eq(asked[1], STOPS_AT);
    free(workspace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu_stops");
    TCase *tests = tcase_create("cpu_stops");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, one_element_of_a_convolution, 0, CONV_TYPES);
    tcase_add_test(tests, many_filters);
    tcase_add_loop_test(tests, one_result_of_a_reduction, 0, 4);
    tcase_add_loop_test(tests, one_row_of_a_softmax, 0, 3);
    tcase_add_loop_test(tests, experts_of_one_row_each, 0, 4);
    tcase_add_loop_test(tests, one_query_of_an_attention, 0, 2);
    tcase_add_loop_test(tests, long_product_of_openblas, 0,
                        (int)(sizeof long_products / sizeof long_products[0]));
    tcase_add_loop_test(tests, long_line_of_openblas, 0,
                        (int)(sizeof long_lines / sizeof long_lines[0]));
    tcase_add_loop_test(tests, check_of_one_row, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
