/* server/device/cuda/cuda_device.c where there is a GPU, and what is said where there is none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"
#include "has_gpu.h"
#include "kernels/known_answer.h"
#include "proto/dtype.h"

enum { LARGE = 2048 };

static const uint64_t SMALL_BYTES = KNOWN_ANSWER_BYTES;

static void reserve(struct device *device, struct work *work)
{
    work->own_launch = !work->shared_launch;
    ck_assert(device_plan(device, work));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
}

static void choose_for(struct gemm_device target, struct work *work, const char *name)
{
    struct fault fault = {.detail = ""};
    work->task.operation = &operation_gemm;
    ck_assert_msg(operation_select(&operation_gemm, &target, name, &work->task.problem.gemm,
                                   &work->task.kernel, &fault) == GEMMD_OK,
                  "%s", fault.detail);
}

/* Of the kernels that every GPU has. */
static void choose(struct work *work, const char *name)
{
    choose_for((struct gemm_device){.backend = GEMM_BACKEND_CUDA}, work, name);
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
    ck_assert_uint_eq(device_stack_memory(device), UINT64_C(32) << 20);
    ck_assert_uint_eq(arena_capacity_bytes(device_arena(device)),
                      (UINT64_C(1024) - DEVICE_SHARED_SLOTS * 32) << 20);
    ck_assert_uint_eq(arena_used_bytes(device_arena(device)), 0);
    device_close(device);
}
END_TEST

/* A body's operands start where its header ended: at odd addresses too. */
static void check_at(struct device *device, enum gemmd_dtype dtype, enum gemmd_dtype out,
                     unsigned char *memory, unsigned char *odd)
{
    struct work work = {.verify = WORK_UNVERIFIED};
    uint64_t row, column;
    known_answer_init(&work.task.problem.gemm, dtype, out, false, true, memory);
    struct gemm_problem *problem = &work.task.problem.gemm;
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
    work->task.problem.gemm = (struct gemm_problem){.dtype = GEMMD_F32,
                                                    .out = GEMMD_F32,
                                                    .m = LARGE,
                                                    .n = LARGE,
                                                    .k = LARGE,
                                                    .batch = 1,
                                                    .alpha = 1,
                                                    .a = memory,
                                                    .b = memory + matrix_bytes,
                                                    .c = memory + 2 * matrix_bytes};
    gemm_problem_contiguous(&work->task.problem.gemm);
}

START_TEST(a_probe_is_answered_on_full_streams)
{
    const uint64_t bytes = UINT64_C(3) * LARGE * LARGE * 4;
    struct device *device = open_gpu();
    unsigned char *memory = take_host(bytes), *small = take_host(KNOWN_ANSWER_BYTES);
    struct work works[STREAMS], probe = {.shared_launch = true};
    uint64_t row, column;
    memset(works, 0, sizeof works);
    memset(memory, 0, bytes);
    known_answer_init(&probe.task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, small);
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
    ck_assert(known_answer_check(&probe.task.problem.gemm, &row, &column));
    for (int i = 0; i < STREAMS; i++)
        arena_free(device_arena(device), works[i].device_offset);
    arena_free(device_arena(device), probe.device_offset);
    device_host_free(GEMM_BACKEND_CUDA, memory, bytes);
    device_host_free(GEMM_BACKEND_CUDA, small, KNOWN_ANSWER_BYTES);
    device_close(device);
}
END_TEST

static const struct operation_kernel *naive(void)
{
    struct gemm_problem problem;
    const struct operation_kernel *kernel;
    static unsigned char memory[KNOWN_ANSWER_BYTES];
    known_answer_init(&problem, GEMMD_F32, GEMMD_F32, false, false, memory);
    ck_assert_int_eq(operation_select(&operation_gemm,
                                      &(struct gemm_device){.backend = GEMM_BACKEND_CUDA}, "naive",
                                      &problem, &kernel, NULL),
                     GEMMD_OK);
    return kernel;
}

static enum gemmd_error run_nothing(struct gemm_context *context, const void *problem,
                                    void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    return GEMMD_ERR_INTERNAL;
}

/* Reads where nothing is: the error that the context does not survive. */
static enum gemmd_error run_astray(struct gemm_context *context, const void *problem,
                                   void *workspace)
{
    struct gemm_problem astray = *(const struct gemm_problem *)problem;
    astray.a = (const unsigned char *)astray.a + (UINT64_C(1) << 46);
    return operation_run(naive(), context, &astray, workspace);
}

static void init_known(struct device *device, struct work *work, unsigned char *memory)
{
    known_answer_init(&work->task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
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
            *work = (struct work){.shared_launch = true};
            known_answer_init(&work->task.problem.gemm, (enum gemmd_dtype)dtype,
                              (enum gemmd_dtype)out, made & 1, made & 2,
                              memory + made * SMALL_BYTES);
            choose(work, "auto");
            ck_assert(device_shares_launch(device, &work->task));
            ck_assert(device_plan(device, work));
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
        ck_assert_uint_eq(works[i].launch_works, count);
        ck_assert_uint_gt(works[i].kernel_ns, 0);
        ck_assert(known_answer_check(&works[i].task.problem.gemm, &row, &column));
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, COUNT * SMALL_BYTES);
    device_close(device);
}
END_TEST

/* --- tensors that stay --- */

/* A known answer with A, B and C in tensor memory, rows `gap` elements further apart than they
 * need be, computed by `kernel`. */
static void check_resident(struct device *device, enum gemmd_dtype dtype, enum gemmd_dtype out,
                           uint64_t gap, const char *kernel, bool shares, unsigned char *memory)
{
    struct work work = {.shared_launch = shares};
    struct gemm_problem *p = &work.task.problem.gemm, known;
    uint64_t row, column;
    unsigned char *there = device_tensor_memory(device).start;
    known_answer_init(p, dtype, out, false, true, memory);
    known = *p;
    memset(p->c, 0, p->m * p->n * dtype_size(out));
    p->lda = p->k + gap;
    p->stride_a = p->m * p->lda;
    p->ldb = p->k + gap; /* B is transposed */
    p->stride_b = p->n * p->ldb;
    p->ldc = p->n + gap;
    p->stride_c = p->m * p->ldc;
    move(device, dtype, memory + ((const unsigned char *)p->a - memory), there, p->m, p->k, p->lda,
         true);
    move(device, dtype, memory + ((const unsigned char *)p->b - memory), there + SLOT, p->n, p->k,
         p->ldb, true);
    p->a = there;
    p->b = there + SLOT;
    p->c = there + 2 * SLOT;
    choose(&work, kernel);
    reserve(device, &work);
    run(device, &work);
    arena_free(device_arena(device), work.device_offset);
    ck_assert_msg(work.status == GEMMD_OK, "%s: %s", work.task.kernel->name, work.fault.detail);
    move(device, out, known.c, p->c, p->m, p->n, p->ldc, false);
    ck_assert_msg(known_answer_check(&known, &row, &column),
                  "%s to %s by %s with a gap of %lu: row %lu, column %lu is not right",
                  dtype_name(dtype), dtype_name(out), work.task.kernel->name, (unsigned long)gap,
                  (unsigned long)row, (unsigned long)column);
}

START_TEST(what_lies_in_tensor_memory_is_used_there)
{
    static const char *const kernels[] = {"cublas", "naive", "tiled", "grouped"};
    struct device *device = open_gpu();
    unsigned char *memory = take_host(SMALL_BYTES);
    for (uint64_t gap = 0; gap <= 3; gap += 3)
        for (int i = 0; i < 4; i++) {
            check_resident(device, GEMMD_F32, GEMMD_F32, gap, kernels[i], false, memory);
            check_resident(device, GEMMD_BF16, GEMMD_F32, gap, kernels[i], false, memory);
        }
    device_host_free(GEMM_BACKEND_CUDA, memory, SMALL_BYTES);
    device_close(device);
}
END_TEST

START_TEST(small_works_share_a_launch_with_what_lies_in_tensor_memory)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(SMALL_BYTES);
    check_resident(device, GEMMD_F16, GEMMD_F16, 0, "auto", true, memory);
    check_resident(device, GEMMD_F16, GEMMD_F16, 5, "auto", true, memory);
    check_resident(device, GEMMD_F64, GEMMD_F64, 1, "auto", true, memory);
    device_host_free(GEMM_BACKEND_CUDA, memory, SMALL_BYTES);
    device_close(device);
}
END_TEST

enum { STACKED = 40, STACK_ROWS_MAX = 3 };

/* One request of a stack: some rows of A and C in pinned memory. */
static void init_stacked(struct device *device, struct work *work, const struct gemm_problem *like,
                         const char *kernel, unsigned char *memory)
{
    *work = (struct work){.task.problem.gemm = *like};
    work->task.problem.gemm.a = memory;
    work->task.problem.gemm.c = memory + SMALL_BYTES / 2;
    choose_for(device_gemm(device), work, kernel);
    ck_assert(device_plan(device, work));
    ck_assert_msg(work->join_key != 0, "%s does not stack", work->task.kernel->name);
    ck_assert(work->shared_launch);
    ck_assert_uint_eq(work->device_bytes, 0);
    memset(work->task.problem.gemm.c, 0xff, like->m * like->n * dtype_size(like->out));
}

/* STACKED requests on a B in tensor memory, in one launch, then each alone in its stack, then
 * without one: the same bytes. */
static void check_stack(struct device *device, enum gemmd_dtype dtype, const char *kernel)
{
    const uint64_t n = 264, k = 320, size = dtype_size(dtype), b_bytes = n * k * size;
    unsigned char *memory = take_host(STACKED * SMALL_BYTES + b_bytes);
    unsigned char *b = memory + STACKED * SMALL_BYTES;
    static unsigned char together[STACKED][KNOWN_ANSWER_BYTES / 2];
    static struct work works[STACKED];
    for (uint64_t i = 0; i < STACKED * SMALL_BYTES + b_bytes; i++)
        memory[i] = (unsigned char)(i * 2654435761u >> 24 & 0x3f); /* small numbers in all types */
    move(device, dtype, b, device_tensor_memory(device).start, k, n, n, true);
    for (uint32_t i = 0; i < STACKED; i++) {
        struct gemm_problem like = {.dtype = dtype,
                                    .out = dtype,
                                    .m = 1 + i % STACK_ROWS_MAX,
                                    .n = n,
                                    .k = k,
                                    .batch = 1,
                                    .alpha = 1};
        gemm_problem_contiguous(&like);
        like.b = device_tensor_memory(device).start;
        init_stacked(device, &works[i], &like, kernel, memory + i * SMALL_BYTES);
        ck_assert_uint_eq(works[i].join_key, works[0].join_key);
        if (i > 0)
            works[i - 1].next = &works[i];
    }
    device_submit(device, &works[0]);
    ck_assert_ptr_eq(wait_for_one(device), &works[0]);
    for (uint32_t i = 0; i < STACKED; i++) {
        ck_assert_msg(works[i].status == GEMMD_OK, "%s", works[i].fault.detail);
        ck_assert_uint_eq(works[i].launch_works, STACKED);
        ck_assert_uint_gt(works[i].kernel_ns, 0);
        memcpy(together[i], works[i].task.problem.gemm.c, works[i].task.problem.gemm.m * n * size);
    }
    for (uint32_t i = 0; i < STACKED; i++)
        for (int stacked = 0; stacked < 2; stacked++) {
            struct work *work = &works[i];
            const uint64_t bytes = work->task.problem.gemm.m * n * size;
            work->next = NULL;
            work->own_launch = !stacked;
            memset(work->task.problem.gemm.c, 0xff, bytes);
            if (!stacked)
                reserve(device, work);
            else
                ck_assert(device_plan(device, work));
            run(device, work);
            if (!stacked)
                arena_free(device_arena(device), work->device_offset);
            ck_assert_msg(work->status == GEMMD_OK, "%s", work->fault.detail);
            ck_assert_msg(memcmp(together[i], work->task.problem.gemm.c, bytes) == 0,
                          "%s of %s: request %u has other bytes alone", work->task.kernel->name,
                          dtype_name(dtype), i);
        }
    device_host_free(GEMM_BACKEND_CUDA, memory, STACKED * SMALL_BYTES + b_bytes);
}

START_TEST(rows_on_one_b_are_stacked)
{
    struct device *device = open_gpu();
    check_stack(device, GEMMD_F32, "naive");
    check_stack(device, GEMMD_F16, "tiled");
    check_stack(device, GEMMD_F64, "grouped");
    if (device_gemm(device).compute_capability == 90) /* elsewhere "auto" is cuBLAS */
        check_stack(device, GEMMD_BF16, "auto");
    device_close(device);
}
END_TEST

START_TEST(a_stack_that_loses_the_device_fails_all)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * SMALL_BYTES);
    struct operation_kernel astray = *naive();
    struct work works[3];
    struct gemm_problem like = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 1, .n = 300, .k = 40, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&like);
    like.b = device_tensor_memory(device).start;
    astray.run = run_astray;
    for (uint32_t i = 0; i < 3; i++) {
        init_stacked(device, &works[i], &like, "naive", memory + i * SMALL_BYTES);
        works[i].task.kernel = &astray;
        works[i].next = i < 2 ? &works[i + 1] : NULL;
    }
    device_submit(device, &works[0]);
    ck_assert_ptr_eq(wait_for_one(device), &works[0]);
    ck_assert(device_lost(device));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(works[i].status, GEMMD_ERR_DEVICE_LOST);
    device_host_free(GEMM_BACKEND_CUDA, memory, 3 * SMALL_BYTES);
    device_close(device);
}
END_TEST

START_TEST(copies_after_a_product_see_its_result)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(SMALL_BYTES);
    struct work work = {.shared_launch = true};
    struct gemm_problem known;
    uint64_t row, column;
    known_answer_init(&work.task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
    known = work.task.problem.gemm;
    const uint64_t bytes = known.m * known.n * 4;
    memset(known.c, 0, bytes);
    for (int alone = 0; alone < 2; alone++) {
        work.shared_launch = !alone;
        work.task.problem.gemm.c = device_tensor_memory(device).start;
        work.copies[0] = (struct work_copy){.from = work.task.problem.gemm.c,
                                            .to = known.c,
                                            .rows = 1,
                                            .row_bytes = bytes,
                                            .from_pitch = bytes,
                                            .to_pitch = bytes};
        work.copy_count = 1;
        choose(&work, alone ? "cublas" : "auto");
        reserve(device, &work);
        run(device, &work);
        arena_free(device_arena(device), work.device_offset);
        ck_assert_msg(work.status == GEMMD_OK, "%s", work.fault.detail);
        ck_assert(known_answer_check(&known, &row, &column));
        memset(known.c, 0, bytes);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, SMALL_BYTES);
    device_close(device);
}
END_TEST

START_TEST(rows_are_as_far_apart_as_the_fast_kernel_wants)
{
    struct device *device = open_gpu();
    const struct gemm_device gpu = device_gemm(device);
    for (uint64_t width = 1; width < 1100; width += 13) {
        const uint64_t leading = gemm_leading(&gpu, GEMMD_BF16, width, true);
        ck_assert_uint_ge(leading, width);
        ck_assert_uint_lt(leading, width + 64);
        ck_assert_uint_eq(gemm_leading(&gpu, GEMMD_F32, width, true), width);
        if (gpu.compute_capability == 90)
            ck_assert_uint_eq(leading * 2 % 16, 0);
    }
    device_close(device);
}
END_TEST

static enum gemmd_error run_group_astray(struct gemm_context *context,
                                         const struct operation_member members[], uint32_t count)
{
    struct gemm_problem astray = *(const struct gemm_problem *)members[0].problem;
    (void)count;
    astray.a = (const unsigned char *)astray.a + (UINT64_C(1) << 46);
    return operation_run(naive(), context, &astray, NULL);
}

START_TEST(a_shared_launch_that_loses_the_device_fails_all)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * SMALL_BYTES);
    struct operation_kernel astray = {.name = "astray", .run_group = run_group_astray};
    struct work works[3];
    uint32_t count = init_sharing(device, works, 3, memory);
    for (uint32_t i = 0; i < count; i++)
        works[i].task.kernel = &astray;
    known_answer_init(&works[0].task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
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
    struct operation_kernel failing = *naive();
    struct work work = {.verify = WORK_UNVERIFIED};
    uint64_t row, column;
    init_known(device, &work, memory);
    failing.run = run_nothing;

    work.task.kernel = &failing;
    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    work.task.kernel = naive();
    uint64_t bytes = work.device_bytes;
    work.device_bytes = 1;
    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    work.device_bytes = bytes;
    ck_assert(!device_lost(device));

    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert(known_answer_check(&work.task.problem.gemm, &row, &column));
    arena_free(device_arena(device), work.device_offset);
    device_host_free(GEMM_BACKEND_CUDA, memory, KNOWN_ANSWER_BYTES);
    device_close(device);
}
END_TEST

START_TEST(an_illegal_address_loses_the_device)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * SMALL_BYTES);
    struct operation_kernel astray = *naive();
    struct work works[3];
    memset(works, 0, sizeof works);
    astray.run = run_astray;
    for (int i = 0; i < 3; i++)
        init_known(device, &works[i], memory + (uint64_t)i * SMALL_BYTES);
    works[0].task.kernel = &astray;
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

int main(void)
{
    Suite *suite = suite_create("cuda_device");
    TCase *tests = tcase_create("cuda_device");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_device_that_is_not_there_is_refused);
    if (has_gpu()) {
        tcase_add_test(tests, the_gpu_describes_itself);
        tcase_add_test(tests, operands_may_lie_anywhere_in_the_body);
        tcase_add_test(tests, a_probe_is_answered_on_full_streams);
        tcase_add_test(tests, small_works_share_a_launch);
        tcase_add_test(tests, what_lies_in_tensor_memory_is_used_there);
        tcase_add_test(tests, small_works_share_a_launch_with_what_lies_in_tensor_memory);
        tcase_add_test(tests, rows_on_one_b_are_stacked);
        tcase_add_test(tests, a_stack_that_loses_the_device_fails_all);
        tcase_add_test(tests, copies_after_a_product_see_its_result);
        tcase_add_test(tests, rows_are_as_far_apart_as_the_fast_kernel_wants);
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
