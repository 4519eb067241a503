/* server/device/cuda/task_group.c: attentions on a GPU, alone and in one launch. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"
#include "has_gpu.h"
#include "kernels/known_attention.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

static void check_attention(const struct work *work, const struct attention_problem *known)
{
    uint64_t row, column;
    ck_assert_msg(work->status == GEMMD_OK, "%s", work->fault.detail);
    ck_assert_msg(known_attention_check(known, &row, &column),
                  "%s in %s: row %lu, column %lu is not right", work->task.kernel->name,
                  dtype_name(known->dtype), (unsigned long)row, (unsigned long)column);
}

/* --- one alone --- */

/* What "auto" chooses, with memory reserved to the byte; frees it again. */
static void attend(struct device *device, struct work *work)
{
    const struct gemm_device gpu = device_gemm(device);
    struct fault fault = {.detail = ""};
    if (work->task.kernel == NULL)
        ck_assert_msg(operation_select(&operation_attention, &gpu, "auto",
                                       &work->task.problem.attention, &work->task.kernel,
                                       &fault) == GEMMD_OK,
                      "%s", fault.detail);
    work->own_launch = true;
    ck_assert(device_plan(device, work));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
    run(device, work);
    arena_free(device_arena(device), work->device_offset);
}

/* Operands, lengths and results where a body's header leaves them: at odd addresses too. */
START_TEST(attention_takes_operands_from_anywhere_in_the_body)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};
    struct device *device = open_gpu();
    unsigned char *memory = take_host(3 * KNOWN_ATTENTION_BYTES);
    for (int i = 0; i < 6; i++) {
        struct work work = {.task.operation = &operation_attention};
        struct attention_problem *p = &work.task.problem.attention, known;
        unsigned char *odd = memory + KNOWN_ATTENTION_BYTES + 1;
        known_attention_init(p, dtypes[i / 2], i % 2, memory);
        known = *p;
        const uint64_t size = dtype_size(p->dtype), rows = p->batch * p->heads * p->sq;
        const uint64_t o_bytes = rows * p->dv * size;
        int32_t lens[4] = {(int32_t)p->sq, (int32_t)p->sq, (int32_t)p->skv, (int32_t)p->skv};
        memcpy(odd, memory, KNOWN_ATTENTION_BYTES);
        memcpy(memory + 2 * KNOWN_ATTENTION_BYTES, lens, sizeof lens);
        p->q = odd + ((const unsigned char *)p->q - memory);
        p->k = odd + ((const unsigned char *)p->k - memory);
        p->v = odd + ((const unsigned char *)p->v - memory);
        p->o = odd + ((unsigned char *)p->o - memory);
        p->lens_q = (const int32_t *)(const void *)(memory + 2 * KNOWN_ATTENTION_BYTES);
        p->lens_kv = p->lens_q + 2;
        p->lse = (float *)(void *)(memory + 2 * KNOWN_ATTENTION_BYTES + 256);
        memset(p->lse, 0xff, rows * sizeof *p->lse);
        attend(device, &work);
        memcpy(known.o, p->o, o_bytes);
        check_attention(&work, &known);
        for (uint64_t row = 0; row < rows; row++) /* 8 times 64, and all others vanish */
            ck_assert_double_eq_tol((double)p->lse[row], 512, 1e-3);
        ck_assert_uint_gt(work.h2d_ns, 0);
        ck_assert_uint_gt(work.kernel_ns, 0);
        ck_assert_uint_gt(work.d2h_ns, 0);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, 3 * KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

/* With gaps between rows, as where the fast kernels of products want them. */
START_TEST(attention_uses_k_and_v_in_tensor_memory)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(KNOWN_ATTENTION_BYTES);
    unsigned char *there = device_tensor_memory(device).start;
    for (int which = 1; which < 4; which++) {
        struct work work = {.task.operation = &operation_attention};
        struct attention_problem *p = &work.task.problem.attention, known;
        known_attention_init(p, GEMMD_F16, true, memory);
        known = *p;
        const uint64_t rows = p->batch * p->skv, gap = 8;
        if (which & 1) {
            move(device, GEMMD_F16, memory + ((const unsigned char *)p->k - memory), there, rows,
                 p->d, p->d + gap, true);
            memset(memory + ((const unsigned char *)p->k - memory), 0xff, rows * p->d * 2);
            p->k = there;
            p->k_strides = attention_strides(ATTENTION_BHSD, 1, p->skv, p->d + gap);
        }
        if (which & 2) {
            move(device, GEMMD_F16, memory + ((const unsigned char *)p->v - memory), there + SLOT,
                 rows, p->dv, p->dv + gap, true);
            memset(memory + ((const unsigned char *)p->v - memory), 0xff, rows * p->dv * 2);
            p->v = there + SLOT;
            p->v_strides = attention_strides(ATTENTION_BHSD, 1, p->skv, p->dv + gap);
        }
        attend(device, &work);
        check_attention(&work, &known);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

static enum gemmd_error attend_nothing(struct gemm_context *context, const void *problem,
                                       void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    return GEMMD_ERR_INTERNAL;
}

START_TEST(attention_that_fails_leaves_the_device_usable)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(KNOWN_ATTENTION_BYTES);
    struct work work = {.task.operation = &operation_attention};
    known_attention_init(&work.task.problem.attention, GEMMD_F32, false, memory);
    attend(device, &work);
    const struct operation_kernel *right = work.task.kernel;
    struct operation_kernel failing = *right;
    failing.run = attend_nothing;
    work.task.kernel = &failing;
    attend(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);

    work.task.kernel = right;
    work.device_bytes -= 1; /* of what it needs */
    run(device, &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    ck_assert(!device_lost(device));

    memset(work.task.problem.attention.o, 0xff, 1024);
    attend(device, &work);
    check_attention(&work, &work.task.problem.attention);
    device_host_free(GEMM_BACKEND_CUDA, memory, KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

/* --- several in a launch --- */

enum { ATTENTIONS = 3 };

/* A launch list of attentions of one kind, with memory reserved to the byte; the second and the
 * third lie at odd addresses. `memory` has two times KNOWN_ATTENTION_BYTES for each. */
static void make_launch_list(struct device *device, enum gemmd_dtype dtype, bool causal,
                             unsigned char *memory, struct work works[ATTENTIONS],
                             struct attention_problem known[ATTENTIONS])
{
    const struct gemm_device gpu = device_gemm(device);
    struct fault fault = {.detail = ""};
    for (uint64_t i = 0; i < ATTENTIONS; i++) {
        unsigned char *plain = memory + 2 * i * KNOWN_ATTENTION_BYTES;
        unsigned char *odd = plain + KNOWN_ATTENTION_BYTES + i * dtype_size(dtype) / 2;
        works[i] = (struct work){.task.operation = &operation_attention,
                                 .next = i + 1 < ATTENTIONS ? &works[i + 1] : NULL};
        struct attention_problem *p = &works[i].task.problem.attention;
        known_attention_init(p, dtype, causal, plain);
        known[i] = *p;
        memcpy(odd, plain, KNOWN_ATTENTION_BYTES - ATTENTIONS * 4);
        p->q = odd + ((const unsigned char *)p->q - plain);
        p->k = odd + ((const unsigned char *)p->k - plain);
        p->v = odd + ((const unsigned char *)p->v - plain);
        p->o = odd + ((unsigned char *)p->o - plain);
        ck_assert_msg(operation_select(&operation_attention, &gpu, "auto", p, &works[i].task.kernel,
                                       &fault) == GEMMD_OK,
                      "%s", fault.detail);
        ck_assert(device_plan(device, &works[i]));
        ck_assert_uint_ne(works[i].join_key, 0);
        ck_assert(work_can_join(&works[0], &works[i]));
        ck_assert(
            arena_alloc(device_arena(device), works[i].device_bytes, &works[i].device_offset));
    }
}

static void free_launch_list(struct device *device, const struct work works[ATTENTIONS])
{
    for (int i = 0; i < ATTENTIONS; i++)
        arena_free(device_arena(device), works[i].device_offset);
}

static void copy_result(const struct work *work, const struct attention_problem *known)
{
    const struct attention_problem *p = &work->task.problem.attention;
    memcpy(known->o, p->o, p->batch * p->heads * p->sq * p->dv * dtype_size(p->dtype));
}

START_TEST(attentions_of_one_kind_share_a_launch)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};
    struct device *device = open_gpu();
    unsigned char *memory = take_host(2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    for (int i = 0; i < 6; i++) {
        struct work works[ATTENTIONS];
        struct attention_problem known[ATTENTIONS];
        make_launch_list(device, dtypes[i / 2], i % 2, memory, works, known);
        device_submit(device, works);
        ck_assert_ptr_eq(wait_for_one(device), works);
        for (int j = 0; j < ATTENTIONS; j++) {
            ck_assert_uint_eq(works[j].launch_works, ATTENTIONS);
            ck_assert_uint_eq(works[j].kernel_ns, works[0].kernel_ns);
            copy_result(&works[j], &known[j]);
            check_attention(&works[j], &known[j]);
        }
        free_launch_list(device, works);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, 2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

static enum gemmd_error attend_none(struct gemm_context *context,
                                    const struct operation_member members[], uint32_t count)
{
    (void)context;
    (void)members;
    (void)count;
    return GEMMD_ERR_INTERNAL;
}

START_TEST(a_group_of_attentions_that_fails_leaves_the_device_usable)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    struct work works[ATTENTIONS];
    struct attention_problem known[ATTENTIONS];
    make_launch_list(device, GEMMD_F16, true, memory, works, known);
    const struct operation_kernel *right = works[0].task.kernel;
    struct operation_kernel failing = *right;
    failing.run_group = attend_none;
    works[0].task.kernel = &failing;
    device_submit(device, works);
    ck_assert_ptr_eq(wait_for_one(device), works);
    for (int i = 0; i < ATTENTIONS; i++)
        ck_assert_int_eq(works[i].status, GEMMD_ERR_INTERNAL);

    works[0].task.kernel = right;
    works[1].device_bytes -= 1; /* of what it needs */
    device_submit(device, works);
    ck_assert_ptr_eq(wait_for_one(device), works);
    for (int i = 0; i < ATTENTIONS; i++)
        ck_assert_int_eq(works[i].status, GEMMD_ERR_INTERNAL);
    ck_assert(!device_lost(device));

    works[1].device_bytes += 1;
    device_submit(device, works);
    ck_assert_ptr_eq(wait_for_one(device), works);
    for (int i = 0; i < ATTENTIONS; i++) {
        copy_result(&works[i], &known[i]);
        check_attention(&works[i], &known[i]);
    }
    free_launch_list(device, works);
    device_host_free(GEMM_BACKEND_CUDA, memory, 2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_task_group");
    TCase *tests = tcase_create("cuda_task_group");
    tcase_set_timeout(tests, 240);
    if (has_gpu()) {
        tcase_add_test(tests, attention_takes_operands_from_anywhere_in_the_body);
        tcase_add_test(tests, attention_uses_k_and_v_in_tensor_memory);
        tcase_add_test(tests, attention_that_fails_leaves_the_device_usable);
        tcase_add_test(tests, attentions_of_one_kind_share_a_launch);
        tcase_add_test(tests, a_group_of_attentions_that_fails_leaves_the_device_usable);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
