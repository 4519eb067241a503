/* server/shm/mapped_file.c: a client's file, also while the client shortens it. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/shm/mapped_file.h"

enum { PAGE = 4096, SIZE = 16 * PAGE };

static int fd;
static struct mapped_file mapped;
static struct fault fault;

static void open_file(void)
{
    fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, SIZE), 0);
}

static void close_file(void)
{
    close(fd);
}

START_TEST(both_see_the_same_bytes)
{
    char bytes[4] = "";
    ck_assert_int_eq(mapped_file_open(&mapped, fd, PAGE + 100, SIZE - PAGE - 100, &fault),
                     GEMMD_OK);
    memcpy(mapped.start, "abc", 4);
    ck_assert_int_eq(pread(fd, bytes, sizeof bytes, PAGE + 100), 4);
    ck_assert_str_eq(bytes, "abc");
    ck_assert_int_eq(pwrite(fd, "z", 1, SIZE - 1), 1);
    ck_assert_int_eq(mapped.start[mapped.bytes - 1], 'z');
    ck_assert(mapped_file_is_whole(&mapped));
    mapped_file_close(&mapped);
}
END_TEST

START_TEST(what_is_not_in_the_file_is_refused)
{
    static const uint64_t wrong[][2] = {{0, 0},         {0, SIZE + 1},           {1, SIZE},
                                        {SIZE, 1},      {UINT64_MAX, 1},         {1, UINT64_MAX},
                                        {INT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(mapped_file_open(&mapped, fd, wrong[i][0], wrong[i][1], &fault),
                         GEMMD_ERR_MALFORMED);
}
END_TEST

/* A thread reads 0 or the byte that it wrote. What it writes has no effect. */
static void *touch_all(void *own)
{
    volatile unsigned char *start = mapped.start + *(const int *)own;
    for (int turn = 0; turn < 2; turn++)
        for (uint64_t i = 0; i < mapped.bytes; i += 512) {
            if (start[i] != 0 && start[i] != 7)
                return own;
            start[i] = 7;
        }
    return NULL;
}

START_TEST(a_file_that_is_cut_short_kills_nobody)
{
    pthread_t threads[4];
    void *wrong[4];
    int own[] = {8, 16, 24, 32};
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, SIZE, &fault), GEMMD_OK);
    ck_assert(mapped_file_is_whole(&mapped));
    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    ck_assert(!mapped_file_is_whole(&mapped));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, touch_all, &own[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &wrong[i]);
        ck_assert_ptr_null(wrong[i]);
    }
    /* And grown again: what was computed with it is void all the same. */
    ck_assert_int_eq(ftruncate(fd, SIZE), 0);
    ck_assert(!mapped_file_is_whole(&mapped));
    mapped_file_close(&mapped);
}
END_TEST

START_TEST(a_sealed_file_needs_no_descriptor)
{
    ck_assert(!mapped_file_is_sealed(fd));
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert(mapped_file_is_sealed(fd));
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, SIZE, &fault), GEMMD_OK);
    ck_assert_int_eq(mapped.fd, -1);
    ck_assert(mapped_file_is_whole(&mapped));
    mapped_file_close(&mapped);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_the_clients_error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int reading = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(reading, 0);
    ck_assert(mapped_file_is_writable(fd));
    ck_assert(!mapped_file_is_writable(reading));
    ck_assert(!mapped_file_is_writable(-1));
    ck_assert_int_eq(mapped_file_open(&mapped, reading, 0, SIZE, &fault), GEMMD_ERR_MALFORMED);
    close(reading);
    ck_assert_int_eq(mapped_file_open(&mapped, -1, 0, SIZE, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "not a file"));
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, SIZE, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "cannot be mapped"));
}
END_TEST

/* Opens the file while a limit of the process is as low as it can be. */
static enum gemmd_error open_with_limit(__rlimit_resource_t resource, rlim_t limit)
{
    struct rlimit as_it_was;
    ck_assert_int_eq(getrlimit(resource, &as_it_was), 0);
    const struct rlimit low = {limit, as_it_was.rlim_max};
    ck_assert_int_eq(setrlimit(resource, &low), 0);
    const enum gemmd_error code = mapped_file_open(&mapped, fd, 0, SIZE, &fault);
    ck_assert_int_eq(setrlimit(resource, &as_it_was), 0);
    return code;
}

START_TEST(a_lack_of_memory_is_not_the_clients_error)
{
    const int next = dup(fd); /* the lowest descriptor that is free */
    close(next);
    ck_assert_int_eq(open_with_limit(RLIMIT_NOFILE, (rlim_t)next), GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_int_eq(open_with_limit(RLIMIT_AS, 0), GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, SIZE, &fault), GEMMD_OK);
    mapped_file_close(&mapped);
}
END_TEST

START_TEST(only_so_many_files_are_mapped)
{
    static struct mapped_file all[MAPPED_FILE_MAX];
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0); /* needs no descriptors */
    for (int i = 0; i < MAPPED_FILE_MAX; i++)
        ck_assert_int_eq(mapped_file_open(&all[i], fd, 0, PAGE, &fault), GEMMD_OK);
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, PAGE, &fault), GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(fault.detail, "which is the limit"));
    mapped_file_close(&all[7]);
    ck_assert_int_eq(mapped_file_open(&all[7], fd, 0, PAGE, &fault), GEMMD_OK);
    for (int i = 0; i < MAPPED_FILE_MAX; i++)
        mapped_file_close(&all[i]);
}
END_TEST

START_TEST(only_the_file_that_is_cut_short_is_broken)
{
    struct mapped_file first, last;
    const int other = memfd_create("other", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(other, SIZE), 0);
    ck_assert_int_eq(mapped_file_open(&first, other, 0, SIZE, &fault), GEMMD_OK);
    ck_assert_int_eq(mapped_file_open(&mapped, fd, 0, SIZE, &fault), GEMMD_OK);
    ck_assert_int_eq(mapped_file_open(&last, other, 0, SIZE, &fault), GEMMD_OK);
    mapped_file_close(&first); /* its place is empty now */
    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    ck_assert_int_eq(((volatile unsigned char *)mapped.start)[SIZE - 1], 0);
    ck_assert(!mapped_file_is_whole(&mapped));
    ck_assert(mapped_file_is_whole(&last));
    mapped_file_close(&mapped);
    mapped_file_close(&last);
    close(other);
}
END_TEST

static int signal_of_child(void (*act)(void))
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL); /* not a sanitizer's */
        act();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Memory that is no mapped file, next to memory that is. */
static void touch_another(void)
{
    int other = memfd_create("other", 0);
    volatile char *start = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
    if (mapped_file_open(&mapped, fd, 0, SIZE, &fault) == GEMMD_OK)
        (void)start[0];
}

static void touch_after_the_last(void)
{
    if (mapped_file_open(&mapped, fd, 0, SIZE, &fault) == GEMMD_OK)
        mapped_file_close(&mapped);
    raise(SIGBUS);
}

START_TEST(other_errors_of_the_kind_are_as_deadly_as_ever)
{
    ck_assert_int_eq(signal_of_child(touch_another), SIGBUS);
    ck_assert_int_eq(signal_of_child(touch_after_the_last), SIGBUS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mapped_file");
    TCase *tests = tcase_create("mapped_file");
    tcase_add_checked_fixture(tests, open_file, close_file);
    tcase_add_test(tests, both_see_the_same_bytes);
    tcase_add_test(tests, what_is_not_in_the_file_is_refused);
    tcase_add_test(tests, a_file_that_is_cut_short_kills_nobody);
    tcase_add_test(tests, a_sealed_file_needs_no_descriptor);
    tcase_add_test(tests, a_file_that_cannot_be_written_is_the_clients_error);
    tcase_add_test(tests, a_lack_of_memory_is_not_the_clients_error);
    tcase_add_test(tests, only_so_many_files_are_mapped);
    tcase_add_test(tests, only_the_file_that_is_cut_short_is_broken);
    tcase_add_test(tests, other_errors_of_the_kind_are_as_deadly_as_ever);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
