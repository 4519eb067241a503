/* server/shm/mapped_file.c: a client's file, also while the client shortens it. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    tcase_add_test(tests, other_errors_of_the_kind_are_as_deadly_as_ever);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
