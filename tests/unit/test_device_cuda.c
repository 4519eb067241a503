/* server/cuda/device_cuda.c where there is a GPU, and what is said where there is none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/dtype.h"
#include "server/device/device.h"
#include "server/device/known_answer.h"

enum { STREAMS = 3, LARGE = 2048 };

static const uint64_t SMALL_BYTES = KNOWN_ANSWER_BYTES;

static struct device *open_gpu(void)
{
    struct device_options options = {
        .backend = GEMM_BACKEND_CUDA, .streams = STREAMS, .memory_bytes = UINT64_C(1) << 30};
    struct device *device = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    return device;
}

static unsigned char *take_host(uint64_t bytes)
{
    struct fault fault = {.detail = ""};
    unsigned char *memory = device_host_alloc(GEMM_BACKEND_CUDA, bytes, &fault);
    ck_assert_msg(memory != NULL, "%s", fault.detail);
    return memory;
}

static void reserve(struct device *device, struct work *work)
{
    ck_assert(device_work_bytes(device, &work->problem, work->kernel, &work->device_bytes));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
}

static void choose(struct work *work, const char *name)
{
    struct fault fault = {.detail = ""};
    ck_assert_msg(gemm_select(&(struct gemm_device){GEMM_BACKEND_CUDA, 0}, name, &work->problem,
                              &work->kernel, &fault) == GEMMD_OK,
                  "%s", fault.detail);
}

static struct work *wait_for_one(struct device *device)
{
    struct work *work;
    while ((work = device_poll(device)) == NULL)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    return work;
}

static void run(struct device *device, struct work *work)
{
    device_submit(device, work);
    ck_assert_ptr_eq(wait_for_one(device), work);
}

START_TEST(the_gpu_describes_itself)
{
    struct device *device = open_gpu();
    const struct device_info *info = device_info(device);
    ck_assert_int_eq(info->backend, GEMM_BACKEND_CUDA);
    ck_assert_str_ne(info->name, "");
    ck_assert_str_ne(info->driver, "");
    ck_assert_int_eq(strncmp(info->arch, "sm_", 3), 0);
    ck_assert_int_eq(strncmp(info->uuid, "GPU-", 4), 0);
    ck_assert_uint_eq(strlen(info->uuid), strlen("GPU-01234567-89ab-cdef-0123-456789abcdef"));
    ck_assert_uint_gt(info->memory_total_bytes, 0);
    ck_assert_uint_eq(arena_capacity_bytes(device_arena(device)), UINT64_C(1) << 30);
    ck_assert_uint_eq(arena_used_bytes(device_arena(device)), 0);
    device_close(device);
}
END_TEST

/* A body's operands start where its header ended: at odd addresses too. */
static void check_at(struct device *device, enum gemmd_dtype dtype, enum gemmd_dtype out,
                     unsigned char *memory, unsigned char *odd)
{
    struct work work = {.verify = false};
    uint64_t row, column;
    known_answer_init(&work.problem, dtype, out, false, true, memory);
    struct gemm_problem *problem = &work.problem;
    uint64_t a_bytes = problem->m * problem->k * dtype_size(dtype);
    uint64_t b_bytes = problem->k * problem->n * dtype_size(dtype);
    memcpy(odd, problem->a, a_bytes);
    memcpy(odd + a_bytes, problem->b, b_bytes);
    problem->a = odd;
    problem->b = odd + a_bytes;
    problem->c = odd + a_bytes + b_bytes;
    choose(&work, "cublas");
    reserve(device, &work);
    run(device, &work);
    arena_free(device_arena(device), work.device_offset);
    ck_assert_msg(work.status == GEMMD_OK, "%s to %s: %s", dtype_name(dtype), dtype_name(out),
                  work.fault.detail);
    ck_assert_uint_gt(work.kernel_ns, 0);
    ck_assert_uint_gt(work.h2d_ns, 0);
    ck_assert_uint_gt(work.d2h_ns, 0);
    ck_assert_msg(known_answer_check(problem, &row, &column),
                  "%s to %s: row %lu, column %lu is not right", dtype_name(dtype), dtype_name(out),
                  (unsigned long)row, (unsigned long)column);
}

START_TEST(operands_may_lie_anywhere_in_the_body)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(2 * SMALL_BYTES);
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (int out = 0; out < GEMMD_DTYPE_COUNT; out++)
            if (dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out))
                check_at(device, (enum gemmd_dtype)dtype, (enum gemmd_dtype)out, memory,
                         memory + KNOWN_ANSWER_BYTES + 1);
    device_host_free(GEMM_BACKEND_CUDA, memory, 2 * SMALL_BYTES);
    device_close(device);
}
END_TEST

static void describe_large(struct work *work, unsigned char *memory)
{
    const uint64_t matrix_bytes = (uint64_t)LARGE * LARGE * 4;
    work->problem = (struct gemm_problem){.dtype = GEMMD_F32,
                                          .out = GEMMD_F32,
                                          .m = LARGE,
                                          .n = LARGE,
                                          .k = LARGE,
                                          .batch = 1,
                                          .alpha = 1,
                                          .a = memory,
                                          .b = memory + matrix_bytes,
                                          .c = memory + 2 * matrix_bytes};
    gemm_problem_contiguous(&work->problem);
}

START_TEST(a_probe_is_answered_on_full_streams)
{
    const uint64_t bytes = UINT64_C(3) * LARGE * LARGE * 4;
    struct device *device = open_gpu();
    unsigned char *memory = take_host(bytes), *small = take_host(KNOWN_ANSWER_BYTES);
    struct work works[STREAMS], probe = {.verify = false};
    uint64_t row, column;
    memset(works, 0, sizeof works);
    memset(memory, 0, bytes);
    known_answer_init(&probe.problem, GEMMD_F32, GEMMD_F32, false, false, small);
    choose(&probe, "auto");
    reserve(device, &probe);
    for (int i = 0; i < STREAMS; i++) { /* all read the same and write the same zeros */
        describe_large(&works[i], memory);
        choose(&works[i], "auto");
        reserve(device, &works[i]);
        device_submit(device, &works[i]);
    }
    ck_assert(!device_has_room(device));
    device_submit_probe(device, &probe);
    for (int i = 0; i < STREAMS + 1; i++)
        ck_assert_int_eq(wait_for_one(device)->status, GEMMD_OK);
    ck_assert_ptr_null(device_poll(device));
    ck_assert(known_answer_check(&probe.problem, &row, &column));
    for (int i = 0; i < STREAMS; i++)
        arena_free(device_arena(device), works[i].device_offset);
    arena_free(device_arena(device), probe.device_offset);
    device_host_free(GEMM_BACKEND_CUDA, memory, bytes);
    device_host_free(GEMM_BACKEND_CUDA, small, KNOWN_ANSWER_BYTES);
    device_close(device);
}
END_TEST

static const struct gemm_kernel *naive(void)
{
    struct gemm_problem problem;
    const struct gemm_kernel *kernel;
    static unsigned char memory[KNOWN_ANSWER_BYTES];
    known_answer_init(&problem, GEMMD_F32, GEMMD_F32, false, false, memory);
    ck_assert_int_eq(
        gemm_select(&(struct gemm_device){GEMM_BACKEND_CUDA, 0}, "naive", &problem, &kernel, NULL),
        GEMMD_OK);
    return kernel;
}

static enum gemmd_error run_nothing(struct gemm_context *context,
                                    const struct gemm_problem *problem, void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    return GEMMD_ERR_INTERNAL;
}

/* Reads where nothing is: the error that the context does not survive. */
static enum gemmd_error run_astray(struct gemm_context *context, const struct gemm_problem *problem,
                                   void *workspace)
{
    struct gemm_problem astray = *problem;
    astray.a = (const unsigned char *)problem->a + (UINT64_C(1) << 46);
    return naive()->run(context, &astray, workspace);
}

static void init_known(struct device *device, struct work *work, unsigned char *memory)
{
    known_answer_init(&work->problem, GEMMD_F32, GEMMD_F32, false, false, memory);
    choose(work, "cublas");
    reserve(device, work);
}

/* One after another in `memory`, what can share a launch; no device memory is reserved. */
static uint32_t init_sharing(struct device *device, struct work *works, uint32_t count,
                             unsigned char *memory)
{
    uint32_t made = 0;
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (int out = 0; out < GEMMD_DTYPE_COUNT && made < count; out++) {
            struct work *work = &works[made];
            if (!dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out))
                continue;
            *work = (struct work){.shares = true};
            known_answer_init(&work->problem, (enum gemmd_dtype)dtype, (enum gemmd_dtype)out,
                              made & 1, made & 2, memory + made * SMALL_BYTES);
            choose(work, "auto");
            ck_assert(device_shares(device, &work->problem, work->kernel));
            ck_assert(device_work_bytes(device, &work->problem, work->kernel, &work->device_bytes));
            ck_assert_uint_eq(work->device_bytes, 0);
            if (made > 0)
                works[made - 1].next = work;
            made++;
        }
    return made;
}

START_TEST(small_works_share_a_launch)
{
    enum { COUNT = 13 };
    struct device *device = open_gpu();
    unsigned char *memory = take_host(COUNT * SMALL_BYTES);
    struct work works[COUNT];
    uint64_t row, column;
    uint32_t count = init_sharing(device, works, COUNT, memory);
    for (int again = 0; again < 2; again++) {
        device_submit(device, works);
        ck_assert_uint_eq(device_in_flight(device), count);
        ck_assert_ptr_eq(wait_for_one(device), works);
        ck_assert_uint_eq(device_in_flight(device), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_msg(works[i].status == GEMMD_OK, "%s", works[i].fault.detail);
        ck_assert_uint_eq(works[i].batch, count);
        ck_assert_uint_gt(works[i].kernel_ns, 0);
        ck_assert(known_answer_check(&works[i].problem, &row, &column));
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, COUNT * SMALL_BYTES);
    device_close(device);
}
END_TEST

static enum gemmd_error run_group_astray(struct gemm_context *context,
                                         const struct gemm_problem *const problems[],
                                         uint32_t count)
{
    struct gemm_problem astray = *problems[0];
    (void)count;
    astray.a = (const unsigned char *)problems[0]->a + (UINT64_C(1) << 46);
    return naive()->run(context, &astray, NULL);
}

START_TEST(a_shared_launch_that_loses_the_device_fails_all)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * SMALL_BYTES);
    struct gemm_kernel astray = {.name = "astray", .run_group = run_group_astray};
    struct work works[3];
    uint32_t count = init_sharing(device, works, 3, memory);
    for (uint32_t i = 0; i < count; i++)
        works[i].kernel = &astray;
    known_answer_init(&works[0].problem, GEMMD_F32, GEMMD_F32, false, false, memory);
    device_submit(device, works);
    ck_assert_ptr_eq(wait_for_one(device), works);
    ck_assert(device_lost(device));
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(works[i].status, GEMMD_ERR_DEVICE_LOST);
    device_host_free(GEMM_BACKEND_CUDA, memory, 3 * SMALL_BYTES);
    device_close(device);
}
END_TEST

START_TEST(a_failure_leaves_the_device_usable)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(KNOWN_ANSWER_BYTES);
    struct gemm_kernel failing = *naive();
    struct work work = {.verify = false};
    uint64_t row, column;
    init_known(device, &work, memory);
    failing.run = run_nothing;

    work.kernel = &failing;
    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    work.kernel = naive();
    uint64_t bytes = work.device_bytes;
    work.device_bytes = 1;
    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    work.device_bytes = bytes;
    ck_assert(!device_lost(device));

    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert(known_answer_check(&work.problem, &row, &column));
    arena_free(device_arena(device), work.device_offset);
    device_host_free(GEMM_BACKEND_CUDA, memory, KNOWN_ANSWER_BYTES);
    device_close(device);
}
END_TEST

START_TEST(an_illegal_address_loses_the_device)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * SMALL_BYTES);
    struct gemm_kernel astray = *naive();
    struct work works[3];
    memset(works, 0, sizeof works);
    astray.run = run_astray;
    for (int i = 0; i < 3; i++)
        init_known(device, &works[i], memory + (uint64_t)i * SMALL_BYTES);
    works[0].kernel = &astray;
    run(device, &works[0]);
    ck_assert(device_lost(device));
    ck_assert_str_ne(device_lost_reason(device), "");
    run(device, &works[1]);
    device_submit_probe(device, &works[2]);
    ck_assert_ptr_eq(wait_for_one(device), &works[2]);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_ERR_DEVICE_LOST);
        arena_free(device_arena(device), works[i].device_offset);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, 3 * SMALL_BYTES);
    device_close(device);
}
END_TEST

START_TEST(a_device_that_is_not_there_is_refused)
{
    struct device_options options = {.backend = GEMM_BACKEND_CUDA, .index = 1000, .streams = 1};
    struct device *device = NULL;
    struct fault fault;
    ck_assert_int_ne(device_open(&options, &device, &fault), GEMMD_OK);
    ck_assert_ptr_null(device);
    ck_assert_int_ne(fault.code, GEMMD_OK);
    ck_assert_str_ne(fault.detail, "");
    options.index = -1;
    ck_assert_int_ne(device_open(&options, &device, &fault), GEMMD_OK);
}
END_TEST

/* Asked in another process: a child of one that has used CUDA cannot use it. */
static bool has_gpu(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        uint32_t count = 0;
        _exit(device_count(GEMM_BACKEND_CUDA, &count, NULL) == GEMMD_OK && count > 0 ? 1 : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 1;
}

int main(void)
{
    Suite *suite = suite_create("device_cuda");
    TCase *tests = tcase_create("device_cuda");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_device_that_is_not_there_is_refused);
    if (has_gpu()) {
        tcase_add_test(tests, the_gpu_describes_itself);
        tcase_add_test(tests, operands_may_lie_anywhere_in_the_body);
        tcase_add_test(tests, a_probe_is_answered_on_full_streams);
        tcase_add_test(tests, small_works_share_a_launch);
        tcase_add_test(tests, a_shared_launch_that_loses_the_device_fails_all);
        tcase_add_test(tests, a_failure_leaves_the_device_usable);
        tcase_add_test(tests, an_illegal_address_loses_the_device);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
