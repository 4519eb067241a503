/* The .npy codec: what it writes it reads, what NumPy writes it reads, what lies it refuses. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/npy.h"

enum { UNTOUCHED = 0x5A }; /* a byte behind what is written */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Decodes a copy of exactly `length` bytes, so that a sanitizer sees any read past the end.
 * Data pointers are rebased onto `bytes`. */
static enum gemmd_error decode(const void *bytes, uint64_t length, enum gemmd_dtype carrier,
                               struct tensor *tensor, uint64_t *consumed, struct fault *fault)
{
    unsigned char *exact = malloc(length > 0 ? length : 1);
    if (length > 0)
        memcpy(exact, bytes, length);
    *fault = (struct fault){.code = GEMMD_OK};
    enum gemmd_error code =
        npy_decode(length > 0 ? exact : NULL, length, carrier, tensor, consumed, fault);
    ck_assert_uint_eq(fault->code, code);
    ck_assert_msg(code == GEMMD_OK || fault->detail[0] != '\0', "a failure without a sentence");
    ck_assert_uint_lt(strlen(fault->detail), sizeof fault->detail - 1); /* nothing was cut */
    if (code == GEMMD_OK)
        tensor->data = (const char *)bytes + ((const unsigned char *)tensor->data - exact);
    free(exact);
    return code;
}

/* A file of the given version, dict and number of data bytes; returns its length. */
static uint64_t file(unsigned char *out, int version, const char *dict, uint64_t data_bytes)
{
    const uint64_t front = version == 1 ? 10 : 12, length = strlen(dict);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (uint64_t i = 8; i < front; i++)
        out[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(out + front, dict, length);
    memset(out + front + length, 0x5A, data_bytes);
    return front + length + data_bytes;
}

START_TEST(what_is_written_is_read)
{
    const uint64_t dims[TENSOR_MAX_RANK] = {2, 3, 1, 4, 1, 2, 1, 1};
    const uint32_t rank = (uint32_t)_i;
    for (unsigned i = 0; i < 2 * GEMMD_DTYPE_COUNT; i++) {
        static unsigned char bytes[NPY_HEADER_MAX + 4096];
        struct tensor written, read;
        struct fault fault;
        uint64_t consumed;
        ck_assert(tensor_init(&written, (enum gemmd_dtype)(i / 2), dims, rank, NULL));
        written.fortran = i % 2 == 1;
        memset(bytes, UNTOUCHED, sizeof bytes);
        uint32_t header = npy_header(&written, (char *)bytes);
        ck_assert_uint_le(header, NPY_HEADER_MAX);
        ck_assert_uint_eq(header % 64, 0);
        ck_assert_uint_eq(bytes[header - 1], '\n');
        ck_assert_uint_eq(bytes[header], UNTOUCHED);
        ck_assert_uint_eq(
            decode(bytes, header + written.bytes, GEMMD_DTYPE_COUNT, &read, &consumed, &fault),
            GEMMD_OK);
        ck_assert_uint_eq(consumed, header + written.bytes);
        ck_assert_uint_eq(read.dtype, written.dtype);
        ck_assert_uint_eq(read.fortran, written.fortran);
        ck_assert_uint_eq(read.rank, rank);
        ck_assert_mem_eq(read.dims, written.dims, sizeof read.dims);
        ck_assert_ptr_eq(read.data, bytes + header);
        ck_assert_uint_eq(read.bytes, written.bytes);
    }
}
END_TEST

START_TEST(the_longest_header_fits)
{
    struct tensor tensor = {.dtype = GEMMD_F8_E4M3, .rank = TENSOR_MAX_RANK};
    char header[NPY_HEADER_MAX + 1];
    for (uint32_t i = 0; i < TENSOR_MAX_RANK; i++)
        tensor.dims[i] = UINT64_MAX;
    header[NPY_HEADER_MAX] = UNTOUCHED;
    ck_assert_uint_eq(npy_header(&tensor, header), NPY_HEADER_MAX);
    ck_assert_int_eq(header[NPY_HEADER_MAX - 1], '\n');
    ck_assert_int_eq(header[NPY_HEADER_MAX], UNTOUCHED);
}
END_TEST

/* A key or a type that is longer than every right one is refused, and not a byte of it is kept
 * beyond the buffer, which AddressSanitizer would see. For _i: a key, and a type. */
START_TEST(long_strings_are_refused)
{
    enum { LONGEST = 15, TOO_LONG = 40 };
    for (size_t length = 1; length <= TOO_LONG; length++) {
        char text[TOO_LONG + 1] = "<", dict[128];
        unsigned char bytes[256];
        struct tensor tensor;
        struct fault fault;
        uint64_t consumed;
        memset(text + 1, 'x', length - 1);
        text[length] = '\0';
        if (_i == 0)
            snprintf(dict, sizeof dict, "{'%s': 1}", text);
        else
            snprintf(dict, sizeof dict, "{'fortran_order': False, 'shape': (1,), 'descr': '%s'}",
                     text);
        const enum gemmd_error code =
            decode(bytes, file(bytes, 1, dict, 0), GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault);
        const bool is_type = _i == 1 && length > 1 && length <= LONGEST; /* not a known one */
        ck_assert_msg(code == (is_type ? GEMMD_ERR_UNSUPPORTED : GEMMD_ERR_MALFORMED), "%s: %s",
                      dict, error_name(code));
    }
}
END_TEST

/* np.save(np.ones((2, 3), 'f4')), as NumPy 1.24 writes it. */
START_TEST(numpys_own_file_is_read)
{
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
                               "                                                          \n";
    unsigned char bytes[256];
    struct tensor tensor;
    struct fault fault;
    uint64_t consumed, length = file(bytes, 1, dict, 24);
    ck_assert_uint_eq(length, 128 + 24);
    ck_assert_uint_eq(decode(bytes, length, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(tensor.dtype, GEMMD_F32);
    ck_assert_uint_eq(tensor.rank, 2);
    ck_assert_uint_eq(tensor.dims[0], 2);
    ck_assert_uint_eq(tensor.dims[1], 3);
    ck_assert_uint_eq(consumed, length);
    /* What follows belongs to the next array. */
    ck_assert_uint_eq(decode(bytes, length - 1, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "24 bytes, there are 23"));
    bytes[length] = '!';
    ck_assert_uint_eq(decode(bytes, length + 1, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(consumed, length);
}
END_TEST

/* Other spellings of a 2 x 3 array of <f4. */
static const char *const spellings[] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
    "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
    "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
    "{'shape': (2, 3,), 'fortran_order': False, 'descr': '<f4'}   \n",
    " { 'fortran_order' :\tFalse , 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , } \r\n\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (02, 3)}",
};

START_TEST(spellings_and_versions)
{
    for (int version = 1; version <= 3; version++) {
        unsigned char bytes[256];
        struct tensor tensor;
        struct fault fault;
        uint64_t consumed, length = file(bytes, version, spellings[_i], 24);
        ck_assert_msg(decode(bytes, length, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault) ==
                          GEMMD_OK,
                      "version %d, %s: %s", version, spellings[_i], fault.detail);
        ck_assert_uint_eq(tensor.rank, 2);
        ck_assert_uint_eq(tensor.dims[0], 2);
        ck_assert_uint_eq(tensor.dims[1], 3);
        ck_assert_uint_eq(tensor.dtype, GEMMD_F32);
        ck_assert(!tensor.fortran);
    }
}
END_TEST

static const struct {
    const char *descr;
    enum gemmd_dtype carrier;
    enum gemmd_error code;
    enum gemmd_dtype dtype;
} descrs[] = {
    {"<f8", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_F64},
    {"<f2", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_F16},
    {"|i1", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_I8},
    {"<i1", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_I8},
    {"<i4", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_I32},
    {"<V2", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_BF16},
    {"|V2", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_BF16},
    {"|V2", GEMMD_BF16, GEMMD_OK, GEMMD_BF16},
    {"<u2", GEMMD_BF16, GEMMD_OK, GEMMD_BF16},
    {"|V1", GEMMD_DTYPE_COUNT, GEMMD_OK, GEMMD_F8_E4M3},
    {"<V1", GEMMD_F8_E4M3, GEMMD_OK, GEMMD_F8_E4M3},
    {"|u1", GEMMD_F8_E4M3, GEMMD_OK, GEMMD_F8_E4M3},
    /* not offered */
    {"<u2", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<u2", GEMMD_F16, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"|u1", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"|u1", GEMMD_I8, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {">f4", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {">V2", GEMMD_BF16, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {">u2", GEMMD_BF16, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"|f4", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"=f4", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<f16", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<f", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<i8", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<c8", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"|O", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"|S4", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    {"<M8[ns]", GEMMD_DTYPE_COUNT, GEMMD_ERR_UNSUPPORTED, GEMMD_DTYPE_COUNT},
    /* no types at all */
    {"", GEMMD_DTYPE_COUNT, GEMMD_ERR_MALFORMED, GEMMD_DTYPE_COUNT},
    {"<", GEMMD_DTYPE_COUNT, GEMMD_ERR_MALFORMED, GEMMD_DTYPE_COUNT},
    {"f4", GEMMD_DTYPE_COUNT, GEMMD_ERR_MALFORMED, GEMMD_DTYPE_COUNT},
    {"float32", GEMMD_DTYPE_COUNT, GEMMD_ERR_MALFORMED, GEMMD_DTYPE_COUNT},
    {"<f4xxxxxxxxxxxxxxxxxxxxxxx", GEMMD_DTYPE_COUNT, GEMMD_ERR_MALFORMED, GEMMD_DTYPE_COUNT},
};

START_TEST(types)
{
    unsigned char bytes[256];
    char dict[128];
    struct tensor tensor = {.dtype = GEMMD_DTYPE_COUNT};
    struct fault fault;
    uint64_t consumed;
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }",
             descrs[_i].descr);
    uint64_t length = file(bytes, 1, dict, 16);
    enum gemmd_error code = decode(bytes, length, descrs[_i].carrier, &tensor, &consumed, &fault);
    ck_assert_msg(code == descrs[_i].code, "'%s': %s (%s)", descrs[_i].descr, error_name(code),
                  fault.detail);
    ck_assert_uint_eq(tensor.dtype, descrs[_i].dtype);
}
END_TEST

/* Headers that are no dict of the three keys. */
static const char *const lies[] = {
    "",
    "{}",
    "{",
    "}",
    "None",
    "[]",
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '<f4', 'shape': (1,)}",
    "{'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,),,}",
    "{,'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
    "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'fortran_order': True, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': 'False', 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (+1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os'),)}",
    "{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (1,)}",
    "{'descr': None, 'fortran_order': False, 'shape': (1,)}",
    "{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4\", 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<\xC3\xA9', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\x01",
    "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
    "{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{",
};

START_TEST(lies_are_malformed)
{
    unsigned char bytes[512];
    struct tensor tensor;
    struct fault fault;
    uint64_t consumed;
    for (int version = 1; version <= 3; version++) {
        uint64_t length = file(bytes, version, lies[_i], 64);
        enum gemmd_error code =
            decode(bytes, length, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault);
        ck_assert_msg(code == GEMMD_ERR_MALFORMED, "%s: %s", lies[_i], error_name(code));
    }
}
END_TEST

START_TEST(structured_types_are_not_offered)
{
    static const char *const dicts[] = {
        "{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,)}"};
    for (size_t i = 0; i < COUNT(dicts); i++) {
        unsigned char bytes[256];
        struct tensor tensor;
        struct fault fault;
        uint64_t consumed, length = file(bytes, 1, dicts[i], 8);
        ck_assert_uint_eq(decode(bytes, length, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
                          GEMMD_ERR_UNSUPPORTED);
    }
}
END_TEST

START_TEST(fronts_that_are_none)
{
    static const struct {
        const char *bytes;
        uint64_t length;
    } fronts[] = {
        {"", 0},
        {"PK\x03\x04", 4}, /* an .npz */
        {"\x93NUMPZ\x01\x00\x00\x00", 10},
        {"\x93NUMPY\x00\x00\x00\x00", 10},
        {"\x93NUMPY\x04\x00\x00\x00\x00\x00", 12},
        {"\x93NUMPY\x01\x01\x00\x00", 10},
        {"\x93NUMPY\x01\x00\xFF\xFF", 10},
        {"\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12}, /* 4 GiB of header */
        {"\x93NUMPY\x03\x00\x01\x00\x01\x00", 12}, /* one byte over the limit */
    };
    for (size_t i = 0; i < COUNT(fronts); i++) {
        struct tensor tensor;
        struct fault fault;
        uint64_t consumed;
        ck_assert_msg(decode(fronts[i].bytes, fronts[i].length, GEMMD_DTYPE_COUNT, &tensor,
                             &consumed, &fault) == GEMMD_ERR_MALFORMED,
                      "front %zu", i);
    }
}
END_TEST

/* However little of a file is there, it is refused; a reader of its front is told to go on, and
 * gets the header as soon as it is whole. */
START_TEST(truncated_at_every_byte)
{
    unsigned char bytes[256];
    const uint64_t data = 24, length = file(bytes, _i, spellings[0], data);
    for (uint64_t cut = 0; cut < length; cut++) {
        struct tensor tensor;
        struct fault fault;
        uint64_t consumed, header = 0;
        ck_assert_uint_eq(decode(bytes, cut, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
                          GEMMD_ERR_MALFORMED);
        unsigned char *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        enum gemmd_error code =
            npy_decode_header(exact, cut, GEMMD_DTYPE_COUNT, &tensor, &header, &fault);
        free(exact);
        if (cut < length - data) {
            ck_assert_uint_eq(code, GEMMD_ERR_CONFLICT);
            ck_assert_uint_gt(header, cut);
            ck_assert_uint_le(header, length - data);
        } else {
            ck_assert_uint_eq(code, GEMMD_OK);
            ck_assert_uint_eq(header, length - data);
            ck_assert_ptr_null(tensor.data);
            ck_assert_uint_eq(tensor.bytes, data);
        }
    }
}
END_TEST

/* Any byte changed to any other: an answer, and no claim on bytes that are not there. */
START_TEST(every_byte_changed)
{
    unsigned char bytes[256];
    const uint64_t length = file(bytes, 1, spellings[0], 24);
    for (uint64_t place = 0; place < length - 24; place++) {
        const unsigned char original = bytes[place];
        for (unsigned value = 0; value < 256; value++) {
            struct tensor tensor;
            struct fault fault;
            uint64_t consumed;
            bytes[place] = (unsigned char)value;
            if (decode(bytes, length, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault) == GEMMD_OK) {
                ck_assert_uint_le(consumed, length);
                ck_assert_uint_le(tensor.bytes, consumed);
            }
        }
        bytes[place] = original;
    }
}
END_TEST

START_TEST(a_fault_is_optional)
{
    struct tensor tensor;
    uint64_t consumed;
    ck_assert_uint_eq(npy_decode("\x93NU", 3, GEMMD_DTYPE_COUNT, &tensor, &consumed, NULL),
                      GEMMD_ERR_MALFORMED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("npy");
    tcase_add_loop_test(tests, what_is_written_is_read, 0, TENSOR_MAX_RANK + 1);
    tcase_add_test(tests, the_longest_header_fits);
    tcase_add_loop_test(tests, long_strings_are_refused, 0, 2);
    tcase_add_test(tests, numpys_own_file_is_read);
    tcase_add_loop_test(tests, spellings_and_versions, 0, COUNT(spellings));
    tcase_add_loop_test(tests, types, 0, COUNT(descrs));
    tcase_add_loop_test(tests, lies_are_malformed, 0, COUNT(lies));
    tcase_add_test(tests, structured_types_are_not_offered);
    tcase_add_test(tests, fronts_that_are_none);
    tcase_add_loop_test(tests, truncated_at_every_byte, 1, 4);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_test(tests, a_fault_is_optional);
    Suite *suite = suite_create("npy");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
