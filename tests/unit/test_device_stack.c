/* server/device/device_stack.c, and stacks on the CPU as a device. */
#include "server/device/device_stack.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_context.h"
#include "kernels/stacked.h"
#include "proto/dtype.h"
#include "server/device/device.h"
#include "simulated_device.h"
#include "tests/product/random.h"

enum { N = 33, K = 65, WORKS = 7, TENSOR_BYTES = 1 << 20 };

static struct device *device;

/* Rows of each request, one after another in a block of its own. */
struct request {
    struct work work;
    float *a, *c0, *c;
};
static struct request requests[WORKS];

static void setup(void)
{
    const struct device_options options = {.backend = GEMM_BACKEND_CPU,
                                           .streams = 1,
                                           .cpu_threads = 2,
                                           .memory_bytes = 32 << 20,
                                           .tensor_bytes = TENSOR_BYTES};
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < WORKS; i++) {
        free(requests[i].a);
        free(requests[i].c0);
        free(requests[i].c);
    }
    device_close(device);
}

static float *random_floats(uint64_t count, uint64_t *seed)
{
    float *floats = malloc(count * sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    for (uint64_t i = 0; i < count; i++)
        floats[i] = (float)(int64_t)(random_next(seed) % 2001 - 1000) / 1000;
    return floats;
}

static const struct operation_kernel *kernel_of(const char *name,
                                                const struct gemm_problem *problem)
{
    const struct operation_kernel *kernel = NULL;
    ck_assert_int_eq(operation_select(&operation_gemm,
                                      &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, name,
                                      problem, &kernel, NULL),
                     GEMMD_OK);
    return kernel;
}

/* m rows on the B in tensor memory. */
static struct gemm_problem problem_of(uint64_t m)
{
    struct gemm_problem problem = {.dtype = GEMMD_F32,
                                   .out = GEMMD_F32,
                                   .m = m,
                                   .n = N,
                                   .k = K,
                                   .batch = 1,
                                   .alpha = 0.5,
                                   .beta = 2,
                                   .act = GEMM_ACT_GELU};
    gemm_problem_contiguous(&problem);
    problem.b = device_tensor_memory(device).start;
    return problem;
}

/* As a launch list: request i has i + 1 rows. */
static void make_requests(const char *kernel)
{
    uint64_t seed = 5;
    float *b = random_floats(N * K, &seed);
    memcpy(device_tensor_memory(device).start, b, N * K * sizeof *b);
    free(b);
    for (uint32_t i = 0; i < WORKS; i++) {
        struct request *request = &requests[i];
        const uint64_t m = i + 1;
        *request = (struct request){.a = random_floats(m * K, &seed),
                                    .c0 = random_floats(m * N, &seed),
                                    .c = random_floats(m * N, &seed)};
        struct work *work = &request->work;
        work->task.operation = &operation_gemm;
        work->task.problem.gemm = problem_of(m);
        work->task.problem.gemm.a = request->a;
        work->task.problem.gemm.c0 = request->c0;
        work->task.problem.gemm.c = request->c;
        work->task.kernel = kernel_of(kernel, &work->task.problem.gemm);
        ck_assert(device_plan(device, work));
        work->next = i + 1 < WORKS ? &requests[i + 1].work : NULL;
    }
}

START_TEST(a_launch_list_is_one_stack)
{
    static const char *const kernels[] = {"tiled", "naive"};
    make_requests(kernels[_i]);
    for (uint32_t i = 0; i < WORKS; i++) {
        ck_assert_uint_ne(requests[i].work.join_key, 0);
        ck_assert_uint_eq(requests[i].work.join_key, requests[0].work.join_key);
        ck_assert_uint_eq(requests[i].work.join_rows, OPERATION_STACK_ROWS);
        ck_assert_uint_eq(requests[i].work.device_bytes, 0);
    }
    ck_assert(device_has_room(device));
    device_submit(device, &requests[0].work);
    ck_assert_uint_eq(device_in_flight(device), WORKS);
    ck_assert_ptr_eq(device_poll(device), &requests[0].work);
    ck_assert_uint_eq(device_in_flight(device), 0);
    const uint64_t kernel_ns = requests[0].work.kernel_ns;
    ck_assert_uint_gt(kernel_ns, 0);
    for (uint32_t i = 0; i < WORKS; i++) {
        struct work *work = &requests[i].work;
        const uint64_t bytes = work->task.problem.gemm.m * N * sizeof(float);
        ck_assert_int_eq(work->status, GEMMD_OK);
        ck_assert_uint_eq(work->launch_works, WORKS);
        ck_assert_uint_eq(work->kernel_ns, kernel_ns);

        /* The bytes of the kernel by itself, and of a stack of one. */
        float *together = malloc(bytes);
        ck_assert_ptr_nonnull(together);
        memcpy(together, requests[i].c, bytes);
        for (int stacked = 0; stacked < 2; stacked++) {
            memset(requests[i].c, 0xff, bytes);
            work->next = NULL;
            work->join_key =
                stacked ? gemm_stack.key(work->task.kernel, &work->task.problem.gemm) : 0;
            device_submit(device, work);
            ck_assert_ptr_eq(device_poll(device), work);
            ck_assert_int_eq(work->status, GEMMD_OK);
            ck_assert_msg(memcmp(together, requests[i].c, bytes) == 0,
                          "%s: %lu rows have other bytes alone", work->task.kernel->name,
                          (unsigned long)work->task.problem.gemm.m);
        }
        free(together);
    }
}
END_TEST

static enum gemmd_error failing_run(struct gemm_context *context, const void *problem,
                                    void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    return GEMMD_ERR_INTERNAL;
}

START_TEST(a_stack_that_fails_fails_all_in_it)
{
    make_requests("tiled");
    struct operation_kernel failing = *requests[0].work.task.kernel;
    failing.name = "failing";
    failing.run = failing_run;
    for (uint32_t i = 0; i < WORKS; i++)
        requests[i].work.task.kernel = &failing;
    device_submit(device, &requests[0].work);
    ck_assert_ptr_eq(device_poll(device), &requests[0].work);
    for (uint32_t i = 0; i < WORKS; i++) {
        ck_assert_int_eq(requests[i].work.status, GEMMD_ERR_INTERNAL);
        ck_assert_ptr_nonnull(strstr(requests[i].work.fault.detail, "failing"));
    }
}
END_TEST

START_TEST(too_many_rows_are_refused)
{
    make_requests("tiled");
    requests[0].work.join_rows = WORKS; /* there are 28 */
    device_submit(device, &requests[0].work);
    ck_assert_ptr_eq(device_poll(device), &requests[0].work);
    ck_assert_int_eq(requests[0].work.status, GEMMD_ERR_INTERNAL);
}
END_TEST

static uint32_t rows_in(const struct gemm_problem *problem, const struct operation_kernel *kernel,
                        uint64_t stack_bytes)
{
    const struct device_span tensors = device_tensor_memory(device);
    return gemm_stack.rows_max(kernel, problem, tensors.start, tensors.bytes, stack_bytes);
}

static uint32_t rows_of(const struct gemm_problem *problem, const char *kernel)
{
    return rows_in(problem, kernel_of(kernel, problem), device_stack_memory(device));
}

START_TEST(what_is_not_stacked)
{
    static const char elsewhere[1] = "";
    struct gemm_problem p = problem_of(1), changed;
    ck_assert_uint_eq(rows_of(&p, "tiled"), OPERATION_STACK_ROWS);
    ck_assert_msg(rows_of(&p, "openblas") == 0, "the sums of OpenBLAS depend on m");
    changed = p;
    changed.b = elsewhere;
    ck_assert_msg(rows_of(&changed, "tiled") == 0, "a B that came along is no other's");
    changed = p;
    changed.bias = elsewhere;
    ck_assert_msg(rows_of(&changed, "tiled") == 0, "a bias that came along is no other's");
    changed = p;
    changed.batch = 2;
    ck_assert_uint_eq(rows_of(&changed, "tiled"), 0);
    changed = p;
    changed.transa = true;
    ck_assert_uint_eq(rows_of(&changed, "tiled"), 0);
    changed = p;
    changed.m = 128;
    ck_assert_uint_eq(rows_of(&changed, "tiled"), OPERATION_STACK_ROWS);
    changed.m = 129;
    ck_assert_msg(rows_of(&changed, "tiled") == 0, "a work of many rows is not stacked");
}
END_TEST

/* The limit is the same for all that may share the stack, whatever their own number of rows. */
START_TEST(rows_are_bounded_by_the_workspace)
{
    struct gemm_problem p = problem_of(1);
    const struct operation_kernel *tiled = kernel_of("tiled", &p);
    uint64_t bytes;
    p.m = 64;
    ck_assert(gemm_stacked_bytes(tiled, &p, &bytes));
    for (p.m = 1; p.m <= 128; p.m++) {
        ck_assert_uint_eq(rows_in(&p, tiled, bytes), p.m <= 64 ? 64 : 0);
        ck_assert_uint_eq(rows_in(&p, tiled, bytes - 1), p.m <= 32 ? 32 : 0);
    }
    p.m = 1;
    ck_assert_uint_eq(rows_in(&p, tiled, 256), 0);
    ck_assert_uint_eq(rows_in(&p, tiled, 0), 0);
}
END_TEST

START_TEST(the_workspace_is_part_of_the_memory)
{
    ck_assert_uint_eq(device_stack_memory(device), 1 << 20);
    ck_assert_uint_eq(arena_capacity_bytes(device_arena(device)), 30 << 20);
    ck_assert_uint_eq(arena_used_bytes(device_arena(device)), 0);
    ck_assert_uint_eq(device_stack_bytes(UINT64_C(1) << 30, 0), 0);
    ck_assert_uint_eq(device_stack_bytes(UINT64_C(1) << 30, 1), 32 << 20);
    ck_assert_uint_eq(device_stack_bytes(UINT64_C(1) << 40, 1), 256 << 20);
    ck_assert_uint_eq(device_stack_bytes(100000, 1) % DEVICE_LAYOUT_ALIGNMENT, 0);
    ck_assert_uint_eq(device_stack_bytes(100, 1), 0);
}
END_TEST

/* A copy of a whole operand behind the product would keep all the others waiting. */
START_TEST(what_brings_copies_along_is_alone)
{
    make_requests("tiled");
    struct work *work = &requests[0].work;
    work->copy_count = 1;
    ck_assert(device_plan(device, work));
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_eq(work->join_rows, 0);
}
END_TEST

/* The first row of work number 3. */
enum { WRONG_ROW = 6 };

static enum gemmd_error wrong_run(struct gemm_context *context, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    const enum gemmd_error code = operation_run(&gemm_cpu_tiled, context, problem, workspace);
    float *row = (float *)problem->c + (problem->m > WRONG_ROW ? WRONG_ROW : 0) * problem->ldc;
    row[N - 1] += 1;
    return code;
}

/* As make_requests, without an activation, for a kernel that computes one row wrongly. */
static void make_verified(struct operation_kernel *kernel)
{
    make_requests("tiled");
    *kernel = gemm_cpu_tiled;
    kernel->run = wrong_run;
    for (uint32_t i = 0; i < WORKS; i++) {
        struct work *work = &requests[i].work;
        work->task.problem.gemm.act = GEMM_ACT_NONE;
        work->task.kernel = kernel;
        work->verify = i % 2 == 1 ? WORK_VERIFY_ASKED : WORK_UNVERIFIED;
        work->verify_seed = i;
        work->residual = -1;
        ck_assert(device_plan(device, work));
    }
}

START_TEST(a_stack_is_verified_row_by_row)
{
    struct operation_kernel kernel;
    make_verified(&kernel);
    device_submit(device, &requests[0].work);
    ck_assert_ptr_eq(device_poll(device), &requests[0].work);
    for (uint32_t i = 0; i < WORKS; i++) {
        const struct work *work = &requests[i].work;
        ck_assert_int_eq(work->status, GEMMD_OK);
        if (i == 3)
            ck_assert_double_gt(work->residual, 1);
        else if (work->verify != WORK_UNVERIFIED)
            ck_assert_msg(work->residual >= 0 && work->residual < 1, "work %u: %g", i,
                          work->residual);
    }
}
END_TEST

START_TEST(a_launch_of_its_own_is_verified)
{
    struct operation_kernel kernel;
    make_verified(&kernel);
    for (uint32_t i = 1; i < WORKS; i += 2) {
        struct work *work = &requests[i].work;
        uint64_t without;
        work->own_launch = true;
        work->next = NULL;
        work->task.kernel = i == 5 ? &kernel : &gemm_cpu_tiled;
        ck_assert(device_plan(device, work));
        ck_assert_uint_eq(work->join_key, 0);
        ck_assert(work->task.kernel->workspace_bytes(&work->task.problem, &without));
        ck_assert_uint_ge(work->check_offset, without);
        ck_assert_uint_gt(work->device_bytes, work->check_offset);
        ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
        device_submit(device, work);
        ck_assert_ptr_eq(device_poll(device), work);
        arena_free(device_arena(device), work->device_offset);
        ck_assert_msg(i == 5 ? work->residual > 1 : work->residual >= 0 && work->residual < 1,
                      "work %u: %g", i, work->residual);
    }
}
END_TEST

static enum gemmd_error group_nothing(struct gemm_context *context,
                                      const struct operation_member members[], uint32_t count)
{
    (void)context;
    (void)members;
    (void)count;
    return GEMMD_OK;
}

/* A small product shares launches with others, also if it is to be verified, unless the check of
 * small products does not take it: then it is stacked, or has a launch of its own. */
START_TEST(a_small_product_that_is_verified_is_checked_by_its_launch)
{
    struct simulated_device *gpu = simulated_device_open_scripted(1);
    struct operation_kernel grouping = gemm_cpu_tiled;
    struct operation unchecked = operation_gemm;
    grouping.run_group = group_nothing;
    unchecked.can_check_small = NULL;
    make_requests("tiled");
    struct work *work = &requests[0].work;
    work->task.problem.gemm.act = GEMM_ACT_NONE;
    ck_assert_msg(!device_shares_launch(&gpu->base, &work->task), "the kernel has no run_group");
    work->task.kernel = &grouping;
    ck_assert(!device_shares_launch(device, &work->task)); /* the CPU */
    ck_assert(device_shares_launch(&gpu->base, &work->task));
    ck_assert(device_plan(&gpu->base, work));
    ck_assert(work->shared_launch);
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_eq(work->device_bytes, 0);
    work->verify = WORK_VERIFY_SAMPLED;
    ck_assert(device_plan(&gpu->base, work));
    ck_assert(work->shared_launch);
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_eq(work->device_bytes, 0);
    work->task.operation = &unchecked;
    ck_assert(device_plan(&gpu->base, work));
    ck_assert(!work->shared_launch);
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_gt(work->device_bytes, work->check_offset);
    gpu->base.tensors = device_tensor_memory(device); /* where B is */
    gpu->base.stack_bytes = device_stack_memory(device);
    ck_assert(device_plan(&gpu->base, work));
    ck_assert(work->shared_launch);
    ck_assert_uint_ne(work->join_key, 0);
    ck_assert_uint_eq(work->device_bytes, 0);
    work->own_launch = true;
    ck_assert(device_plan(&gpu->base, work));
    ck_assert(!work->shared_launch);
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_gt(work->device_bytes, work->check_offset);
    work->verify = WORK_UNVERIFIED;
    ck_assert(device_plan(&gpu->base, work));
    ck_assert_msg(!work->shared_launch, "a launch of its own was asked for");
    ck_assert_uint_gt(work->device_bytes, 0);
    device_close(&gpu->base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_stack");
    TCase *tests = tcase_create("device_stack");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_launch_list_is_one_stack, 0, 2);
    tcase_add_test(tests, a_stack_that_fails_fails_all_in_it);
    tcase_add_test(tests, too_many_rows_are_refused);
    tcase_add_test(tests, what_is_not_stacked);
    tcase_add_test(tests, rows_are_bounded_by_the_workspace);
    tcase_add_test(tests, the_workspace_is_part_of_the_memory);
    tcase_add_test(tests, what_brings_copies_along_is_alone);
    tcase_add_test(tests, a_stack_is_verified_row_by_row);
    tcase_add_test(tests, a_launch_of_its_own_is_verified);
    tcase_add_test(tests, a_small_product_that_is_verified_is_checked_by_its_launch);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
