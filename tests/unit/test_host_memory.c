/* server/device/host_memory.c: host memory that is allocated while a device is opened. */
#include "server/device/host_memory.h"

#include <check.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/device/device.h"

enum { BYTES = (5 << 20) + 4096 }; /* of several threads, the last with less */

START_TEST(the_cpus_is_there_and_zeroed)
{
    struct fault fault = {.detail = ""};
    struct host_memory *host = host_memory_begin(GEMM_BACKEND_CPU, BYTES, 0, &fault);
    ck_assert_msg(host != NULL, "%s", fault.detail);
    unsigned char *memory = host_memory_finish(host, &fault);
    ck_assert_msg(memory != NULL, "%s", fault.detail);
    ck_assert_uint_eq((uintptr_t)memory % (2 << 20), 0);
    unsigned char any = 0;
    for (int i = 0; i < BYTES; i++)
        any |= memory[i];
    ck_assert_uint_eq(any, 0);
    memset(memory, 0xff, BYTES);
    host_memory_free(host);
}
END_TEST

START_TEST(it_may_be_left_before_it_is_finished)
{
    struct fault fault = {.detail = ""};
    struct host_memory *host = host_memory_begin(GEMM_BACKEND_CUDA, BYTES, 0, &fault);
    ck_assert_msg(host != NULL, "%s", fault.detail);
    host_memory_free(host);
    host_memory_free(NULL);
}
END_TEST

START_TEST(more_than_there_can_be_is_refused)
{
    struct fault fault = {.detail = ""};
    ck_assert_ptr_null(host_memory_begin(GEMM_BACKEND_CPU, UINT64_MAX, 0, &fault));
    ck_assert_str_eq(fault.field, "pinned-bytes");
    ck_assert_ptr_null(host_memory_begin(GEMM_BACKEND_CPU, UINT64_C(1) << 62, 0, &fault));
    ck_assert_str_eq(fault.field, "pinned-bytes");
}
END_TEST

/* Without a GPU, pinning fails with an error; with a GPU, the memory is pinned. */
START_TEST(what_cannot_be_pinned_is_said)
{
    struct fault fault = {.detail = ""};
    uint32_t devices = 0;
    const bool there = device_count(GEMM_BACKEND_CUDA, &devices, &fault) == GEMMD_OK && devices > 0;
    struct host_memory *host = host_memory_begin(GEMM_BACKEND_CUDA, BYTES, 0, &fault);
    ck_assert_msg(host != NULL, "%s", fault.detail);
    unsigned char *memory = host_memory_finish(host, &fault);
    if (there) {
        ck_assert_msg(memory != NULL, "%s", fault.detail);
        memset(memory, 0xff, BYTES);
    } else {
        ck_assert_ptr_null(memory);
        ck_assert_str_eq(fault.field, "pinned-bytes");
        ck_assert_msg(strstr(fault.detail, "5246976 bytes") != NULL, "%s", fault.detail);
    }
    host_memory_free(host);
}
END_TEST

/* The policy of the page at `memory`, and its nodes; -1: the system does not tell. */
static int policy_at(void *memory, unsigned long *nodes)
{
    int policy = -1;
    *nodes = 0;
    return syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof *nodes + 1, memory, MPOL_F_ADDR) ==
                   0
               ? policy
               : -1;
}

/* Node 0 is there on every host, and node 63 on hardly any: a mask with neither changes nothing. */
static const struct {
    uint64_t nodes;
    int policy;
    unsigned long chosen;
} choices[] = {{0, MPOL_DEFAULT, 0},
               {1, MPOL_PREFERRED, 1},
               {UINT64_C(1) << 63, MPOL_DEFAULT, 0},
               {UINT64_C(1) << 63 | 1, MPOL_INTERLEAVE, 1}};

START_TEST(pages_are_on_the_nodes_of_the_devices)
{
    struct fault fault = {.detail = ""};
    unsigned long nodes;
    int here;
    if (policy_at(&here, &nodes) < 0 || access("/sys/devices/system/node/node0", F_OK) != 0 ||
        access("/sys/devices/system/node/node63", F_OK) == 0)
        return; /* the system does not allow a choice */
    struct host_memory *host =
        host_memory_begin(GEMM_BACKEND_CPU, BYTES, choices[_i].nodes, &fault);
    ck_assert_msg(host != NULL, "%s", fault.detail);
    unsigned char *memory = host_memory_finish(host, &fault);
    for (int at = 0; at < BYTES; at += BYTES - 1) {
        ck_assert_int_eq(policy_at(memory + at, &nodes), choices[_i].policy);
        ck_assert_uint_eq(nodes, choices[_i].chosen);
    }
    memset(memory, 0xff, BYTES);
    host_memory_free(host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_memory");
    TCase *tests = tcase_create("host_memory");
    tcase_add_test(tests, the_cpus_is_there_and_zeroed);
    tcase_add_test(tests, it_may_be_left_before_it_is_finished);
    tcase_add_test(tests, more_than_there_can_be_is_refused);
    tcase_add_test(tests, what_cannot_be_pinned_is_said);
    tcase_add_loop_test(tests, pages_are_on_the_nodes_of_the_devices, 0,
                        sizeof choices / sizeof *choices);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
