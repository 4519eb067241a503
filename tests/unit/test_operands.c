/* Where a raw body holds an operation's operands. */
#include <check.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"

/* A product of 2x3 by 3x5 in f16 with a bias and C0 in f32. */
static struct gemm_request product(void)
{
    struct gemm_request request;
    gemm_request_init(&request);
    request.m = 2;
    request.n = 5;
    request.k = 3;
    request.dtype = GEMMD_F16;
    request.out = GEMMD_F32;
    request.bias = true;
    request.beta = 1;
    return request;
}

START_TEST(operands_follow_each_other)
{
    static const uint64_t offsets[] = {0, 12, 42, 62};
    static const char body[102];
    const struct gemm_request request = product();
    struct operand_layout layout;
    struct tensor tensors[OPERAND_TABLE_MAX];
    ck_assert(gemm_request_layout(&request, &layout));
    ck_assert_uint_eq(layout.count, 6);
    ck_assert_uint_eq(layout.in_body, 15); /* there are no scales */
    ck_assert_uint_eq(layout.bytes, sizeof body);
    ck_assert_uint_eq(operand_layout_bind(&layout, &gemm_operand_table, &request, body, sizeof body,
                                          tensors, NULL),
                      GEMMD_OK);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(layout.offsets[i], offsets[i]);
        ck_assert_ptr_eq(tensors[i].data, body + offsets[i]);
    }
    ck_assert_uint_eq(tensors[0].dtype, GEMMD_F16);
    ck_assert_uint_eq(tensors[2].rank, 1);
    ck_assert_uint_eq(tensors[3].dtype, GEMMD_F32);
}
END_TEST

START_TEST(what_is_elsewhere_takes_no_room)
{
    static const char body[72];
    const struct gemm_request request = product();
    struct operand_layout layout;
    struct tensor tensors[OPERAND_TABLE_MAX];
    ck_assert(gemm_request_layout(&request, &layout));
    operand_layout_leave_out(&layout, 1);
    ck_assert_uint_eq(layout.bytes, sizeof body);
    ck_assert_uint_eq(layout.offsets[2], 12);
    ck_assert_uint_eq(operand_layout_bind(&layout, &gemm_operand_table, &request, body, sizeof body,
                                          tensors, NULL),
                      GEMMD_OK);
    ck_assert_ptr_null(tensors[1].data);
    ck_assert_uint_eq(tensors[1].bytes, 30);
    ck_assert_ptr_eq(tensors[3].data, body + 32);
}
END_TEST

START_TEST(resident_operands_are_not_there)
{
    struct gemm_request request = product();
    struct operand_layout layout;
    strcpy(request.a, "A");
    request.bias = false;
    ck_assert(gemm_request_layout(&request, &layout));
    ck_assert(!operand_is_there(&layout.tensors[0]));
    ck_assert(!operand_is_there(&layout.tensors[2]));
    ck_assert_uint_eq(layout.offsets[1], 0);
    ck_assert_uint_eq(layout.bytes, 30 + 40);
}
END_TEST

START_TEST(lengths_are_told_apart)
{
    const struct gemm_request request = product();
    struct operand_layout layout;
    struct fault fault;
    ck_assert(gemm_request_layout(&request, &layout));
    ck_assert_uint_eq(operand_layout_check(&layout, &gemm_operand_table, &request, 101, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail,
                     "the body is 101 bytes; m=2 n=5 k=3 batch=1 in f16 with bias and "
                     "C0 take 102");
}
END_TEST

START_TEST(only_operands_of_the_body_are_missing)
{
    enum { WITHOUT_B = 72, BIAS = 20, B = 30 };
    const struct gemm_request request = product();
    struct operand_layout layout;
    struct fault fault;
    ck_assert(gemm_request_layout(&request, &layout));
    operand_layout_leave_out(&layout, 1);
    ck_assert_uint_eq(
        operand_layout_check(&layout, &gemm_operand_table, &request, WITHOUT_B - BIAS, &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "; is bias missing?"));
    ck_assert_uint_eq(
        operand_layout_check(&layout, &gemm_operand_table, &request, WITHOUT_B - B, &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_ptr_null(strstr(fault.detail, "missing"));
}
END_TEST

/* A guess that does not fit in the text any more is left out, and not cut. */
START_TEST(guesses_that_do_not_fit_are_left_out)
{
    struct operand_guess guess = {.text = ""};
    char longest[2 * sizeof guess.text], last[sizeof guess.text];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    operand_guess_add(&guess, "%s", longest);
    ck_assert_str_eq(guess.text, "");
    operand_guess_add(&guess, "is it this");
    operand_guess_add(&guess, "is it that");
    ck_assert_str_eq(guess.text, "is it this, or is it that");
    for (int i = 0; i < 64; i++) {
        memcpy(last, guess.text, sizeof last);
        operand_guess_add(&guess, "is it number %d", i);
    }
    ck_assert_str_eq(guess.text, last);
    ck_assert_uint_lt(strlen(guess.text), sizeof guess.text);
}
END_TEST

START_TEST(attention_begins_with_the_lengths)
{
    struct attention_request request;
    struct operand_layout layout;
    attention_request_init(&request);
    request.batch = 2;
    request.heads = request.kv_heads = 1;
    request.sq = request.skv = 4;
    request.d = request.dv = 8;
    request.lens = ATTENTION_LENS_PADDED;
    ck_assert(attention_request_layout(&request, &layout));
    ck_assert_uint_eq(layout.count, 8);
    ck_assert_uint_eq(layout.offsets[1], 8);
    ck_assert_uint_eq(layout.offsets[4], 16);
    ck_assert_uint_eq(layout.offsets[5], 16 + 128);
    ck_assert_uint_eq(layout.bytes, 16 + 3 * 128);
    request.lens = ATTENTION_LENS_RAGGED; /* two entries with the rows of one */
    request.alibi = request.sinks = true; /* of one head */
    ck_assert(attention_request_layout(&request, &layout));
    ck_assert_uint_eq(layout.offsets[1], 12);
    ck_assert_uint_eq(layout.offsets[2], 24);
    ck_assert_uint_eq(layout.offsets[3], 28);
    ck_assert_uint_eq(layout.offsets[4], 32);
    ck_assert_uint_eq(layout.offsets[5], 32 + 64);
    ck_assert_uint_eq(layout.bytes, 32 + 3 * 64);
}
END_TEST

/* What a client may have meant is asked: a type, or lengths of the batch's entries that are missing
 * or not announced. */
START_TEST(attention_guesses_what_was_meant)
{
    static const struct {
        uint64_t bytes;
        bool lens, resident; /* resident: K and V; of the last case V alone */
        const char *says;    /* NULL: nothing */
    } cases[] = {
        {3 * 128, true, false, "are the lengths missing"},
        {16 + 3 * 128, false, false, "is lens=1 missing"},
        {3 * 64, false, false, "are the operands f16 or bf16 (dtype)"},
        {3 * 128 + 1, false, false, NULL},
        {64, false, true, NULL}, /* the type is that of the resident K and V */
        {16 + 128, false, true, "is lens=1 missing"},
        {129, false, true, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_request request;
        struct operand_layout layout;
        struct fault fault;
        attention_request_init(&request);
        request.batch = 2;
        request.heads = request.kv_heads = 1;
        request.sq = request.skv = 4;
        request.d = request.dv = 4;
        request.dtype = GEMMD_F32;
        request.lens = cases[i].lens ? ATTENTION_LENS_PADDED : ATTENTION_LENS_NONE;
        const bool last = i + 1 == sizeof cases / sizeof cases[0];
        if (cases[i].resident)
            request.v[0] = 't';
        if (cases[i].resident && !last)
            request.k[0] = 't';
        ck_assert_uint_eq(operand_layout_settle(&layout, &attention_operand_table, &request,
                                                cases[i].resident ? last ? 64u : 32u | 64u : 0,
                                                &fault),
                          GEMMD_OK);
        ck_assert_uint_eq(operand_layout_check(&layout, &attention_operand_table, &request,
                                               cases[i].bytes, &fault),
                          GEMMD_ERR_MALFORMED);
        ck_assert_msg(cases[i].says == NULL ? strchr(fault.detail, '?') == NULL
                                            : strstr(fault.detail, cases[i].says) != NULL,
                      "case %zu: %s", i, fault.detail);
    }
}
END_TEST

/* A type that would make the operands too large is not asked for. */
START_TEST(guesses_do_not_overflow)
{
    struct gemm_request request;
    struct attention_request attention;
    struct operand_layout layout;
    struct fault fault;
    gemm_request_init(&request);
    request.m = request.n = request.k = GEMM_DIM_MAX;
    request.dtype = GEMMD_I8;
    request.out = GEMMD_I32;
    ck_assert_uint_eq(operand_layout_settle(&layout, &gemm_operand_table, &request, 0, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(operand_layout_check(&layout, &gemm_operand_table, &request, 1, &fault),
                      GEMMD_ERR_MALFORMED);
    request.m = request.n = request.k = 1;
    ck_assert_uint_eq(operand_layout_settle(&layout, &gemm_operand_table, &request, 0, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(
        operand_layout_check(&layout, &gemm_operand_table, &request, UINT64_MAX, &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_ptr_null(strstr(fault.detail, "is batch="));
    attention_request_init(&attention);
    attention.batch = 1u << 30;
    attention.heads = attention.kv_heads = 1u << 30;
    attention.sq = attention.skv = 1;
    attention.d = attention.dv = 3;
    attention.dtype = GEMMD_F8_E4M3;
    ck_assert_uint_eq(
        operand_layout_settle(&layout, &attention_operand_table, &attention, 0, &fault), GEMMD_OK);
    ck_assert_uint_eq(
        operand_layout_check(&layout, &attention_operand_table, &attention, 1, &fault),
        GEMMD_ERR_MALFORMED);
}
END_TEST

/* Each fits, all together do not. */
START_TEST(sums_can_overflow)
{
    struct attention_request request;
    struct operand_layout layout;
    struct fault fault;
    attention_request_init(&request);
    request.batch = GEMM_DIM_MAX;
    request.heads = request.kv_heads = 1u << 30;
    request.sq = request.skv = 1;
    request.d = request.dv = 2;
    request.dtype = GEMMD_F16;
    ck_assert_uint_eq(operand_layout_settle(&layout, &attention_operand_table, &request, 0, &fault),
                      GEMMD_ERR_TOO_LARGE);
    ck_assert_uint_eq(
        operand_layout_settle(&layout, &attention_operand_table, &request, 16u | 32u, &fault),
        GEMMD_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("operands");
    tcase_add_test(tests, operands_follow_each_other);
    tcase_add_test(tests, what_is_elsewhere_takes_no_room);
    tcase_add_test(tests, resident_operands_are_not_there);
    tcase_add_test(tests, lengths_are_told_apart);
    tcase_add_test(tests, only_operands_of_the_body_are_missing);
    tcase_add_test(tests, guesses_that_do_not_fit_are_left_out);
    tcase_add_test(tests, attention_begins_with_the_lengths);
    tcase_add_test(tests, attention_guesses_what_was_meant);
    tcase_add_test(tests, guesses_do_not_overflow);
    tcase_add_test(tests, sums_can_overflow);
    Suite *suite = suite_create("operands");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
