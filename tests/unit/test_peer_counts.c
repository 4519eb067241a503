/* server/net/peer_counts.c: connections of each address, compared with an array of counts. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/un.h>

#include "server/base/network.h"
#include "server/net/peer_counts.h"

static const struct networks nobody = {0};

enum { LIMIT = 3, ADDRESSES = 64 };

static struct sockaddr_in address_of(uint32_t number)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(0x0a000000u + number);
    return address;
}

START_TEST(limits_each_address)
{
    struct peer_counts *counts = peer_counts_create(LIMIT, 16, &nobody);
    struct sockaddr_in one = address_of(1), two = address_of(2);
    for (int i = 0; i < LIMIT; i++)
        ck_assert(peer_counts_add(counts, (struct sockaddr *)&one));
    ck_assert(!peer_counts_add(counts, (struct sockaddr *)&one));
    ck_assert(peer_counts_add(counts, (struct sockaddr *)&two));
    peer_counts_remove(counts, (struct sockaddr *)&one);
    ck_assert(peer_counts_add(counts, (struct sockaddr *)&one));
    peer_counts_destroy(counts);
}
END_TEST

START_TEST(a_mapped_address_is_the_same_one)
{
    struct peer_counts *counts = peer_counts_create(1, 16, &nobody);
    struct sockaddr_in v4 = address_of(7);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:10.0.0.7", &v6.sin6_addr), 1);
    ck_assert(peer_counts_add(counts, (struct sockaddr *)&v4));
    ck_assert(!peer_counts_add(counts, (struct sockaddr *)&v6));
    peer_counts_destroy(counts);
}
END_TEST

START_TEST(unix_sockets_and_no_limit_are_free)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in one = address_of(1);
    struct peer_counts *limited = peer_counts_create(1, 16, &nobody);
    struct peer_counts *unlimited = peer_counts_create(0, 16, &nobody);
    for (int i = 0; i < 10; i++) {
        ck_assert(peer_counts_add(limited, (struct sockaddr *)&local));
        ck_assert(peer_counts_add(unlimited, (struct sockaddr *)&one));
    }
    peer_counts_destroy(limited);
    peer_counts_destroy(unlimited);
}
END_TEST

/* Chains of the hash table must survive removals in any order. */
START_TEST(agrees_with_a_model)
{
    struct peer_counts *counts = peer_counts_create(LIMIT, ADDRESSES, &nobody);
    int model[ADDRESSES] = {0};
    uint32_t state = 12345;
    for (int step = 0; step < 100000; step++) {
        state = state * 1664525u + 1013904223u;
        uint32_t which = (state >> 8) % ADDRESSES;
        struct sockaddr_in address = address_of(which);
        if ((state >> 28) % 2 == 0) {
            bool added = peer_counts_add(counts, (struct sockaddr *)&address);
            ck_assert_int_eq(added, model[which] < LIMIT);
            model[which] += added;
        } else if (model[which] > 0) {
            peer_counts_remove(counts, (struct sockaddr *)&address);
            model[which]--;
        }
    }
    peer_counts_destroy(counts);
}
END_TEST

/* An I/O thread counts a connection as ended before it removes the address, so that one address
 * more than the capacity can be looked up. */
START_TEST(a_look_up_ends_with_as_many_addresses_as_it_has_room_for)
{
    enum { CAPACITY = 16 };
    struct peer_counts *counts = peer_counts_create(1, CAPACITY, &nobody);
    for (uint32_t i = 0; i <= CAPACITY; i++) {
        struct sockaddr_in address = address_of(i);
        ck_assert(peer_counts_add(counts, (struct sockaddr *)&address));
    }
    for (uint32_t i = 0; i <= CAPACITY; i++) {
        struct sockaddr_in address = address_of(i);
        ck_assert(!peer_counts_add(counts, (struct sockaddr *)&address));
    }
    peer_counts_destroy(counts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_counts");
    TCase *tcase = tcase_create("peer_counts");
    tcase_add_test(tcase, limits_each_address);
    tcase_add_test(tcase, a_mapped_address_is_the_same_one);
    tcase_add_test(tcase, unix_sockets_and_no_limit_are_free);
    tcase_add_test(tcase, agrees_with_a_model);
    tcase_add_test(tcase, a_look_up_ends_with_as_many_addresses_as_it_has_room_for);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
