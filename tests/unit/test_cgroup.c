/* server/base/cgroup.c with server/device/memory/memory_limit.c and server/base/cores.c: limits of
 * control groups, read from file trees like those of the system. */
#include <check.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/cores.h"
#include "server/device/memory/memory_limit.h"

static char root[] = "/tmp/gemmd-cgroup-XXXXXX";

/* Writes `text` to root/`path`, with the folders that lead there. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_root(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_root(void)
{
    ck_assert_int_eq(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

START_TEST(no_groups_allow_all)
{
    ck_assert_uint_eq(memory_limit_of_cgroups(root), UINT64_MAX);
}
END_TEST

START_TEST(groups_without_a_limit_allow_all)
{
    put("proc/self/cgroup", "4:memory:/a\n0::/b\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/b/memory.max", "max\n");
    ck_assert_uint_ge(memory_limit_of_cgroups(root), (uint64_t)INT64_MAX - 4095);
}
END_TEST

START_TEST(a_unit_of_version_2)
{
    put("proc/self/cgroup", "0::/system.slice/gemmd.service\n");
    put("sys/fs/cgroup/system.slice/gemmd.service/memory.max", "3221225472\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), 3221225472);
}
END_TEST

START_TEST(the_least_of_those_above)
{
    put("proc/self/cgroup", "0::/pods/pod7/box\n");
    put("sys/fs/cgroup/pods/pod7/box/memory.max", "max\n");
    put("sys/fs/cgroup/pods/pod7/memory.max", "1000\n");
    put("sys/fs/cgroup/pods/memory.max", "2000\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), 1000);
}
END_TEST

START_TEST(a_container_that_sees_itself_as_the_root)
{
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "4096\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), 4096);
}
END_TEST

START_TEST(a_container_of_version_1_named_by_the_host)
{
    put("proc/self/cgroup", "12:cpu,cpuacct:/docker/1f\n5:hugetlb,memory:/docker/1f\n0::/x\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n");
    put("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), 8192);
}
END_TEST

START_TEST(other_lines_and_controllers_set_no_limit)
{
    put("proc/self/cgroup",
        "nothing\n7:memory\n3:memoryless:/a\n2:name=memory:/a\n5:memory,cpu:/b\n");
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
    put("sys/fs/cgroup/a/memory.max", "2\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), UINT64_MAX);
    put("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "4096\n");
    ck_assert_uint_eq(memory_limit_of_cgroups(root), 4096);
}
END_TEST

START_TEST(a_quota_of_version_2)
{
    put("proc/self/cgroup", "0::/pods/box\n");
    put("sys/fs/cgroup/pods/box/cpu.max", "max 100000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), UINT64_MAX);
    put("sys/fs/cgroup/pods/box/cpu.max", "250000 100000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), 3);
    put("sys/fs/cgroup/pods/cpu.max", "100000 50000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), 2);
    put("sys/fs/cgroup/cpu.max", "1000 100000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), 1);
}
END_TEST

START_TEST(a_quota_of_version_1)
{
    put("proc/self/cgroup", "3:cpuset:/a\n12:cpu,cpuacct:/docker/1f\n0::/x\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), UINT64_MAX);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), 4);
    put("sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us", "150000\n");
    put("sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(cores_of_cgroups(root), 2);
}
END_TEST

START_TEST(files_that_are_no_quota)
{
    static const char *const texts[] = {"",          "max",    "0 100000", "100000 0",
                                        "-5 100000", "100000", "x y"};
    put("proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put("sys/fs/cgroup/cpu.max", texts[i]);
        ck_assert_msg(cores_of_cgroups(root) == UINT64_MAX, "'%s' is a quota", texts[i]);
    }
}
END_TEST

START_TEST(what_a_limit_leaves)
{
    put("proc/self/cgroup", "0::/pod/box\n");
    put("proc/meminfo", "MemTotal:       16000 kB\nMemFree:   1 kB\nMemAvailable:   9000 kB\n");
    ck_assert_uint_eq(memory_available_below(root), 9000 * 1024);
    put("sys/fs/cgroup/pod/memory.max", "6000000\n");
    ck_assert_uint_eq(memory_available_below(root), 6000000);
    put("sys/fs/cgroup/pod/memory.current", "5000000\n");
    ck_assert_uint_eq(memory_available_below(root), 1000000);
    put("sys/fs/cgroup/pod/memory.stat",
        "anon 1\ninactive_file_of 7\ninactive_file 2000000\nactive_file 8\n");
    ck_assert_uint_eq(memory_available_below(root), 3000000);
    put("sys/fs/cgroup/pod/memory.stat", "inactive_file 7000000\n");
    ck_assert_uint_eq(memory_available_below(root), 6000000);
    put("sys/fs/cgroup/pod/memory.stat", "inactive_file 0\n");
    put("sys/fs/cgroup/pod/memory.current", "7000000\n");
    ck_assert_uint_eq(memory_available_below(root), 0);
}
END_TEST

START_TEST(what_a_limit_of_version_1_leaves)
{
    put("proc/self/cgroup", "5:hugetlb,memory:/docker/1f\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 4\ntotal_inactive_file 1000\n");
    ck_assert_uint_eq(memory_available_below(root), 8192 - 4000);
}
END_TEST

START_TEST(this_machine_has_memory)
{
    ck_assert_uint_lt(memory_available_bytes(), memory_limit_bytes());
    const uint64_t bytes = memory_limit_bytes();
    ck_assert_uint_gt(bytes, 1 << 20);
    ck_assert_uint_lt(bytes, UINT64_C(1) << 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup");
    TCase *tcase = tcase_create("groups");
    tcase_add_checked_fixture(tcase, make_root, remove_root);
    tcase_add_test(tcase, no_groups_allow_all);
    tcase_add_test(tcase, groups_without_a_limit_allow_all);
    tcase_add_test(tcase, a_unit_of_version_2);
    tcase_add_test(tcase, the_least_of_those_above);
    tcase_add_test(tcase, a_container_that_sees_itself_as_the_root);
    tcase_add_test(tcase, a_container_of_version_1_named_by_the_host);
    tcase_add_test(tcase, other_lines_and_controllers_set_no_limit);
    tcase_add_test(tcase, a_quota_of_version_2);
    tcase_add_test(tcase, a_quota_of_version_1);
    tcase_add_test(tcase, files_that_are_no_quota);
    tcase_add_test(tcase, what_a_limit_leaves);
    tcase_add_test(tcase, what_a_limit_of_version_1_leaves);
    tcase_add_test(tcase, this_machine_has_memory);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
