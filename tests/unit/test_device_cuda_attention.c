/* Attentions that share a launch on a GPU (server/device/device_cuda_attention.c). */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "has_gpu.h"
#include "proto/dtype.h"
#include "server/device/device.h"
#include "server/device/known_attention.h"

static struct device *open_gpu(void)
{
    struct device_options options = {
        .backend = GEMM_BACKEND_CUDA, .streams = 3, .memory_bytes = UINT64_C(1) << 30};
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

static struct work *wait_for_one(struct device *device)
{
    struct work *work;
    while ((work = device_poll(device)) == NULL)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    return work;
}

static void check_attention(const struct work *work, const struct attention_problem *known)
{
    uint64_t row, column;
    ck_assert_msg(work->status == GEMMD_OK, "%s", work->fault.detail);
    ck_assert_msg(known_attention_check(known, &row, &column),
                  "%s in %s: row %lu, column %lu is not right", work->attends->name,
                  dtype_name(known->dtype), (unsigned long)row, (unsigned long)column);
}

enum { ATTENTIONS = 3 };

/* A chain of attentions of one kind, with memory reserved to the byte; the second and the third lie
 * at odd addresses. `memory` has two times KNOWN_ATTENTION_BYTES for each. */
static void make_chain(struct device *device, enum gemmd_dtype dtype, bool causal,
                       unsigned char *memory, struct work works[ATTENTIONS],
                       struct attention_problem known[ATTENTIONS])
{
    const struct gemm_device gpu = device_gemm(device);
    struct fault fault = {.detail = ""};
    for (uint64_t i = 0; i < ATTENTIONS; i++) {
        unsigned char *plain = memory + 2 * i * KNOWN_ATTENTION_BYTES;
        unsigned char *odd = plain + KNOWN_ATTENTION_BYTES + i * dtype_size(dtype) / 2;
        works[i] = (struct work){.next = i + 1 < ATTENTIONS ? &works[i + 1] : NULL};
        struct attention_problem *p = &works[i].attention;
        known_attention_init(p, dtype, causal, plain);
        known[i] = *p;
        memcpy(odd, plain, KNOWN_ATTENTION_BYTES - ATTENTIONS * 4);
        p->q = odd + ((const unsigned char *)p->q - plain);
        p->k = odd + ((const unsigned char *)p->k - plain);
        p->v = odd + ((const unsigned char *)p->v - plain);
        p->o = odd + ((unsigned char *)p->o - plain);
        ck_assert_msg(attention_select(&gpu, "auto", p, &works[i].attends, &fault) == GEMMD_OK,
                      "%s", fault.detail);
        ck_assert(device_plan_attention(device, &works[i]));
        ck_assert_uint_ne(works[i].stack_key, 0);
        ck_assert(work_same_stack(&works[0], &works[i]));
        ck_assert(
            arena_alloc(device_arena(device), works[i].device_bytes, &works[i].device_offset));
    }
}

static void free_chain(struct device *device, const struct work works[ATTENTIONS])
{
    for (int i = 0; i < ATTENTIONS; i++)
        arena_free(device_arena(device), works[i].device_offset);
}

static void copy_result(const struct work *work, const struct attention_problem *known)
{
    const struct attention_problem *p = &work->attention;
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
        make_chain(device, dtypes[i / 2], i % 2, memory, works, known);
        device_submit(device, works);
        ck_assert_ptr_eq(wait_for_one(device), works);
        for (int j = 0; j < ATTENTIONS; j++) {
            ck_assert_uint_eq(works[j].batch, ATTENTIONS);
            ck_assert_uint_eq(works[j].kernel_ns, works[0].kernel_ns);
            copy_result(&works[j], &known[j]);
            check_attention(&works[j], &known[j]);
        }
        free_chain(device, works);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, 2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

static enum gemmd_error attend_none(struct gemm_context *context,
                                    const struct attention_member members[], uint32_t count)
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
    make_chain(device, GEMMD_F16, true, memory, works, known);
    const struct attention_kernel *right = works[0].attends;
    struct attention_kernel failing = *right;
    failing.run_group = attend_none;
    works[0].attends = &failing;
    device_submit(device, works);
    ck_assert_ptr_eq(wait_for_one(device), works);
    for (int i = 0; i < ATTENTIONS; i++)
        ck_assert_int_eq(works[i].status, GEMMD_ERR_INTERNAL);

    works[0].attends = right;
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
    free_chain(device, works);
    device_host_free(GEMM_BACKEND_CUDA, memory, 2 * ATTENTIONS * KNOWN_ATTENTION_BYTES);
    device_close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_cuda_attention");
    TCase *tests = tcase_create("device_cuda_attention");
    tcase_set_timeout(tests, 240);
    if (has_gpu()) {
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
