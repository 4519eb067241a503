/* The safetensors codec: what it writes it reads, and every way a header can lie is refused. */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/safetensors.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { ROOM = 4 };

/* Decodes a copy of exactly `length` bytes, so that a sanitizer sees any read past the end.
 * Data pointers are rebased onto `bytes`. */
static enum gemmd_error decode(const void *bytes, uint64_t length,
                               struct safetensors_entry entries[ROOM], uint32_t *count,
                               struct fault *fault)
{
    unsigned char *exact = malloc(length > 0 ? length : 1);
    if (length > 0)
        memcpy(exact, bytes, length);
    *fault = (struct fault){.code = GEMMD_OK};
    enum gemmd_error code =
        safetensors_decode(length > 0 ? exact : NULL, length, entries, ROOM, count, fault);
    ck_assert_uint_eq(fault->code, code);
    ck_assert_msg(code == GEMMD_OK || fault->detail[0] != '\0', "a failure without a sentence");
    if (code == GEMMD_OK)
        for (uint32_t i = 0; i < *count; i++) {
            uint64_t offset = (uint64_t)((const unsigned char *)entries[i].tensor.data - exact);
            ck_assert_uint_le(offset + entries[i].tensor.bytes, length);
            entries[i].tensor.data = (const char *)bytes + offset;
        }
    free(exact);
    return code;
}

/* A file with the given header text and number of data bytes; returns its length. */
static uint64_t file(unsigned char *out, const char *header, uint64_t data_bytes)
{
    const uint64_t length = strlen(header);
    for (uint32_t i = 0; i < 8; i++)
        out[i] = (unsigned char)(length >> 8 * i);
    for (uint64_t i = 0; i < length; i++)
        out[8 + i] = (unsigned char)header[i];
    for (uint64_t i = 0; i < data_bytes; i++)
        out[8 + length + i] = (unsigned char)i;
    return 8 + length + data_bytes;
}

START_TEST(what_is_written_is_read)
{
    static unsigned char bytes[SAFETENSORS_HEADER_MAX + 4096];
    static const char *const names[ROOM] = {"a", "b \"quoted\\\"", "\xC3\xA9", "c"};
    const uint64_t dims[] = {3, 5, 2};
    struct safetensors_entry written[ROOM] = {0}, read[ROOM];
    struct fault fault;
    uint32_t count;
    uint64_t data = 0;
    for (uint32_t i = 0; i < ROOM; i++) {
        snprintf(written[i].name, sizeof written[i].name, "%s", names[i]);
        enum gemmd_dtype dtype = (enum gemmd_dtype)(((uint32_t)_i + i) % GEMMD_DTYPE_COUNT);
        ck_assert(tensor_init(&written[i].tensor, dtype, dims, i, NULL));
        data += written[i].tensor.bytes;
    }
    uint32_t header = safetensors_header(written, ROOM, (char *)bytes);
    ck_assert_uint_gt(header, 0);
    ck_assert_uint_eq(header % 64, 0);
    ck_assert_msg(decode(bytes, header + data, read, &count, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_uint_eq(count, ROOM);
    const unsigned char *at = bytes + header;
    for (uint32_t i = 0; i < ROOM; i++) {
        ck_assert_str_eq(read[i].name, names[i]);
        ck_assert_uint_eq(read[i].tensor.dtype, written[i].tensor.dtype);
        ck_assert_uint_eq(read[i].tensor.rank, i);
        ck_assert_mem_eq(read[i].tensor.dims, written[i].tensor.dims, i * sizeof dims[0]);
        ck_assert_ptr_eq(read[i].tensor.data, at);
        at += read[i].tensor.bytes;
    }
}
END_TEST

START_TEST(a_header_that_does_not_fit_is_not_written)
{
    struct safetensors_entry entries[64] = {0};
    char out[SAFETENSORS_HEADER_MAX];
    uint32_t header = 1, fitting = 0;
    for (uint32_t i = 0; i < COUNT(entries); i++) {
        memset(entries[i].name, 'x', SAFETENSORS_NAME_MAX - 1);
        entries[i].name[SAFETENSORS_NAME_MAX - 1] = '\0';
        ck_assert(tensor_init(&entries[i].tensor, GEMMD_I8, NULL, 0, NULL));
    }
    for (uint32_t count = 1; count <= COUNT(entries) && header > 0; count++) {
        header = safetensors_header(entries, count, out);
        ck_assert_uint_le(header, SAFETENSORS_HEADER_MAX);
        fitting += header > 0;
    }
    ck_assert_uint_eq(header, 0);
    ck_assert_uint_ge(fitting, 4);

    entries[0].tensor.bytes = entries[1].tensor.bytes = UINT64_MAX; /* nor offsets past 64 bits */
    ck_assert_uint_eq(safetensors_header(entries, 2, out), 0);
}
END_TEST

START_TEST(tensors_come_in_the_order_of_their_data)
{
    unsigned char bytes[512];
    struct safetensors_entry entries[ROOM];
    struct fault fault;
    uint32_t count;
    uint64_t length = file(bytes,
                           "{\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]},"
                           "\"__metadata__\":{\"format\":\"pt\"},"
                           "\"e\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]},"
                           "\"a\":{\"data_offsets\":[0,4],\"shape\":[2],\"dtype\":\"BF16\"}}   ",
                           12);
    ck_assert_msg(decode(bytes, length, entries, &count, &fault) == GEMMD_OK, "%s", fault.detail);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(entries[0].name, "a");
    ck_assert_str_eq(entries[1].name, "e");
    ck_assert_str_eq(entries[2].name, "b");
    ck_assert_uint_eq(entries[0].tensor.dtype, GEMMD_BF16);
    ck_assert_ptr_eq(entries[2].tensor.data, bytes + length - 8);
}
END_TEST

START_TEST(files_without_tensors)
{
    static const char *const headers[] = {"{}", "{\"__metadata__\":{}}", " {} "};
    for (size_t i = 0; i < COUNT(headers); i++) {
        unsigned char bytes[64];
        struct safetensors_entry entries[ROOM];
        struct fault fault;
        uint32_t count = 9;
        ck_assert_uint_eq(decode(bytes, file(bytes, headers[i], 0), entries, &count, &fault),
                          GEMMD_OK);
        ck_assert_uint_eq(count, 0);
    }
}
END_TEST

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Each stands before 16 bytes of data; {T("a", "F32", "[4]", "[0,16]")} would be right. */
static const struct {
    const char *header;
    enum gemmd_error code;
} lies[] = {
    /* not a JSON object */
    {"", GEMMD_ERR_MALFORMED},
    {"[]", GEMMD_ERR_MALFORMED},
    {"null", GEMMD_ERR_MALFORMED},
    {"{", GEMMD_ERR_MALFORMED},
    {"{} {}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[0,16]"), GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[0,16]") ",}", GEMMD_ERR_MALFORMED},
    {"{" T("a\xFF", "F32", "[4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a\\u0000", "F32", "[4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{'a':1}", GEMMD_ERR_MALFORMED},
    /* members that are missing or of the wrong kind */
    {"{\"a\":1}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{}}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,16]}}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "4", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "{}", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "16") "}", GEMMD_ERR_MALFORMED},
    {"{\"__metadata__\":{\"a\":1}," T("a", "F32", "[4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{\"__metadata__\":[]," T("a", "F32", "[4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    /* the same name twice */
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("a", "F32", "[2]", "[8,16]") "}", GEMMD_ERR_MALFORMED},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F64\",\"shape\":[4],\"data_offsets\":[0,16]}}",
     GEMMD_ERR_MALFORMED},
    /* shapes */
    {"{" T("a", "F32", "[4.0]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[\"4\"]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[-4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[-2,-2]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[5]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[3]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[0]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4,1,1,1,1,1,1,1,1]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4611686018427387905,4]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[9223372036854775808]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[18446744073709551620]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[1e1]", "[0,16]") "}", GEMMD_ERR_MALFORMED},
    /* places */
    {"{" T("a", "F32", "[4]", "[0]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[0,16,16]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[0,16.0]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[-16,0]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[16,0]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[1,17]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[5]", "[0,20]") "}", GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[4]", "[9223372036854775792,9223372036854775807]") "}",
     GEMMD_ERR_MALFORMED},
    {"{" T("a", "F32", "[3]", "[0,12]") "}", GEMMD_ERR_MALFORMED}, /* surplus at the end */
    {"{" T("a", "F32", "[3]", "[4,16]") "}", GEMMD_ERR_MALFORMED}, /* a hole in front */
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[2]", "[8,16]") "}",
     GEMMD_ERR_MALFORMED}, /* a hole between */
    {"{" T("a", "F32", "[3]", "[0,12]") "," T("b", "F32", "[2]", "[8,16]") "}",
     GEMMD_ERR_MALFORMED}, /* overlap */
    {"{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[4]", "[0,16]") "}",
     GEMMD_ERR_MALFORMED}, /* the same bytes twice */
    {"{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[0]", "[8,8]") "}",
     GEMMD_ERR_MALFORMED}, /* an empty one inside another */
    {"{}", GEMMD_ERR_MALFORMED},
    /* more tensors than there is room for, a name that is too long */
    {"{" T("a", "I8", "[4]", "[0,4]") "," T("b", "I8", "[4]", "[4,8]") "," T(
         "c", "I8", "[4]", "[8,12]") "," T("d", "I8", "[3]", "[12,15]") "," T("e", "I8", "[1]",
                                                                              "[15,16]") "}",
     GEMMD_ERR_MALFORMED},
    {"{" T("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "F32", "[4]",
           "[0,16]") "}",
     GEMMD_ERR_MALFORMED},
    /* types that are not offered */
    {"{" T("a", "I64", "[2]", "[0,16]") "}", GEMMD_ERR_UNSUPPORTED},
    {"{" T("a", "F8_E5M2", "[16]", "[0,16]") "}", GEMMD_ERR_UNSUPPORTED},
    {"{" T("a", "BOOL", "[16]", "[0,16]") "}", GEMMD_ERR_UNSUPPORTED},
    {"{" T("a", "f32", "[4]", "[0,16]") "}", GEMMD_ERR_UNSUPPORTED},
    {"{" T("a", "", "[4]", "[0,16]") "}", GEMMD_ERR_UNSUPPORTED},
};

START_TEST(lies_are_refused)
{
    unsigned char bytes[1024];
    struct safetensors_entry entries[ROOM];
    struct fault fault;
    uint32_t count;
    enum gemmd_error code =
        decode(bytes, file(bytes, lies[_i].header, 16), entries, &count, &fault);
    ck_assert_msg(code == lies[_i].code, "%s: %s (%s)", lies[_i].header, error_name(code),
                  fault.detail);
}
END_TEST

/* What all of them are lies about is taken. */
START_TEST(the_truth_is_taken)
{
    unsigned char bytes[256];
    struct safetensors_entry entries[ROOM];
    struct fault fault;
    uint32_t count;
    uint64_t length = file(bytes, "{" T("a", "F32", "[4]", "[0,16]") "}", 16);
    ck_assert_msg(decode(bytes, length, entries, &count, &fault) == GEMMD_OK, "%s", fault.detail);
}
END_TEST

START_TEST(lengths_that_lie)
{
    unsigned char bytes[256];
    const uint64_t length = file(bytes, "{" T("a", "F32", "[4]", "[0,16]") "}", 16);
    const uint64_t lengths[] = {0,
                                1,
                                length - 8 - 16 - 1,
                                length - 8 - 16 + 1,
                                length - 7,
                                SAFETENSORS_HEADER_LIMIT,
                                SAFETENSORS_HEADER_LIMIT + 1,
                                1ull << 32,
                                INT64_MAX,
                                UINT64_MAX - 7,
                                UINT64_MAX};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct safetensors_entry entries[ROOM];
        struct fault fault;
        uint32_t count;
        for (uint32_t byte = 0; byte < 8; byte++)
            bytes[byte] = (unsigned char)(lengths[i] >> 8 * byte);
        ck_assert_msg(decode(bytes, length, entries, &count, &fault) == GEMMD_ERR_MALFORMED,
                      "length %" PRIu64, lengths[i]);
    }
}
END_TEST

/* As deep as a header of the longest length can go; brackets in strings are no depth. */
START_TEST(deep_headers_are_refused)
{
    static unsigned char bytes[SAFETENSORS_HEADER_LIMIT + 16];
    static char header[SAFETENSORS_HEADER_LIMIT + 1];
    static const char *const openings[] = {"[", "{\"a\":", "{\"a\":[", "{\"__metadata__\":["};
    struct safetensors_entry entries[ROOM];
    struct fault fault;
    uint32_t count;
    for (size_t i = 0; i < COUNT(openings); i++) {
        const size_t step = strlen(openings[i]);
        size_t at = 0;
        for (; at + step < sizeof header; at += step)
            memcpy(header + at, openings[i], step);
        header[at] = '\0';
        ck_assert_uint_eq(decode(bytes, file(bytes, header, 0), entries, &count, &fault),
                          GEMMD_ERR_MALFORMED);
        ck_assert_ptr_nonnull(strstr(fault.detail, "deeper"));
    }
    ck_assert_msg(decode(bytes, file(bytes, "{\"__metadata__\":{\"\\\"[[[[\":\"]{{{{\\\\\"}}", 0),
                         entries, &count, &fault) == GEMMD_OK,
                  "%s", fault.detail);
}
END_TEST

START_TEST(truncated_at_every_byte)
{
    unsigned char bytes[256];
    const uint64_t length =
        file(bytes, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F16", "[2,2]", "[8,16]") "}", 16);
    for (uint64_t cut = 0; cut < length; cut++) {
        struct safetensors_entry entries[ROOM];
        struct fault fault;
        uint32_t count;
        ck_assert_msg(decode(bytes, cut, entries, &count, &fault) == GEMMD_ERR_MALFORMED,
                      "cut at %" PRIu64, cut);
    }
}
END_TEST

/* Any byte of the header changed to any other: an answer, and views inside the file (decode). */
START_TEST(every_byte_changed)
{
    unsigned char bytes[256];
    const uint64_t length = file(bytes, "{" T("a", "F32", "[2,2]", "[0,16]") "}", 16);
    for (uint64_t place = 0; place < length - 16; place++) {
        const unsigned char original = bytes[place];
        for (unsigned value = 0; value < 256; value++) {
            struct safetensors_entry entries[ROOM];
            struct fault fault;
            uint32_t count;
            bytes[place] = (unsigned char)value;
            decode(bytes, length, entries, &count, &fault);
        }
        bytes[place] = original;
    }
}
END_TEST

static uint32_t allocations_left; /* of failing_malloc */

static void *failing_malloc(size_t bytes)
{
    if (allocations_left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    allocations_left--;
    return malloc(bytes);
}

/* Memory that runs out at each allocation in turn is said to have run out, and nothing leaks. */
START_TEST(every_allocation_fails_once)
{
    unsigned char bytes[256];
    const uint64_t length =
        file(bytes, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F16", "[2,2]", "[8,16]") "}", 16);
    enum gemmd_error code = GEMMD_ERR_OUT_OF_MEMORY;
    uint32_t failures = 0;
    json_set_alloc_funcs(failing_malloc, free);
    for (; code != GEMMD_OK; failures++) {
        struct safetensors_entry entries[ROOM];
        struct fault fault;
        uint32_t count;
        allocations_left = failures;
        code = decode(bytes, length, entries, &count, &fault);
        ck_assert_msg(code == GEMMD_OK || code == GEMMD_ERR_OUT_OF_MEMORY, "%s: %s",
                      error_name(code), fault.detail);
    }
    ck_assert_uint_gt(failures, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("safetensors");
    tcase_add_loop_test(tests, what_is_written_is_read, 0, GEMMD_DTYPE_COUNT);
    tcase_add_test(tests, a_header_that_does_not_fit_is_not_written);
    tcase_add_test(tests, tensors_come_in_the_order_of_their_data);
    tcase_add_test(tests, files_without_tensors);
    tcase_add_loop_test(tests, lies_are_refused, 0, COUNT(lies));
    tcase_add_test(tests, the_truth_is_taken);
    tcase_add_test(tests, lengths_that_lie);
    tcase_add_test(tests, deep_headers_are_refused);
    tcase_add_test(tests, truncated_at_every_byte);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_test(tests, every_allocation_fails_once);
    Suite *suite = suite_create("safetensors");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
