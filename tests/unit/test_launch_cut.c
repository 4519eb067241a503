/* Long computations as several launches. The launches of a product must compute every element of C
 * once, begin at aligned rows, and have no more work than the kernel says. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/launch_cut.h"
#include "kernels/subproblem.h"
#include "proto/dtype.h"

static bool takes_all(const void *problem)
{
    (void)problem;
    return true;
}

static bool takes_many_rows(const void *problem)
{
    return ((const struct gemm_problem *)problem)->m >= 1000;
}

static bool no_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
}

/* As a kernel that needs more workspace for fewer rows. */
static bool odd_workspace(const void *problem, uint64_t *out)
{
    *out = 1u << 20 >> (((const struct gemm_problem *)problem)->m > 1000);
    return true;
}

static struct gemm_problem product(uint64_t m, uint64_t n, uint64_t k, uint64_t batch)
{
    static char operands[4];
    struct gemm_problem p = {.dtype = GEMMD_F16,
                             .out = GEMMD_F32,
                             .m = m,
                             .n = n,
                             .k = k,
                             .batch = batch,
                             .alpha = 1,
                             .a = &operands[0],
                             .b = &operands[1],
                             .c0 = &operands[2],
                             .c = &operands[3]};
    gemm_problem_contiguous(&p);
    return p;
}

static double flops(const struct gemm_problem *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

static uint64_t bytes_between(const void *from, const void *to)
{
    return (uint64_t)((const char *)to - (const char *)from);
}

/* Marks the rows of C that a launch computes, and looks at where its operands begin. */
static void mark(unsigned char *rows, const struct gemm_problem *whole,
                 const struct gemm_problem *part)
{
    const uint64_t element = bytes_between(whole->c, part->c) / dtype_size(whole->out);
    const uint64_t problem = element / whole->stride_c,
                   row = element % whole->stride_c / whole->ldc;
    ck_assert_uint_eq(element, problem * whole->stride_c + row * whole->ldc);
    ck_assert_uint_eq(bytes_between(whole->c, part->c) % 256, 0);
    ck_assert_uint_eq(bytes_between(whole->a, part->a) % 256, 0);
    ck_assert_uint_eq(bytes_between(whole->b, part->b) % 256, 0);
    ck_assert_uint_eq(bytes_between(whole->a, part->a) / dtype_size(whole->dtype),
                      problem * whole->stride_a + row * (whole->transa ? 1 : whole->lda));
    ck_assert_uint_eq(bytes_between(whole->b, part->b) / dtype_size(whole->dtype),
                      problem * whole->stride_b);
    ck_assert_uint_eq(bytes_between(whole->c0, part->c0) / dtype_size(whole->out),
                      problem * whole->stride_c0 + row * whole->ldc0);
    ck_assert_uint_le(problem + part->batch, whole->batch);
    ck_assert_uint_le(row + part->m, whole->m);
    for (uint64_t i = problem; i < problem + part->batch; i++)
        for (uint64_t j = row; j < row + part->m; j++)
            rows[i * whole->m + j]++;
}

static const struct {
    uint64_t m, n, k, batch;
    bool transa;
} shapes[] = {
    {1000, 77, 33, 1, false}, {1000, 77, 33, 1, true},   {4096, 64, 64, 1, false},
    {257, 64, 64, 3, false},  {16, 16, 16, 1000, false}, {3, 5, 7, 70000, true},
    {700, 3, 5, 300, false},  {513, 1, 129, 2, true},
};

START_TEST(launches_cover_the_result_once)
{
    struct gemm_problem p = product(shapes[_i].m, shapes[_i].n, shapes[_i].k, shapes[_i].batch);
    p.transa = shapes[_i].transa;
    gemm_problem_contiguous(&p);
    unsigned char *rows = malloc(p.m * p.batch);
    ck_assert_ptr_nonnull(rows);
    for (unsigned launches = 1; launches < 40; launches += 3) {
        const struct operation_kernel kernel = {.takes = takes_all,
                                                .workspace_bytes = no_workspace,
                                                .launch_flops = flops(&p) / launches};
        struct launch_cut cut;
        operation_gemm.cut(&kernel, &p, &cut);
        ck_assert_uint_ge(cut.launches, 1);
        if (launches == 1)
            ck_assert_uint_eq(cut.launches, 1);
        memset(rows, 0, p.m * p.batch);
        for (uint64_t i = 0; i < cut.launches; i++) {
            struct gemm_problem part;
            operation_gemm.cut_piece(&cut, &p, i, &part);
            mark(rows, &p, &part);
            /* A launch has no fewer than 256 rows and problems. */
            if (part.m > SUBPROBLEM_ROWS && part.batch > 256)
                ck_assert_double_le(flops(&part), kernel.launch_flops * 1.0001);
        }
        uint64_t once = 0;
        for (uint64_t i = 0; i < p.m * p.batch; i++)
            once += rows[i] == 1;
        ck_assert_uint_eq(once, p.m * p.batch);
    }
    free(rows);
}
END_TEST

START_TEST(a_long_product_is_cut)
{
    const struct operation_kernel kernel = {
        .takes = takes_all, .workspace_bytes = no_workspace, .launch_flops = 1e9};
    struct launch_cut cut;
    const struct gemm_problem rows = product(8192, 512, 512, 1);
    operation_gemm.cut(&kernel, &rows, &cut);
    ck_assert_uint_eq(cut.each, 1792); /* 1907 rows have 1e9 operations */
    ck_assert_uint_eq(cut.launches, 5);
    const struct gemm_problem batch = product(64, 64, 64, 8192);
    operation_gemm.cut(&kernel, &batch, &cut);
    ck_assert_uint_eq(cut.each, 64);
    ck_assert_uint_eq(cut.each_of_batch, 1639); /* five equal launches of at most 1907 */
    ck_assert_uint_eq(cut.launches, 5);
}
END_TEST

static double ten_for_f32(const void *problem)
{
    return ((const struct gemm_problem *)problem)->dtype == GEMMD_F32 ? 10 : 1;
}

START_TEST(slow_problems_can_have_shorter_launches)
{
    const struct operation_kernel kernel = {.takes = takes_all,
                                            .workspace_bytes = no_workspace,
                                            .launch_flops = 1e10,
                                            .launch_factor = ten_for_f32};
    struct launch_cut cut;
    struct gemm_problem rows = product(8192, 512, 512, 1);
    rows.dtype = GEMMD_F32;
    operation_gemm.cut(&kernel, &rows, &cut);
    ck_assert_uint_eq(cut.launches, 5);
    rows.dtype = GEMMD_F16;
    operation_gemm.cut(&kernel, &rows, &cut);
    ck_assert_uint_eq(cut.launches, 1);
}
END_TEST

START_TEST(a_kernel_that_cannot_be_cut_is_not)
{
    const struct gemm_problem p = product(4096, 64, 64, 1);
    const struct operation_kernel kernels[] = {
        {.takes = takes_all, .workspace_bytes = no_workspace},
        {.takes = takes_many_rows, .workspace_bytes = no_workspace, .launch_flops = 1e5},
        {.takes = takes_all, .workspace_bytes = odd_workspace, .launch_flops = 1e5},
    };
    struct launch_cut cut;
    operation_gemm.cut(&kernels[_i], &p, &cut);
    ck_assert_uint_eq(cut.launches, 1);
    struct gemm_problem part;
    operation_gemm.cut_piece(&cut, &p, 0, &part);
    ck_assert_uint_eq(part.m, p.m);
    ck_assert_uint_eq(part.n, p.n);
    ck_assert_uint_eq(part.k, p.k);
    ck_assert_uint_eq(part.batch, p.batch);
    ck_assert_ptr_eq(part.a, p.a);
    ck_assert_ptr_eq(part.b, p.b);
    ck_assert_ptr_eq(part.c, p.c);
}
END_TEST

/* The product whose pieces run_marked computes, and the rows that it has computed. */
enum { MARKED_ROWS = 5 * SUBPROBLEM_ROWS };
static struct {
    struct gemm_problem whole;
    unsigned char rows[MARKED_ROWS];
} marked;

static uint64_t hundred_tiles(struct gemm_context *context, const void *problem)
{
    (void)context;
    (void)problem;
    return 100;
}

/* The launches that were run: their number, and the tiles that they computed, in order. */
static unsigned runs;
static uint64_t tiles_run;

static enum gemmd_error run_all_tiles(struct gemm_context *context, const void *problem,
                                      void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    runs++;
    tiles_run += 100;
    return GEMMD_OK;
}

static enum gemmd_error run_some_tiles(struct gemm_context *context, const void *problem,
                                       struct operation_range tiles)
{
    (void)context;
    (void)problem;
    ck_assert_uint_eq(tiles.first, tiles_run);
    ck_assert_uint_ge(tiles.count, 1);
    runs++;
    tiles_run += tiles.count;
    return GEMMD_OK;
}

/* Runs the launches of a task, and returns their number. */
static uint64_t run_launches(const struct task *task)
{
    struct launch_cut cut;
    runs = 0;
    tiles_run = 0;
    launch_cut_make(task, NULL, &cut);
    for (uint64_t i = 0; i < cut.launches; i++)
        ck_assert_int_eq(launch_cut_run(&cut, task, NULL, i, NULL), GEMMD_OK);
    ck_assert_uint_eq(runs, cut.launches);
    return cut.launches;
}

START_TEST(the_parts_of_an_attention_are_in_one_launch_each)
{
    struct task task = {.operation = &operation_attention};
    task.problem.attention = (struct attention_problem){.dtype = GEMMD_F32,
                                                        .batch = 1,
                                                        .heads = 1,
                                                        .kv_heads = 1,
                                                        .sq = 1000,
                                                        .skv = 1000,
                                                        .d = 64,
                                                        .dv = 64};
    for (unsigned launches = 1; launches < 300; launches++) {
        const struct operation_kernel kernel = {
            .tiles = hundred_tiles,
            .run = run_all_tiles,
            .run_tiles = run_some_tiles,
            .launch_flops = attention_flops(&task.problem.attention) / launches};
        task.kernel = &kernel;
        ck_assert_uint_le(run_launches(&task), launches);
        ck_assert_uint_eq(tiles_run, 100);
    }
    const struct operation_kernel whole = {.run = run_all_tiles};
    task.kernel = &whole;
    ck_assert_uint_eq(run_launches(&task), 1);
}
END_TEST

static enum gemmd_error run_marked(struct gemm_context *context, const void *problem,
                                   void *workspace)
{
    const struct gemm_problem *p = problem;
    (void)context;
    ck_assert_ptr_eq(workspace, &marked);
    mark(marked.rows, &marked.whole, p);
    runs++;
    return GEMMD_OK;
}

/* A product is cut by its operation, also if its kernel has tiles. */
START_TEST(a_product_is_run_piece_by_piece)
{
    struct task task = {.operation = &operation_gemm};
    task.problem.gemm = marked.whole = product(MARKED_ROWS, 64, 64, 1);
    for (unsigned launches = 1; launches <= 5; launches++) {
        const struct operation_kernel kernel = {.takes = takes_all,
                                                .workspace_bytes = no_workspace,
                                                .run = run_marked,
                                                .tiles = hundred_tiles,
                                                .run_tiles = run_some_tiles,
                                                .launch_flops = flops(&marked.whole) / launches};
        struct launch_cut cut;
        task.kernel = &kernel;
        runs = 0;
        memset(marked.rows, 0, sizeof marked.rows);
        launch_cut_make(&task, NULL, &cut);
        ck_assert_uint_ge(cut.launches, launches);
        for (uint64_t i = 0; i < cut.launches; i++)
            ck_assert_int_eq(launch_cut_run(&cut, &task, NULL, i, &marked), GEMMD_OK);
        ck_assert_uint_eq(runs, cut.launches);
        for (unsigned row = 0; row < MARKED_ROWS; row++)
            ck_assert_uint_eq(marked.rows[row], 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch_cut");
    TCase *tests = tcase_create("launch_cut");
    tcase_add_loop_test(tests, launches_cover_the_result_once, 0,
                        (int)(sizeof shapes / sizeof *shapes));
    tcase_add_test(tests, a_long_product_is_cut);
    tcase_add_test(tests, slow_problems_can_have_shorter_launches);
    tcase_add_loop_test(tests, a_kernel_that_cannot_be_cut_is_not, 0, 3);
    tcase_add_test(tests, the_parts_of_an_attention_are_in_one_launch_each);
    tcase_add_test(tests, a_product_is_run_piece_by_piece);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
