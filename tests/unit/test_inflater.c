/* Compressed bodies: whole again in any pieces, or refused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "failing_calls.h"
#include "server/http/inflater.h"

enum { PLAIN_BYTES = 100000, PACKED_BYTES = 4 << 20, RATIO = 100 };

static unsigned char plain[PLAIN_BYTES], packed[PACKED_BYTES];

struct taken {
    unsigned char *bytes; /* NULL: only counted */
    uint64_t length, room;
};

static bool take(void *context, const void *bytes, uint64_t length)
{
    struct taken *taken = context;
    if (length > taken->room - taken->length)
        return false;
    if (taken->bytes != NULL)
        memcpy(taken->bytes + taken->length, bytes, length);
    taken->length += length;
    return true;
}

static void fill(void)
{
    for (uint32_t i = 0; i < PLAIN_BYTES; i++)
        plain[i] = (unsigned char)(i * i >> 7);
}

/* Appends a member of `length` bytes, zeros if `bytes` is NULL, at packed + at; returns the end. */
static uint64_t pack(enum coding coding, const unsigned char *bytes, uint64_t length, uint64_t at)
{
    static unsigned char zeros[1 << 16];
    z_stream stream = {.next_out = packed + at, .avail_out = (uInt)(PACKED_BYTES - at)};
    ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED,
                                  MAX_WBITS + (coding == CODING_GZIP ? 16 : 0), 8,
                                  Z_DEFAULT_STRATEGY),
                     Z_OK);
    while (length > 0) {
        const uint64_t piece = length < sizeof zeros ? length : sizeof zeros;
        stream.next_in = zeros;
        if (bytes != NULL) {
            stream.next_in = (Bytef *)(uintptr_t)bytes;
            bytes += piece;
        }
        stream.avail_in = (uInt)piece;
        ck_assert_int_eq(deflate(&stream, Z_NO_FLUSH), Z_OK);
        length -= piece;
    }
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const uint64_t end = at + stream.total_out;
    deflateEnd(&stream);
    return end;
}

/* In pieces of `step` bytes, then the end. */
static enum gemmd_error unpack(enum coding coding, uint64_t bytes, uint64_t step, uint32_t ratio,
                               struct taken *taken, struct fault *fault)
{
    struct inflater *inflater = inflater_create(coding, ratio);
    enum gemmd_error code = GEMMD_OK;
    ck_assert_ptr_nonnull(inflater);
    fault->code = GEMMD_OK;
    for (uint64_t at = 0; at < bytes && code == GEMMD_OK; at += step)
        code = inflater_add(inflater, packed + at, bytes - at < step ? bytes - at : step, take,
                            taken, fault);
    if (code == GEMMD_OK)
        code = inflater_end(inflater, fault);
    inflater_destroy(inflater);
    return code;
}

static const struct {
    enum coding coding;
    uint64_t step;
} ways[] = {
    {CODING_GZIP, 1},    {CODING_GZIP, 7},    {CODING_GZIP, PACKED_BYTES},
    {CODING_DEFLATE, 1}, {CODING_DEFLATE, 7}, {CODING_DEFLATE, PACKED_BYTES},
};

START_TEST(any_pieces_make_the_whole)
{
    static unsigned char again[PLAIN_BYTES];
    struct taken taken = {again, 0, sizeof again};
    struct fault fault;
    fill();
    const uint64_t bytes = pack(ways[_i].coding, plain, PLAIN_BYTES, 0);
    ck_assert_int_eq(unpack(ways[_i].coding, bytes, ways[_i].step, RATIO, &taken, &fault),
                     GEMMD_OK);
    ck_assert_uint_eq(taken.length, PLAIN_BYTES);
    ck_assert_mem_eq(again, plain, PLAIN_BYTES);
}
END_TEST

START_TEST(every_beginning_is_refused)
{
    struct fault fault;
    fill();
    const uint64_t bytes = pack(ways[_i].coding, plain, 300, 0);
    for (uint64_t end = 1; end < bytes; end++) {
        struct taken taken = {NULL, 0, PLAIN_BYTES};
        ck_assert_int_eq(unpack(ways[_i].coding, end, ways[_i].step, RATIO, &taken, &fault),
                         GEMMD_ERR_MALFORMED);
        ck_assert_ptr_nonnull(strstr(fault.detail, "ends in the middle"));
    }
}
END_TEST

/* Each byte of the stream changed: refused, or (a name or time in gzip's header) without effect. */
START_TEST(what_is_damaged_is_not_taken)
{
    static unsigned char again[300];
    struct fault fault;
    uint32_t refused = 0;
    fill();
    const uint64_t bytes = pack(ways[_i].coding, plain, sizeof again, 0);
    for (uint64_t at = 0; at < bytes; at++) {
        struct taken taken = {again, 0, sizeof again};
        packed[at] ^= 0xFF;
        if (unpack(ways[_i].coding, bytes, ways[_i].step, RATIO, &taken, &fault) == GEMMD_OK)
            ck_assert_mem_eq(again, plain, sizeof again);
        else
            refused++;
        packed[at] ^= 0xFF;
    }
    ck_assert_uint_ge(refused, bytes - 7);
}
END_TEST

START_TEST(gzip_has_members_and_deflate_has_not)
{
    static unsigned char again[200];
    struct fault fault;
    fill();
    for (uint64_t step = 1; step < 100; step += 9) {
        struct taken taken = {again, 0, sizeof again};
        uint64_t bytes = pack(CODING_GZIP, plain, 100, 0);
        bytes = pack(CODING_GZIP, plain, 0, bytes);
        bytes = pack(CODING_GZIP, plain + 100, 100, bytes);
        ck_assert_int_eq(unpack(CODING_GZIP, bytes, step, RATIO, &taken, &fault), GEMMD_OK);
        ck_assert_uint_eq(taken.length, 200);
        ck_assert_mem_eq(again, plain, 200);

        taken.length = 0;
        bytes = pack(CODING_DEFLATE, plain, 100, 0);
        packed[bytes] = 'x';
        ck_assert_int_eq(unpack(CODING_DEFLATE, bytes + 1, step, RATIO, &taken, &fault),
                         GEMMD_ERR_MALFORMED);
        ck_assert_ptr_nonnull(strstr(fault.detail, "goes on after the end"));
    }
}
END_TEST

/* Zeros become about a thousandth. */
START_TEST(the_ratio_is_of_both_lengths)
{
    struct taken taken = {NULL, 0, UINT64_MAX};
    struct fault fault;
    const uint64_t bytes = pack(CODING_GZIP, NULL, 4 * INFLATER_FREE_BYTES, 0);
    const uint32_t ratio = (uint32_t)(4 * INFLATER_FREE_BYTES / bytes);
    ck_assert_uint_gt(ratio, 500);
    ck_assert_int_eq(unpack(CODING_GZIP, bytes, PACKED_BYTES, 2 * ratio, &taken, &fault), GEMMD_OK);
    ck_assert_uint_eq(taken.length, 4 * INFLATER_FREE_BYTES);
    taken.length = 0;
    ck_assert_int_eq(unpack(CODING_GZIP, bytes, PACKED_BYTES, ratio / 2, &taken, &fault),
                     GEMMD_ERR_TOO_LARGE);
    taken.length = 0;
    ck_assert_int_eq(unpack(CODING_GZIP, bytes, PACKED_BYTES, 0, &taken, &fault), GEMMD_OK);
}
END_TEST

/* 1 MiB may come of anything; then the ratio holds, after few bytes more. */
START_TEST(bombs_are_refused_early)
{
    struct taken taken = {NULL, 0, UINT64_MAX};
    struct fault fault;
    const uint64_t small = pack(CODING_GZIP, NULL, INFLATER_FREE_BYTES, 0);
    ck_assert_int_eq(unpack(CODING_GZIP, small, PACKED_BYTES, RATIO, &taken, &fault), GEMMD_OK);
    ck_assert_uint_eq(taken.length, INFLATER_FREE_BYTES);

    taken.length = 0;
    const uint64_t large = pack(CODING_GZIP, NULL, 20 << 20, 0);
    ck_assert_uint_lt(large, PACKED_BYTES);
    ck_assert_int_eq(unpack(CODING_GZIP, large, PACKED_BYTES, RATIO, &taken, &fault),
                     GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the limit is 100 times"));
    ck_assert_uint_le(taken.length, INFLATER_FREE_BYTES + (64 << 10));

    taken.length = 0;
    ck_assert_int_eq(unpack(CODING_GZIP, large, PACKED_BYTES, 0, &taken, &fault), GEMMD_OK);
    ck_assert_uint_eq(taken.length, 20 << 20);
}
END_TEST

/* Blocks and members without contents, and a name in the header that does not end. */
START_TEST(a_body_may_grow_a_little)
{
    static const struct {
        enum coding coding;
        const char *begin, *repeat;
        uint64_t begin_bytes, repeat_bytes;
    } endless[] = {
        {CODING_DEFLATE, "\x78\x9c", "\0\0\0\xff\xff", 2, 5},
        {CODING_GZIP, "", "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 0, 20},
        {CODING_GZIP, "\x1f\x8b\x08\x08\0\0\0\0\0\x03", "name", 10, 4},
    };
    struct taken taken = {NULL, 0, UINT64_MAX};
    struct fault fault;
    uint64_t bytes = endless[_i].begin_bytes;
    memcpy(packed, endless[_i].begin, bytes);
    for (; bytes + endless[_i].repeat_bytes <= PACKED_BYTES; bytes += endless[_i].repeat_bytes)
        memcpy(packed + bytes, endless[_i].repeat, endless[_i].repeat_bytes);
    struct inflater *inflater = inflater_create(endless[_i].coding, RATIO);
    ck_assert_ptr_nonnull(inflater);
    uint64_t at = 0;
    while (at < bytes && inflater_add(inflater, packed + at, 1, take, &taken, &fault) == GEMMD_OK)
        at++;
    inflater_destroy(inflater);
    ck_assert_uint_eq(at, INFLATER_FREE_BYTES);
    ck_assert_int_eq(fault.code, GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "become only 0"));
}
END_TEST

START_TEST(the_longest_body_does_not_overflow)
{
    ck_assert_uint_eq(inflater_longest_bytes(0), INFLATER_FREE_BYTES);
    ck_assert_uint_eq(inflater_longest_bytes(100), 200 + INFLATER_FREE_BYTES);
    ck_assert_uint_eq(inflater_longest_bytes(UINT64_MAX / 2 + 1), UINT64_MAX);
    ck_assert_uint_ge(inflater_longest_bytes(UINT64_MAX / 2), UINT64_MAX - 1);
}
END_TEST

START_TEST(a_full_sink_ends_it)
{
    struct taken taken = {NULL, 0, 50000};
    struct fault fault;
    fill();
    const uint64_t bytes = pack(CODING_GZIP, plain, PLAIN_BYTES, 0);
    ck_assert_int_eq(unpack(CODING_GZIP, bytes, PACKED_BYTES, RATIO, &taken, &fault),
                     GEMMD_ERR_CANCELLED);
    ck_assert_int_eq(fault.code, GEMMD_OK);
    ck_assert_uint_le(taken.length, 50000);
}
END_TEST

START_TEST(without_memory_there_is_none)
{
    for (long number = 1;; number++) {
        const long live = calls_live_blocks();
        calls_fail(number);
        struct inflater *inflater = inflater_create(CODING_GZIP, RATIO);
        if (!calls_end()) {
            ck_assert_ptr_nonnull(inflater);
            inflater_destroy(inflater);
            break;
        }
        ck_assert_ptr_null(inflater);
        ck_assert_int_eq(calls_live_blocks(), live);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inflater");
    TCase *tcase = tcase_create("inflater");
    const int count = (int)(sizeof ways / sizeof *ways);
    tcase_add_loop_test(tcase, any_pieces_make_the_whole, 0, count);
    tcase_add_loop_test(tcase, every_beginning_is_refused, 0, count);
    tcase_add_loop_test(tcase, what_is_damaged_is_not_taken, 0, count);
    tcase_add_test(tcase, gzip_has_members_and_deflate_has_not);
    tcase_add_test(tcase, the_ratio_is_of_both_lengths);
    tcase_add_test(tcase, bombs_are_refused_early);
    tcase_add_loop_test(tcase, a_body_may_grow_a_little, 0, 3);
    tcase_add_test(tcase, the_longest_body_does_not_overflow);
    tcase_add_test(tcase, a_full_sink_ends_it);
    tcase_add_test(tcase, without_memory_there_is_none);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
