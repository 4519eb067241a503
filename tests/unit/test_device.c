/* server/device/device.c, cpu/cpu_device.c and self_test.c: slots and their order, and the CPU as a
 * device. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/known_answer.h"
#include "server/base/clock.h"
#include "server/device/device.h"
#include "simulated_device.h"

static struct device *open_cpu(uint64_t memory_bytes)
{
    struct device_options options = {
        .backend = GEMM_BACKEND_CPU, .streams = 4, .cpu_threads = 2, .memory_bytes = memory_bytes};
    struct device *device = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    return device;
}

/* device_open has run the known answers through every kernel already. */
START_TEST(the_cpu_opens_and_describes_itself)
{
    uint32_t count = 0;
    const uint64_t begun_ns = clock_now_ns();
    struct device *device = open_cpu(0);
    const uint64_t took_ns = clock_now_ns() - begun_ns;
    ck_assert_int_eq(device_count(GEMM_BACKEND_CPU, &count, NULL), GEMMD_OK);
    ck_assert_uint_eq(count, 1);
    const struct device_info *info = device_info(device);
    ck_assert_int_eq(info->backend, GEMM_BACKEND_CPU);
    ck_assert_str_ne(info->name, "");
    ck_assert_str_ne(info->arch, "");
    ck_assert_uint_le(info->open_ns, took_ns);
    ck_assert_uint_le(info->test_ns, took_ns - info->open_ns);
    ck_assert_uint_le(info->warm_ns, took_ns - info->open_ns - info->test_ns);
    ck_assert_uint_gt(info->memory_total_bytes, 0);
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++) /* i32 is a type of results */
        ck_assert_int_eq(info->peak_flops[dtype] > 0, dtype != GEMMD_I32);
    ck_assert_double_gt(info->peak_memory_bytes, 0);
    ck_assert_uint_gt(arena_capacity_bytes(device_arena(device)), 0);
    ck_assert_uint_eq(arena_used_bytes(device_arena(device)), 0);
    ck_assert(!device_lost(device));
    ck_assert_str_eq(device_lost_reason(device), "");
    device_close(device);
}
END_TEST

/* The linker sends the calls of mmap and munmap here (-Wl,--wrap). */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

enum { ODD_BYTES = 3 << 20 };
static int odd_mappings; /* mappings of ODD_BYTES */

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *mapping = __real_mmap(at, bytes, protection, flags, fd, offset);
    odd_mappings += mapping != MAP_FAILED && bytes == ODD_BYTES;
    return mapping;
}

int __wrap_munmap(void *at, size_t bytes)
{
    const int result = __real_munmap(at, bytes);
    odd_mappings -= result == 0 && bytes == ODD_BYTES;
    return result;
}

START_TEST(closing_gives_the_memory_back)
{
    struct device *device = open_cpu(ODD_BYTES);
    ck_assert_int_eq(odd_mappings, 1);
    device_close(device);
    ck_assert_int_eq(odd_mappings, 0);
}
END_TEST

START_TEST(memory_that_cannot_be_had_is_told)
{
    struct device_options options = {.backend = GEMM_BACKEND_CPU,
                                     .memory_bytes = UINT64_C(1) << 62};
    struct device *device = NULL;
    struct fault fault;
    ck_assert_int_eq(device_open(&options, &device, &fault), GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_int_eq(fault.code, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_null(device);
}
END_TEST

START_TEST(the_cpu_computes_one_at_a_time)
{
    struct device *device = open_cpu(0);
    struct fault fault;
    void *memory = device_host_alloc(GEMM_BACKEND_CPU, KNOWN_ANSWER_BYTES, &fault);
    struct work work = {.task.operation = &operation_gemm};
    uint64_t row, column;
    ck_assert_ptr_nonnull(memory);
    known_answer_init(&work.task.problem.gemm, GEMMD_BF16, GEMMD_F32, true, false, memory);
    ck_assert_int_eq(operation_select(&operation_gemm,
                                      &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, "auto",
                                      &work.task.problem.gemm, &work.task.kernel, &fault),
                     GEMMD_OK);
    ck_assert(device_plan(device, &work));
    if (work.device_bytes > 0)
        ck_assert(arena_alloc(device_arena(device), work.device_bytes, &work.device_offset));

    ck_assert_ptr_null(device_poll(device));
    ck_assert(device_computes_in_submit(device));
    ck_assert(device_has_room(device));
    device_submit(device, &work);
    ck_assert(!device_has_room(device));
    ck_assert_uint_eq(device_in_flight(device), 1);
    ck_assert_ptr_eq(device_poll(device), &work);
    ck_assert_uint_eq(device_in_flight(device), 0);
    ck_assert_ptr_null(device_poll(device));

    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert_uint_eq(work.launch_works, 1);
    ck_assert_uint_gt(work.kernel_ns, 0);
    ck_assert_uint_ge(work.done_ns, work.started_ns + work.kernel_ns);
    ck_assert(known_answer_check(&work.task.problem.gemm, &row, &column));
    if (work.device_bytes > 0)
        arena_free(device_arena(device), work.device_offset);
    device_host_free(GEMM_BACKEND_CPU, memory, KNOWN_ANSWER_BYTES);
    device_close(device);
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

START_TEST(a_kernel_that_fails_fails_its_work)
{
    static const struct operation_kernel failing = {.name = "failing", .run = failing_run};
    struct device *device = open_cpu(0);
    struct work work = {.task = {.operation = &operation_gemm, .kernel = &failing}};
    device_submit(device, &work);
    ck_assert_ptr_eq(device_poll(device), &work);
    ck_assert_int_eq(work.status, GEMMD_ERR_INTERNAL);
    ck_assert_int_eq(work.fault.code, GEMMD_ERR_INTERNAL);
    ck_assert_ptr_nonnull(strstr(work.fault.detail, "failing"));
    ck_assert(!device_lost(device));
    device_close(device);
}
END_TEST

/* --- slots and their order, over a simulated device --- */

static enum simulated_event look(const struct work *work)
{
    return (enum simulated_event)work->priority;
}

/* 3 rows of 5 bytes into rows 8 bytes apart and back. */
START_TEST(a_work_without_a_kernel_copies)
{
    struct device_options options = {
        .backend = GEMM_BACKEND_CPU, .streams = 1, .cpu_threads = 1, .tensor_bytes = 8192};
    struct device *device = NULL;
    struct fault fault;
    char sent[15], back[15] = "";
    memcpy(sent, "abcdefghijklmno", sizeof sent);
    ck_assert_int_eq(device_open(&options, &device, &fault), GEMMD_OK);
    const struct device_span span = device_tensor_memory(device);
    ck_assert_uint_eq(span.bytes, 8192);
    struct work work = {.copies = {{.from = sent,
                                    .to = span.start,
                                    .rows = 3,
                                    .row_bytes = 5,
                                    .from_pitch = 5,
                                    .to_pitch = 8},
                                   {.from = span.start,
                                    .to = back,
                                    .rows = 3,
                                    .row_bytes = 5,
                                    .from_pitch = 8,
                                    .to_pitch = 5}},
                        .copy_count = 2};
    ck_assert(work_is_copy(&work));
    device_submit(device, &work);
    ck_assert_ptr_eq(device_poll(device), &work);
    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert_mem_eq(back, sent, sizeof sent);
    ck_assert_mem_eq((char *)span.start + 8, "fghij", 5);
    device_close(device);
}
END_TEST

START_TEST(without_tensor_memory_there_is_none)
{
    struct device *device = open_cpu(0);
    ck_assert_uint_eq(device_tensor_memory(device).bytes, 0);
    ck_assert_ptr_null(device_tensor_memory(device).start);
    device_close(device);
}
END_TEST

START_TEST(the_oldest_that_ended_comes_first)
{
    struct simulated_device *simulated = simulated_device_open(4, look);
    struct device *device = &simulated->base;
    struct work works[4] = {{.priority = SIMULATED_RUNNING},
                            {.priority = SIMULATED_DONE},
                            {.priority = SIMULATED_RUNNING},
                            {.priority = SIMULATED_DONE}};
    for (int i = 0; i < 4; i++) {
        ck_assert(device_has_room(device));
        device_submit(device, &works[i]);
    }
    ck_assert(!device_has_room(device));
    ck_assert_ptr_eq(device_poll(device), &works[1]);
    ck_assert_ptr_eq(device_poll(device), &works[3]);
    ck_assert_ptr_null(device_poll(device));
    device_submit(device, &works[1]); /* into the slot that is free again */
    works[0].priority = works[2].priority = SIMULATED_DONE;
    ck_assert_ptr_eq(device_poll(device), &works[0]);
    ck_assert_ptr_eq(device_poll(device), &works[2]);
    ck_assert_ptr_eq(device_poll(device), &works[1]);
    device_close(device);
}
END_TEST

START_TEST(a_probe_has_a_slot_of_its_own)
{
    struct simulated_device *simulated = simulated_device_open(1, look);
    struct device *device = &simulated->base;
    struct work work = {.priority = SIMULATED_RUNNING}, probe = {.priority = 0};
    atomic_store(&simulated->probe, SIMULATED_PROBE_WRONG);
    device_submit(device, &work);
    device_submit_probe(device, &probe);
    ck_assert_uint_eq(device_in_flight(device), 1);
    ck_assert_ptr_eq(device_poll(device), &probe);
    ck_assert(!device_has_room(device));
    work.priority = SIMULATED_DONE;
    ck_assert_ptr_eq(device_poll(device), &work);
    device_close(device);
}
END_TEST

START_TEST(a_loss_ends_all_and_stays)
{
    struct simulated_device *simulated = simulated_device_open(2, look);
    struct device *device = &simulated->base;
    struct work running = {.priority = SIMULATED_RUNNING}, lost = {.priority = SIMULATED_LOST};
    struct work late = {.priority = SIMULATED_DONE};
    device_submit(device, &running);
    device_submit(device, &lost);
    ck_assert_ptr_eq(device_poll(device), &lost);
    ck_assert(device_lost(device));
    ck_assert_str_eq(device_lost_reason(device), "a simulated loss");
    ck_assert_ptr_eq(device_poll(device), &running);
    device_submit(device, &late);
    ck_assert_ptr_eq(device_poll(device), &late);
    ck_assert_uint_eq(atomic_load(&simulated->submitted), 2);
    device_set_lost(device, "another");
    ck_assert_str_eq(device_lost_reason(device), "a simulated loss");
    ck_assert_int_eq(running.status, GEMMD_ERR_DEVICE_LOST);
    ck_assert_int_eq(lost.status, GEMMD_ERR_DEVICE_LOST);
    ck_assert_int_eq(late.status, GEMMD_ERR_DEVICE_LOST);
    device_close(device);
}
END_TEST

START_TEST(streams_are_kept_within_limits)
{
    uint32_t asked[] = {0, 1, DEVICE_STREAMS_MAX, DEVICE_STREAMS_MAX + 1, UINT32_MAX};
    uint32_t given[] = {1, 1, DEVICE_STREAMS_MAX, DEVICE_STREAMS_MAX, DEVICE_STREAMS_MAX};
    for (int i = 0; i < 5; i++) {
        struct simulated_device *simulated = simulated_device_open(asked[i], look);
        ck_assert_uint_eq(simulated->base.slots - simulated->base.shared_slots, given[i]);
        device_close(&simulated->base);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tests = tcase_create("device");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_cpu_opens_and_describes_itself);
    tcase_add_test(tests, closing_gives_the_memory_back);
    tcase_add_test(tests, memory_that_cannot_be_had_is_told);
    tcase_add_test(tests, the_cpu_computes_one_at_a_time);
    tcase_add_test(tests, a_kernel_that_fails_fails_its_work);
    tcase_add_test(tests, a_work_without_a_kernel_copies);
    tcase_add_test(tests, without_tensor_memory_there_is_none);
    tcase_add_test(tests, the_oldest_that_ended_comes_first);
    tcase_add_test(tests, a_probe_has_a_slot_of_its_own);
    tcase_add_test(tests, a_loss_ends_all_and_stays);
    tcase_add_test(tests, streams_are_kept_within_limits);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
