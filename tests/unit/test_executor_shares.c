/* server/scheduler/executor.c */
#include <check.h>
#include <stdlib.h>

#include "server/scheduler/executor.h"

#define NEVER UINT64_MAX

static const struct {
    const char *what;
    uint32_t count;
    uint64_t ready_ns[4];
    uint64_t units;
    double unit_ns;
    uint64_t shares[4], done_ns, alone_ns;
} cases[] = {
    {"one device", 1, {50}, 10, 3, {10}, 80, 80},
    {"equal devices", 2, {0, 0}, 10, 100, {5, 5}, 500, 1000},
    {"an odd number of units", 2, {0, 0}, 7, 100, {4, 3}, 400, 700},
    {"one begins later", 2, {0, 400}, 10, 100, {7, 3}, 700, 1000},
    {"one begins too late", 2, {0, 1000}, 10, 100, {10, 0}, 1000, 1000},
    {"the second is free first", 2, {300, 100}, 4, 100, {1, 3}, 400, 500},
    {"one takes no part", 3, {0, NEVER, 0}, 8, 10, {4, 0, 4}, 40, 80},
    {"three of four", 4, {0, 0, 5000, 0}, 9, 100, {3, 3, 0, 3}, 300, 900},
    {"fewer units than devices", 4, {0, 0, 0, 0}, 2, 100, {1, 0, 1, 0}, 100, 200},
    {"none takes part", 2, {NEVER, NEVER}, 4, 1, {0, 0}, NEVER, NEVER},
};

START_TEST(divides)
{
    const struct device_shares all = {.count = cases[_i].count,
                                      .ready_ns = cases[_i].ready_ns,
                                      .units = cases[_i].units,
                                      .unit_ns = cases[_i].unit_ns};
    uint64_t shares[4];
    ck_assert_msg(device_shares_divide(&all, shares) == cases[_i].done_ns, "%s", cases[_i].what);
    for (uint32_t i = 0; i < all.count; i++)
        ck_assert_msg(shares[i] == cases[_i].shares[i], "%s: device %u takes %lu", cases[_i].what,
                      i, (unsigned long)shares[i]);
    ck_assert_msg(device_shares_alone(&all) == cases[_i].alone_ns, "%s", cases[_i].what);
}
END_TEST

/* Numbers that look random and are the same in every run (xorshift). */
static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

/* Whatever the numbers, all units are given out, and no device is done much later than another. */
START_TEST(is_fair)
{
    uint64_t state = 11;
    for (int round = 0; round < 10000; round++) {
        uint64_t ready[8], shares[8], sum = 0;
        for (uint32_t i = 0; i < 8; i++)
            ready[i] = draw(&state, 1000000);
        const struct device_shares all = {.count = 1 + (uint32_t)draw(&state, 8),
                                          .ready_ns = ready,
                                          .units = 1 + draw(&state, 1000),
                                          .unit_ns = 1 + (double)draw(&state, 5000)};
        const uint64_t done = device_shares_divide(&all, shares);
        for (uint32_t i = 0; i < all.count; i++)
            sum += shares[i];
        ck_assert_uint_eq(sum, all.units);
        ck_assert_uint_le(done, device_shares_alone(&all) + (uint64_t)all.unit_ns);
        for (uint32_t i = 0; i < all.count; i++) {
            const double end = (double)ready[i] + (double)shares[i] * all.unit_ns;
            ck_assert_msg(shares[i] > 0 || end + 2 * all.unit_ns >= (double)done,
                          "a device could have begun earlier");
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_shares");
    TCase *tests = tcase_create("device_shares");
    tcase_add_loop_test(tests, divides, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tests, is_fair);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
