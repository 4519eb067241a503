/* server/shm/system_object.c: which keys and which objects a client may name. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/shm/system_object.h"

START_TEST(a_key_is_a_slash_and_a_name)
{
    static const struct {
        const char *key;
        bool valid;
    } keys[] = {{"/a", true},   {"/A-z_0.9", true}, {"/..a", true},  {"/", false},
                {"", false},    {"ab", false},      {"/a/b", false}, {"/.", false},
                {"/..", false}, {"//", false},      {"/a b", false}};
    char longest[257] = "/";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ck_assert_msg(system_object_is_key(keys[i].key) == keys[i].valid, "'%s'", keys[i].key);
    memset(longest + 1, 'x', 255);
    ck_assert(!system_object_is_key(longest));
    longest[255] = '\0';
    ck_assert(system_object_is_key(longest));
}
END_TEST

/* The lowest descriptor that is free: a descriptor that is left open changes the number. */
static int next_descriptor(void)
{
    const int fd = dup(STDERR_FILENO);
    ck_assert_int_ge(fd, 0);
    close(fd);
    return fd;
}

START_TEST(an_object_belongs_to_its_user)
{
    char key[64];
    struct fault fault;
    int fd = -1;
    snprintf(key, sizeof key, "/gemmd-test-%d", (int)getpid());
    const int made = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(made, 0);
    const int next = next_descriptor();
    ck_assert_int_eq(system_object_open(key, geteuid(), &fd, &fault), GEMMD_OK);
    ck_assert_int_eq(fd, next);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(system_object_open(key, geteuid() + 1, &fd, &fault), GEMMD_ERR_NOT_FOUND);
    ck_assert_str_eq(fault.field, "key");
    ck_assert_int_eq(next_descriptor(), next); /* an object that was refused is closed again */
    shm_unlink(key);
    ck_assert_int_eq(system_object_open(key, geteuid(), &fd, &fault), GEMMD_ERR_NOT_FOUND);
    ck_assert_int_eq(system_object_open("no-key", geteuid(), &fd, &fault), GEMMD_ERR_NOT_FOUND);
    close(made);
}
END_TEST

START_TEST(a_lack_of_descriptors_is_told_apart)
{
    struct rlimit before;
    struct fault fault;
    int fd;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {(rlim_t)next_descriptor(), before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum gemmd_error code = system_object_open("/gemmd-test-none", geteuid(), &fd, &fault);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(code, GEMMD_ERR_OUT_OF_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("system_object");
    TCase *tests = tcase_create("system_object");
    tcase_add_test(tests, a_key_is_a_slash_and_a_name);
    tcase_add_test(tests, an_object_belongs_to_its_user);
    tcase_add_test(tests, a_lack_of_descriptors_is_told_apart);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
