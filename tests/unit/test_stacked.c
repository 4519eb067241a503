/* Rows stacked on one B: right, nothing else written, the bytes of each request alone. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_context.h"
#include "kernels/operations.h"
#include "kernels/stacked.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { REQUESTS_MAX = 400 };

static struct gemm_context *context;

static void create_context(void)
{
    struct fault fault;
    ck_assert_msg(gemm_context_create(GEMM_BACKEND_CPU, NULL, 2, &context, &fault) == GEMMD_OK,
                  "no context: %s", fault.detail);
}

static void destroy_context(void)
{
    gemm_context_destroy(context);
}

/* The requests of a stack, and the list of them. */
static struct gemm_problem requests[REQUESTS_MAX];
static struct operation_member members[REQUESTS_MAX];

/* Cuts the product's rows into requests of 1 ... most rows. */
static uint32_t cut(const struct gemm_problem *p, uint64_t most, uint64_t *seed)
{
    const uint64_t in = dtype_size(p->dtype), out = dtype_size(p->out);
    uint32_t count = 0;
    for (uint64_t first = 0; first < p->m;) {
        uint64_t some = 1 + random_next(seed) % most;
        if (some > p->m - first)
            some = p->m - first;
        ck_assert_uint_lt(count, REQUESTS_MAX);
        struct gemm_problem *request = &requests[count];
        *request = *p;
        request->m = some;
        request->a = (const char *)p->a + first * p->lda * in;
        request->c0 = p->c0 != NULL ? (const char *)p->c0 + first * p->ldc0 * out : NULL;
        request->c = (char *)p->c + first * p->ldc * out;
        if (p->a_scale.data != NULL)
            request->a_scale.data = p->a_scale.data + first * p->a_scale.step;
        members[count++] = (struct operation_member){request, NULL};
        first += some;
    }
    return count;
}

static void *workspace_of(uint64_t bytes)
{
    void *workspace = aligned_alloc(256, (bytes / 256 + 1) * 256);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, 0xff, (bytes / 256 + 1) * 256);
    return workspace;
}

static void run_alone(const struct operation_kernel *kernel, const struct gemm_problem *request)
{
    uint64_t bytes;
    ck_assert(kernel->workspace_bytes(request, &bytes));
    void *workspace = workspace_of(bytes);
    ck_assert_int_eq(operation_run(kernel, context, request, workspace), GEMMD_OK);
    free(workspace);
}

static void check_stack(const struct operation_kernel *kernel, const struct gemm_problem *like,
                        uint64_t gap, uint64_t most, uint64_t seed)
{
    struct product product;
    char what[256], text[512];
    ck_assert(product_create(&product, like, gap, PRODUCT_UNIFORM, seed));
    const struct gemm_problem *p = &product.problem;
    const struct product_buffer *c = &product.buffers[PRODUCT_C];
    product_describe(p, what, sizeof what);
    ck_assert_msg(gemm_can_stack(kernel, p), "%s cannot stack %s", kernel->name, what);
    const uint32_t count = cut(p, most, &seed);

    uint64_t bytes;
    ck_assert(gemm_stacked_bytes(kernel, p, &bytes));
    void *workspace = workspace_of(bytes);
    product_poison(&product);
    ck_assert_int_eq(gemm_stacked(context, kernel, members, count, NULL, workspace), GEMMD_OK);
    free(workspace);
    ck_assert_msg(
        product_check(&product, product_sum_error(p->dtype, p->k), NULL, text, sizeof text),
        "%s, %s, %u requests: %s", kernel->name, what, count, text);

    unsigned char *stacked = malloc(c->bytes);
    ck_assert_ptr_nonnull(stacked);
    memcpy(stacked, c->data, c->bytes);
    product_poison(&product);
    for (uint32_t i = 0; i < count; i++)
        run_alone(kernel, &requests[i]);
    ck_assert_msg(memcmp(stacked, c->data, c->bytes) == 0, "%s, %s: other bytes in a stack of %u",
                  kernel->name, what, count);
    free(stacked);
    product_destroy(&product);
}

START_TEST(rows_of_every_type)
{
    const struct case_types types = case_types[_i];
    uint64_t seed = 77 + (uint64_t)_i;
    for (uint32_t number = 0; number < case_options_count(); number++) {
        struct gemm_problem like = {.dtype = types.dtype, .out = types.out};
        if (!case_set_options(&like, number) || like.batch != 1 || like.transa)
            continue;
        like.m = 1 + random_next(&seed) % 20;
        like.n = case_sizes[random_next(&seed) % 5];
        like.k = case_sizes[random_next(&seed) % 5];
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
             *k != NULL; k++)
            if ((*k)->rows_independent)
                check_stack(*k, &like, number % 3, 1 + number % 4, seed);
    }
}
END_TEST

START_TEST(rows_with_scales)
{
    static const struct gemm_problem kinds[] = {
        {.dtype = GEMMD_F8_E4M3, .out = GEMMD_BF16, .scales = GEMM_SCALES_ROWCOL},
        {.dtype = GEMMD_F8_E4M3, .out = GEMMD_F32, .scales = GEMM_SCALES_BLOCK, .transb = true},
        {.dtype = GEMMD_I8, .out = GEMMD_F16, .scales = GEMM_SCALES_ROWCOL},
    };
    struct gemm_problem like = kinds[_i];
    like.m = 37;
    like.n = 130;
    like.k = 300;
    like.batch = 1;
    like.alpha = 0.5;
    like.beta = 2;
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++)
        if ((*k)->rows_independent)
            check_stack(*k, &like, (uint64_t)_i, 5, 11);
}
END_TEST

/* The row of a stack that wrong_run computes wrongly. */
enum { WRONG_ROW = 123 };
static unsigned checks;

static enum gemmd_error counting_check(struct gemm_context *on, const struct gemm_problem *problem,
                                       uint64_t seed, double *of_rows, void *workspace)
{
    checks++;
    return gemm_backend_cpu.check(on, problem, seed, of_rows, workspace);
}

static enum gemmd_error wrong_run(struct gemm_context *on, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    const enum gemmd_error code = operation_run(&gemm_cpu_tiled, on, problem, workspace);
    float *row = (float *)problem->c + WRONG_ROW * problem->ldc;
    row[3] += 1;
    return code;
}

/* All rows of a stack are checked at once, with one multiplication of B by the vector, and each row
 * has its own residual. */
START_TEST(a_stack_is_checked_as_one_product)
{
    static double residuals[REQUESTS_MAX];
    struct operation_kernel wrong = gemm_cpu_tiled;
    struct gemm_backend_entry counting = gemm_backend_cpu;
    const struct operation_check check = {.seed = 9, .residuals = residuals};
    const struct gemm_problem like = {.dtype = GEMMD_F32,
                                      .out = GEMMD_F32,
                                      .m = 200,
                                      .n = 65,
                                      .k = 300,
                                      .batch = 1,
                                      .alpha = 1,
                                      .beta = 0.5};
    struct product product;
    uint64_t seed = 4, bytes;
    wrong.run = wrong_run;
    counting.check = counting_check;
    ck_assert(product_create(&product, &like, 2, PRODUCT_UNIFORM, 3));
    const uint32_t count = cut(&product.problem, 1, &seed);
    ck_assert(gemm_stacked_bytes(&wrong, &product.problem, &bytes));
    unsigned char *workspace = workspace_of(bytes);
    context->backend = &counting;
    ck_assert_int_eq(gemm_stacked(context, &wrong, members, count, &check, workspace), GEMMD_OK);
    context->backend = &gemm_backend_cpu;
    ck_assert_uint_eq(checks, 1);
    ck_assert_uint_eq(workspace[bytes], 0xff);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_msg(i == WRONG_ROW ? residuals[i] > 1 : residuals[i] >= 0 && residuals[i] <= 1,
                      "row %u has the residual %g", i, residuals[i]);
    free(workspace);
    product_destroy(&product);
}
END_TEST

/* More than one list of moves holds. */
START_TEST(many_requests)
{
    const struct gemm_problem like = {.dtype = GEMMD_BF16,
                                      .out = GEMMD_BF16,
                                      .m = 381,
                                      .n = 33,
                                      .k = 65,
                                      .batch = 1,
                                      .alpha = 1,
                                      .beta = 2};
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++)
        if ((*k)->rows_independent)
            check_stack(*k, &like, 0, 1, 5);
}
END_TEST

START_TEST(what_cannot_stack)
{
    const struct gemm_device device = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *openblas, *tiled;
    struct gemm_problem p = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 3, .n = 5, .k = 7, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&p);
    ck_assert_int_eq(operation_select(&operation_gemm, &device, "openblas", &p, &openblas, NULL),
                     GEMMD_OK);
    ck_assert_int_eq(operation_select(&operation_gemm, &device, "tiled", &p, &tiled, NULL),
                     GEMMD_OK);
    ck_assert_msg(!gemm_can_stack(openblas, &p), "the sums of OpenBLAS depend on m");
    ck_assert(gemm_can_stack(tiled, &p));
    p.transa = true;
    ck_assert_msg(!gemm_can_stack(tiled, &p), "the rows of a transposed A are no rows");
    p.transa = false;
    p.batch = 2;
    ck_assert_msg(!gemm_can_stack(tiled, &p), "a batch has as many B");
    p.batch = 1;
    p.m = UINT64_MAX / 8;
    uint64_t bytes;
    ck_assert_msg(!gemm_stacked_bytes(tiled, &p, &bytes), "%llu bytes for a stack beyond memory",
                  (unsigned long long)bytes);
}
END_TEST

/* A stack's memory is measured once, for as many rows as there may be in it: fewer rows need no
 * more, though a kernel may go other ways with them. */
START_TEST(fewer_rows_fit_where_many_do)
{
    static const uint64_t ROWS[] = {1, 5, 16, 33, 64, 65, 128, 129, 200, 256, 257, 384, 511, 512};
    static const uint64_t COLUMNS[] = {1, 15, 64, 65, 200, 256, 257, 4096};
    static const uint64_t DEPTHS[] = {1, 63, 4096, 8192, 12288, 16384, 25000, 140000, 1000001};
    enum {
        COLUMN_COUNTS = sizeof COLUMNS / sizeof *COLUMNS,
        SHAPES = COLUMN_COUNTS * (sizeof DEPTHS / sizeof *DEPTHS)
    };
    static const enum gemm_backend backends[] = {GEMM_BACKEND_CPU, GEMM_BACKEND_CUDA};
    for (uint32_t number = 0; number < case_types_count() * SHAPES * 4; number++) {
        const struct case_types types = case_types[number / 4 / SHAPES];
        struct gemm_problem p = {.dtype = types.dtype,
                                 .out = types.out,
                                 .precision = number % 2 == 1 && types.dtype == GEMMD_F32
                                                  ? GEMM_PRECISION_TF32
                                                  : GEMM_PRECISION_FULL,
                                 .transb = number / 2 % 2 == 1,
                                 .m = 512,
                                 .n = COLUMNS[number / 4 % COLUMN_COUNTS],
                                 .k = DEPTHS[number / 4 % SHAPES / COLUMN_COUNTS],
                                 .batch = 1,
                                 .alpha = 1};
        gemm_problem_contiguous(&p);
        const struct operation_kernel *const *k = operation_kernels(&operation_gemm, backends[_i]);
        for (; *k != NULL; k++) {
            if (!gemm_can_stack(*k, &p))
                continue;
            uint64_t before = 0;
            for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
                uint64_t bytes;
                struct gemm_problem rows = p;
                rows.m = ROWS[i];
                ck_assert(gemm_stacked_bytes(*k, &rows, &bytes));
                ck_assert_msg(bytes >= before, "%s: %lu rows of %lu columns, k = %lu need less",
                              (*k)->name, (unsigned long)rows.m, (unsigned long)p.n,
                              (unsigned long)p.k);
                before = bytes;
            }
        }
    }
}
END_TEST

/* Each of what a stack has in common, changed: another stack, and another key. */
START_TEST(what_makes_a_stack)
{
    static const struct operation_kernel kernel = {.name = "one"}, other = {.name = "other"};
    static const char b[2] = "", bias[1] = "";
    const struct gemm_problem p = {.dtype = GEMMD_BF16,
                                   .out = GEMMD_BF16,
                                   .m = 1,
                                   .n = 5,
                                   .k = 7,
                                   .batch = 1,
                                   .alpha = 1,
                                   .b = b,
                                   .lda = 7,
                                   .ldb = 5,
                                   .ldc = 5};
    struct gemm_problem changed[14];
    for (int i = 0; i < 14; i++)
        changed[i] = p;
    changed[0].dtype = GEMMD_F16;
    changed[1].out = GEMMD_F32;
    changed[2].precision = GEMM_PRECISION_TF32;
    changed[3].act = GEMM_ACT_RELU;
    changed[4].transb = true;
    changed[5].n = 7; /* n and k the other way round */
    changed[5].k = 5;
    changed[6].alpha = -1;
    changed[7].beta = 1;
    changed[8].beta = -0.0;
    changed[9].b = b + 1;
    changed[10].bias = bias;
    changed[11].lda = 8;
    changed[12].ldb = 8;
    changed[13].ldc = 8;
    for (int i = 0; i < 14; i++) {
        ck_assert_msg(!gemm_stack.same(&kernel, &p, &kernel, &changed[i]), "change %d", i);
        ck_assert_msg(gemm_stack.key(&kernel, &p) != gemm_stack.key(&kernel, &changed[i]),
                      "change %d", i);
    }
    ck_assert(!gemm_stack.same(&kernel, &p, &other, &p));
    ck_assert_uint_ne(gemm_stack.key(&kernel, &p), gemm_stack.key(&other, &p));

    static char elsewhere[1];
    struct gemm_problem same = p; /* where each has its own */
    same.a = same.c0 = same.c = elsewhere;
    same.m = 9;
    same.ldc0 = 11; /* beta is 0 */
    same.stride_a = 3;
    ck_assert(gemm_stack.same(&kernel, &p, &kernel, &same));
    ck_assert_uint_eq(gemm_stack.key(&kernel, &p), gemm_stack.key(&kernel, &same));
    same.beta = changed[7].beta;
    ck_assert_msg(!gemm_stack.same(&kernel, &same, &kernel, &changed[7]), "C0 is further apart");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stacked");
    TCase *tcase = tcase_create("stacked");
    tcase_add_checked_fixture(tcase, create_context, destroy_context);
    tcase_add_loop_test(tcase, rows_of_every_type, 0, (int)case_types_count());
    tcase_add_loop_test(tcase, rows_with_scales, 0, 3);
    tcase_add_test(tcase, a_stack_is_checked_as_one_product);
    tcase_add_test(tcase, many_requests);
    tcase_add_test(tcase, what_cannot_stack);
    tcase_add_loop_test(tcase, fewer_rows_fit_where_many_do, 0, 2);
    tcase_add_test(tcase, what_makes_a_stack);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
