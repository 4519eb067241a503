/* server/http/forwarded.c with server/base/network.c: which address of a header is the client's. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/forwarded.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static struct networks read_list(const char *text)
{
    struct networks networks;
    const char *wrong;
    size_t length;
    ck_assert_msg(networks_read(&networks, text, &wrong, &length), "%s", text);
    return networks;
}

static const struct {
    const char *list, *address;
    bool has;
} members[] = {
    {"192.0.2.7", "192.0.2.7", true},
    {"192.0.2.7", "192.0.2.6", false},
    {"192.0.2.7", "::ffff:192.0.2.7", true},
    {"10.0.0.0/8", "10.255.1.2", true},
    {"10.0.0.0/8", "11.0.0.0", false},
    {"192.0.2.128/25", "192.0.2.127", false},
    {"192.0.2.128/25", "192.0.2.128", true},
    {"10.1.2.3/9", "10.127.0.0", true},
    {"10.1.2.3/9", "10.128.0.0", false},
    {"0.0.0.0/0", "203.0.113.9", true},
    {"0.0.0.0/0", "2001:db8::1", false},
    {"::/0", "2001:db8::1", true},
    {"2001:db8::/33", "2001:db8:7fff::1", true},
    {"2001:db8::/33", "2001:db8:8000::1", false},
    {"::1,unix,192.0.2.7/32", "192.0.2.7", true},
    {"unix", "127.0.0.1", false},
};

START_TEST(networks_have_their_addresses)
{
    const struct networks networks = read_list(members[_i].list);
    struct in6_addr address;
    ck_assert(network_address_read(members[_i].address, strlen(members[_i].address), &address));
    ck_assert_msg(networks_have_address(&networks, &address) == members[_i].has, "%s in %s",
                  members[_i].address, members[_i].list);
}
END_TEST

START_TEST(what_is_not_a_network)
{
    static const char *const wrong[] = {"",         "localhost",   "10.0.0.0/33", "10.0.0.0/",
                                        "10.0.0/8", "::1/129",     "[::1]",       "10.0.0.1:80",
                                        "unix:/a",  "10.0.0.0/8x", "/8",          " ::1",
                                        "::1/-1",   "::1/0001"};
    for (int i = 0; i < COUNT(wrong); i++) {
        char list[64];
        struct networks networks;
        const char *found;
        size_t length;
        snprintf(list, sizeof list, "::1,%s,unix", wrong[i]);
        ck_assert_msg(!networks_read(&networks, list, &found, &length), "'%s'", list);
        ck_assert_msg(length == strlen(wrong[i]) && memcmp(found, wrong[i], length) == 0, "'%s'",
                      list);
    }
}
END_TEST

START_TEST(a_list_has_an_end)
{
    char list[8 * (NETWORKS_MAX + 1)] = "unix";
    struct networks networks;
    const char *wrong;
    size_t length;
    for (int i = 0; i < NETWORKS_MAX; i++)
        strcat(list, ",::1");
    ck_assert(networks_read(&networks, list, &wrong, &length));
    strcat(list, ",::2");
    ck_assert(!networks_read(&networks, list, &wrong, &length));
    ck_assert_str_eq(wrong, "::2");
}
END_TEST

/* The proxies are 10.0.0.0/8 and fd00::/8. */
static const struct {
    bool is_rfc7239;
    const char *value, *client; /* NULL: not known */
} headers[] = {
    {false, "192.0.2.7", "192.0.2.7"},
    {false, "192.0.2.7:4711", "192.0.2.7"},
    {false, "2001:db8::7", "2001:db8::7"},
    {false, "[2001:db8::7]", "2001:db8::7"},
    {false, "[2001:db8::7]:4711", "2001:db8::7"},
    {false, "203.0.113.1, 192.0.2.7", "192.0.2.7"}, /* the client has sent the first */
    {false, "10.0.0.9, 192.0.2.7", "192.0.2.7"},    /* it pretends to be a proxy */
    {false, "203.0.113.1, 192.0.2.7, 10.0.0.1", "192.0.2.7"},
    {false, "203.0.113.1,192.0.2.7\t,\t10.0.0.1 , fd00::1", "192.0.2.7"},
    {false, "10.0.0.1, 10.0.0.2", "10.0.0.1"},
    {false, "192.0.2.7, unknown", NULL},
    {false, "192.0.2.7, unknown, 10.0.0.1", "10.0.0.1"},
    {false, "192.0.2.7, unknown, 10.0.0.2, 10.0.0.1", "10.0.0.2"},
    {false, "192.0.2.7,", NULL},
    {false, "192.0.2.7,,10.0.0.1", "10.0.0.1"},
    {false, "\"192.0.2.7\"", NULL},
    {false, "", NULL},
    {false, "192.0.2.7.1", NULL},
    {false, "[192.0.2.7]", NULL},
    {false, "[2001:db8::7", NULL},
    {false, "[2001:db8::7]4711", NULL},
    {false, "for=192.0.2.7", NULL},
    {true, "for=192.0.2.7", "192.0.2.7"},
    {true, "For=\"192.0.2.7:4711\"", "192.0.2.7"},
    {true, "for=\"[2001:db8::7]:4711\";proto=https", "2001:db8::7"},
    {true, "proto=http; by=203.0.113.43 ;for=192.0.2.7", "192.0.2.7"},
    {true, "for=203.0.113.1, for=192.0.2.7;host=\"a,for=203.0.113.9\", for=10.0.0.1", "192.0.2.7"},
    {true, "for=192.0.2.7;host=\"\\\",for=203.0.113.9\"", "192.0.2.7"},
    {true, "for=192.0.2.7, for=_hidden", NULL},
    {true, "for=192.0.2.7;for=203.0.113.9", NULL},
    {true, "by=192.0.2.7", NULL},
    {true, "host=\"a, for=192.0.2.7", NULL}, /* the quote never ends */
    {true, "192.0.2.7", NULL},
    {true, "", NULL},
};

static void check_client(const struct forwarded *forwarded, const char *client, const char *value)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (forwarded->found)
        network_address_text(&forwarded->client, text);
    ck_assert_msg(strcmp(text, client == NULL ? "" : client) == 0, "%s gives '%s'", value, text);
}

START_TEST(the_last_address_that_is_no_proxy)
{
    const struct networks trusted = read_list("10.0.0.0/8,fd00::/8");
    struct forwarded forwarded = {.trusted = &trusted, .is_rfc7239 = headers[_i].is_rfc7239};
    forwarded_read(&forwarded, headers[_i].value);
    check_client(&forwarded, headers[_i].client, headers[_i].value);
}
END_TEST

START_TEST(lines_are_one_list)
{
    const struct networks trusted = read_list("10.0.0.0/8");
    struct forwarded forwarded = {.trusted = &trusted};
    forwarded_read(&forwarded, "203.0.113.1");
    forwarded_read(&forwarded, "192.0.2.7, 10.0.0.2");
    forwarded_read(&forwarded, "10.0.0.1");
    check_client(&forwarded, "192.0.2.7", "three lines");
    forwarded_read(&forwarded, "");
    check_client(&forwarded, NULL, "an empty line");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forwarded");
    TCase *tests = tcase_create("forwarded");
    tcase_add_loop_test(tests, networks_have_their_addresses, 0, COUNT(members));
    tcase_add_test(tests, what_is_not_a_network);
    tcase_add_test(tests, a_list_has_an_end);
    tcase_add_loop_test(tests, the_last_address_that_is_no_proxy, 0, COUNT(headers));
    tcase_add_test(tests, lines_are_one_list);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
