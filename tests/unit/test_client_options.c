/* Clients from right and wrong options, URLs, and structures of other versions. */
#include <check.h>
#include <gemmd/gemmd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/address.h"
#include "client/client.h"
#include "client/query.h"
#include "client/record.h"
#include "client/schedule.h"

static const struct {
    const char *url, *base, *unix_path;
} right_urls[] = {
    {"http://127.0.0.1:8080", "http://127.0.0.1:8080", NULL},
    {"https://gemm.example/", "https://gemm.example", NULL},
    {"http://[::1]:80/prefix/", "http://[::1]:80/prefix", NULL},
    {"unix:/run/gemmd.sock", "http://localhost", "/run/gemmd.sock"},
    {"unix:relative", "http://localhost", "relative"},
    {"127.0.0.1:8080", "http://127.0.0.1:8080", NULL},
    {"localhost:80/prefix/", "http://localhost:80/prefix", NULL},
    {"[::1]:8080", "http://[::1]:8080", NULL},
};

START_TEST(reads_urls)
{
    struct address address;
    struct gemmd_error_info error = {.message = ""};
    enum gemmd_error code = address_parse(&address, right_urls[_i].url, &error);
    ck_assert_msg(code == GEMMD_OK, "%s", error.message);
    ck_assert_str_eq(address.name, right_urls[_i].url);
    ck_assert_str_eq(address.base, right_urls[_i].base);
    ck_assert_pstr_eq(address.unix_path, right_urls[_i].unix_path);
    address_free(&address);
}
END_TEST

static const char *const wrong_urls[] = {"127.0.0.1",
                                         "host:",
                                         ":80",
                                         "host:http",
                                         "host:99999",
                                         "u@host:1",
                                         "host:1?a=b",
                                         "[::1]",
                                         "ftp://host",
                                         "http://",
                                         "http://host:99999",
                                         "http://user@host",
                                         "http://host/?a=b",
                                         "http://host/#a",
                                         "unix:",
                                         "http://a b",
                                         "file:///etc/passwd"};

START_TEST(refuses_other_urls)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = wrong_urls[_i];
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "url");
}
END_TEST

START_TEST(tells_how_an_ipv6_address_is_written)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = "::1";
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "in brackets, as in [::1]:8080"));
    options.url = "host";
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_ptr_null(strstr(error.message, "brackets"));
}
END_TEST

START_TEST(refuses_files_that_cannot_be_read)
{
    static const char missing[] = "/none/ca.pem";
    struct gemmd_options options;
    struct gemmd_error_info error;
    for (int i = 0; i < 3; i++) {
        gemmd_options_init(&options, sizeof options);
        options.ca_file = i == 0 ? missing : NULL;
        options.cert_file = i == 1 ? missing : i == 2 ? "/dev/null" : NULL;
        options.key_file = i == 2 ? missing : NULL;
        ck_assert_ptr_null(gemmd_client_new(&options, &error));
        ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
        ck_assert_str_eq(error.field, i == 0 ? "ca_file" : i == 1 ? "cert_file" : "key_file");
        ck_assert_str_eq(error.message, "/none/ca.pem cannot be read: No such file or directory");
    }
}
END_TEST

START_TEST(refuses_long_urls)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    char url[ADDRESS_URL_MAX + 64] = "unix:";
    gemmd_options_init(&options, sizeof options);
    options.url = url;
    memset(url + 5, 'x', 200);
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    int front = snprintf(url, sizeof url, "http://h/");
    memset(url + front, 'x', sizeof url - 1 - (size_t)front);
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
}
END_TEST

START_TEST(refuses_tokens_that_would_break_the_header)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.token = "one\r\nHost: other";
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    ck_assert_str_eq(error.field, "token");
    options.token = "delete\x7f";
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_str_eq(error.field, "token");
    char token[4098];
    memset(token, 'x', sizeof token - 1);
    token[sizeof token - 1] = '\0';
    options.token = token; /* longer than 4096 characters */
    ck_assert_ptr_null(gemmd_client_new(&options, &error));
    ck_assert_str_eq(error.field, "token");
    token[4096] = '\0';
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    ck_assert_ptr_nonnull(client);
    gemmd_client_free(client);
}
END_TEST

START_TEST(an_empty_url_is_the_default)
{
    struct gemmd_options options;
    struct gemmd_error_info error;
    gemmd_options_init(&options, sizeof options);
    options.url = "";
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    ck_assert_msg(client != NULL, "%s", error.message);
    gemmd_client_free(client);
}
END_TEST

static const struct {
    const char *text;
    bool valid;
} traceparents[] = {
    {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true},
    {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", false},
    {"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
    {"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
    {"00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
    {"00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01", false},
    {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01", false},
    {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
    {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01", false},
    {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g", false},
    {"", false},
};

START_TEST(knows_a_traceparent)
{
    for (size_t i = 0; i < sizeof traceparents / sizeof *traceparents; i++)
        ck_assert_msg(traceparent_is_valid(traceparents[i].text) == traceparents[i].valid, "%s",
                      traceparents[i].text);
}
END_TEST

START_TEST(writes_a_shape)
{
    const uint64_t dims[8] = {1, 2, 3, 4, 5, 6, 7, UINT64_MAX};
    char text[SHAPE_TEXT_BYTES];
    ck_assert_str_eq(shape_text(1, dims, text), "1");
    ck_assert_str_eq(shape_text(8, dims, text), "1,2,3,4,5,6,7,18446744073709551615");
    ck_assert_str_eq(shape_text(0, dims, text), "none");
    ck_assert_str_eq(shape_text(9, dims, text), "none");
}
END_TEST

START_TEST(what_is_no_tensor_has_no_etag)
{
    const uint64_t dims[8] = {2}, huge[] = {UINT64_MAX, UINT64_MAX};
    const float data[2] = {1, 2};
    char etag[72];
    gemmd_tensor_etag(GEMMD_F32, 1, dims, data, etag);
    ck_assert_uint_eq(strlen(etag), 66);
    gemmd_tensor_etag(GEMMD_DTYPE_COUNT, 1, dims, data, etag);
    ck_assert_str_eq(etag, "");
    gemmd_tensor_etag(GEMMD_F32, 0, dims, data, etag);
    ck_assert_str_eq(etag, "");
    gemmd_tensor_etag(GEMMD_F32, 9, dims, data, etag);
    ck_assert_str_eq(etag, "");
    gemmd_tensor_etag(GEMMD_F32, 2, huge, data, etag);
    ck_assert_str_eq(etag, "");
}
END_TEST

START_TEST(takes_url_and_token_from_the_environment)
{
    struct gemmd_error_info error;
    ck_assert_int_eq(setenv("GEMMD_URL", "ftp://from.the.environment", 1), 0);
    ck_assert_ptr_null(gemmd_client_new(NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "from.the.environment"));
    ck_assert_int_eq(setenv("GEMMD_URL", "http://127.0.0.1:1", 1), 0);
    ck_assert_int_eq(setenv("GEMMD_TOKEN", "a b", 1), 0);
    ck_assert_ptr_null(gemmd_client_new(NULL, &error));
    ck_assert_str_eq(error.field, "token");
}
END_TEST

START_TEST(takes_no_options_and_zeroed_ones)
{
    struct gemmd_options options = {.size = sizeof options};
    struct gemmd_client *client = gemmd_client_new(&options, NULL);
    ck_assert_ptr_nonnull(client);
    gemmd_client_free(client);
    client = gemmd_client_new(NULL, NULL);
    ck_assert_ptr_nonnull(client);
    gemmd_client_free(client);
}
END_TEST

struct later_options {
    struct gemmd_options now;
    uint64_t later;
};

START_TEST(takes_structures_of_other_versions)
{
    struct later_options options;
    struct gemmd_error_info error;
    memset(&options, 0xff, sizeof options);
    gemmd_options_init(&options.now, sizeof options);
    ck_assert_uint_eq(options.now.size, sizeof options);
    ck_assert_uint_eq(options.later, 0);
    struct gemmd_client *client = gemmd_client_new(&options.now, NULL);
    ck_assert_ptr_nonnull(client);
    gemmd_client_free(client);
    options.later = 1;
    ck_assert_ptr_null(gemmd_client_new(&options.now, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
    options.now.size = 8;
    ck_assert_ptr_null(gemmd_client_new(&options.now, &error));
    ck_assert_int_eq(error.code, GEMMD_ERR_USAGE);
}
END_TEST

/* A caller that was compiled before the field traceparent: the bytes behind its structures are not
 * read. No daemon listens at the address, which says that the structures were accepted. */
START_TEST(takes_structures_without_a_traceparent)
{
    struct gemmd_error_info error;
    struct gemmd_options options;
    gemmd_options_init(&options, sizeof options);
    options.url = "http://127.0.0.1:1";
    options.retries = 0;
    struct gemmd_client *client = gemmd_client_new(&options, &error);
    ck_assert_ptr_nonnull(client);

    const float data[1] = {1};
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.size = offsetof(struct gemmd_call, traceparent);
    call.traceparent = "no part of the structure";
    ck_assert_int_eq(gemmd_tensor_delete(client, "w", &call, &error), GEMMD_ERR_CONNECTION);

    struct gemmd_tensor_put put;
    gemmd_tensor_put_init(&put, sizeof put);
    put.name = "w";
    put.rank = 1;
    put.dims[0] = 1;
    put.data = data;
    put.size = offsetof(struct gemmd_tensor_put, traceparent);
    put.traceparent = "no part of the structure";
    ck_assert_int_eq(gemmd_tensor_put(client, &put, NULL, &error), GEMMD_ERR_CONNECTION);
    gemmd_client_free(client);
}
END_TEST

START_TEST(writes_no_further_than_the_caller_knows)
{
    struct {
        size_t size;
        uint32_t known, unknown;
    } library = {0, 1, 2}, caller = {0, 0, 77};
    size_t caller_bytes = sizeof(size_t) + sizeof(uint32_t);
    record_write(&caller, caller_bytes, &library, sizeof library);
    ck_assert_uint_eq(caller.size, caller_bytes);
    ck_assert_uint_eq(caller.known, 1);
    ck_assert_uint_eq(caller.unknown, 77);
}
END_TEST

/* Programs are compiled with these numbers: a new entry goes to the end of its list. */
START_TEST(keeps_the_values_of_enumerations)
{
    ck_assert_int_eq(GEMMD_OK, 0);
    ck_assert_int_eq(GEMMD_ERR_QUEUE_FULL, 14);
    ck_assert_int_eq(GEMMD_ERR_USAGE, 22);
    ck_assert_int_eq(GEMMD_ERR_CANCELLED, 27);
    ck_assert_int_eq(GEMMD_F64, 0);
    ck_assert_int_eq(GEMMD_I32, 6);
    ck_assert_int_eq(GEMMD_ACT_SILU, 4);
    ck_assert_uint_eq(sizeof(struct gemmd_error_info), 372);
}
END_TEST

START_TEST(names_everything)
{
    enum gemmd_dtype dtype;
    for (int code = 0; code < GEMMD_ERR_COUNT; code++) {
        ck_assert_str_ne(gemmd_error_name((enum gemmd_error)code), "?");
        ck_assert_str_ne(gemmd_error_title((enum gemmd_error)code), "?");
    }
    ck_assert_str_eq(gemmd_error_name(GEMMD_ERR_QUEUE_FULL), "QUEUE_FULL");
    ck_assert_str_eq(gemmd_error_name(GEMMD_ERR_COUNT), "?");
    ck_assert_str_eq(gemmd_error_title(GEMMD_ERR_COUNT), "?");
    for (int i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        ck_assert_uint_gt(gemmd_dtype_size((enum gemmd_dtype)i), 0);
        ck_assert(gemmd_dtype_from_name(gemmd_dtype_name((enum gemmd_dtype)i), &dtype));
        ck_assert_int_eq((int)dtype, i);
    }
    ck_assert_uint_eq(gemmd_dtype_size(GEMMD_DTYPE_COUNT), 0);
    ck_assert_str_eq(gemmd_dtype_name((enum gemmd_dtype) - 1), "?");
    ck_assert(!gemmd_dtype_from_name("f7", &dtype));
    ck_assert(!gemmd_dtype_from_name(NULL, &dtype));
    ck_assert_str_eq(gemmd_version(), GEMMD_VERSION);
}
END_TEST

/* Full jitter: within its bound, spread over it, and after what the daemon asked for. */
START_TEST(spreads_repeats_over_a_growing_time)
{
    uint64_t random = backoff_seed();
    for (uint32_t attempts = 1; attempts <= 40; attempts++) {
        uint64_t bound_us = UINT64_C(1000) * BACKOFF_CAP_MS, low = UINT64_MAX, high = 0;
        if (attempts < 8 && (UINT64_C(50000) << (attempts - 1)) < bound_us)
            bound_us = UINT64_C(50000) << (attempts - 1);
        for (int i = 0; i < 1000; i++) {
            uint64_t us = backoff_us(attempts, 2000, &random);
            ck_assert_uint_ge(us, 2000000);
            ck_assert_uint_le(us, 2000000 + bound_us);
            low = us < low ? us : low;
            high = us > high ? us : high;
        }
        ck_assert_uint_lt(low - 2000000, bound_us / 4);
        ck_assert_uint_gt(high - 2000000, bound_us - bound_us / 4);
    }
}
END_TEST

int main(void)
{
    unsetenv("GEMMD_URL");
    unsetenv("GEMMD_TOKEN");
    unsetenv("GEMMD_CA_FILE");
    unsetenv("GEMMD_CERT_FILE");
    unsetenv("GEMMD_KEY_FILE");
    Suite *suite = suite_create("client_options");
    TCase *tcase = tcase_create("client_options");
    tcase_add_loop_test(tcase, reads_urls, 0, sizeof right_urls / sizeof right_urls[0]);
    tcase_add_loop_test(tcase, refuses_other_urls, 0, sizeof wrong_urls / sizeof wrong_urls[0]);
    tcase_add_test(tcase, tells_how_an_ipv6_address_is_written);
    tcase_add_test(tcase, refuses_files_that_cannot_be_read);
    tcase_add_test(tcase, refuses_long_urls);
    tcase_add_test(tcase, refuses_tokens_that_would_break_the_header);
    tcase_add_test(tcase, takes_url_and_token_from_the_environment);
    tcase_add_test(tcase, takes_no_options_and_zeroed_ones);
    tcase_add_test(tcase, takes_structures_of_other_versions);
    tcase_add_test(tcase, takes_structures_without_a_traceparent);
    tcase_add_test(tcase, writes_no_further_than_the_caller_knows);
    tcase_add_test(tcase, keeps_the_values_of_enumerations);
    tcase_add_test(tcase, an_empty_url_is_the_default);
    tcase_add_test(tcase, knows_a_traceparent);
    tcase_add_test(tcase, writes_a_shape);
    tcase_add_test(tcase, what_is_no_tensor_has_no_etag);
    tcase_add_test(tcase, names_everything);
    tcase_add_test(tcase, spreads_repeats_over_a_growing_time);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
