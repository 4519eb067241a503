/* The parameters of /attention, and the operands in a body: what each takes, what contradicts, what
 * is not offered. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/attention_request.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Sets all of "heads=1&sq=2" and checks; the first failure ends it. */
static enum gemmd_error take(struct attention_request *request, const char *query,
                             enum format format, struct fault *fault)
{
    char text[512], *rest = text;
    snprintf(text, sizeof text, "%s", query);
    *fault = (struct fault){.code = GEMMD_OK};
    attention_request_init(request);
    for (char *pair = strsep(&rest, "&"); pair != NULL && *pair != '\0';
         pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        enum gemmd_error code = attention_request_set(request, name, pair, fault);
        if (code != GEMMD_OK)
            return code;
    }
    return attention_request_check(request, format, fault);
}

START_TEST(defaults)
{
    struct attention_request r;
    struct fault fault;
    ck_assert_uint_eq(take(&r, "heads=6&sq=5&d=3", FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert(r.batch == 1 && r.kv_heads == 6 && r.skv == 5 && r.dv == 3);
    ck_assert(r.dtype == GEMMD_F16 && r.layout == ATTENTION_BHSD && r.softcap == 0);
    ck_assert(!r.causal && !r.lens && !r.lse && r.k[0] == '\0' && r.v[0] == '\0');
    ck_assert(!attention_request_given(&r, "window") && !attention_request_given(&r, "scale"));
    ck_assert(r.priority == GEMM_PRIORITY_DEFAULT && r.timeout_ms == 0);
    ck_assert_str_eq(r.kernel, "auto");
}
END_TEST

START_TEST(every_parameter_lands_in_its_place)
{
    struct attention_request r;
    struct fault fault;
    ck_assert_uint_eq(
        take(&r,
             "batch=2&heads=8&kv_heads=4&sq=3&skv=5&d=7&dv=9&layout=bshd&dtype=bf16&causal=1&"
             "window=0&scale=-0.5&softcap=30&lens=1&k=K&v=V&lse=1&kernel=naive&timeout_ms=10&"
             "priority=0",
             FORMAT_RAW, &fault),
        GEMMD_OK);
    ck_assert(r.batch == 2 && r.heads == 8 && r.kv_heads == 4 && r.sq == 3 && r.skv == 5);
    ck_assert(r.d == 7 && r.dv == 9 && r.layout == ATTENTION_BSHD && r.dtype == GEMMD_BF16);
    ck_assert(r.causal && attention_request_given(&r, "window") && r.window == 0);
    ck_assert(r.scale == -0.5 && r.softcap == 30 && r.lens && r.lse);
    ck_assert_str_eq(r.k, "K");
    ck_assert_str_eq(r.v, "V");
    ck_assert_str_eq(r.kernel, "naive");
    ck_assert(r.timeout_ms == 10 && r.priority == 0);
}
END_TEST

static const struct {
    const char *query;
    enum gemmd_error code;
    const char *field;
} refused[] = {
    {"sq=1&d=1", GEMMD_ERR_MALFORMED, "heads"},
    {"heads=1&d=1", GEMMD_ERR_MALFORMED, "sq"},
    {"heads=1&sq=1", GEMMD_ERR_MALFORMED, "d"},
    {"heads=4&kv_heads=3&sq=1&d=1", GEMMD_ERR_MALFORMED, "kv_heads"},
    {"heads=4&kv_heads=8&sq=1&d=1", GEMMD_ERR_MALFORMED, "kv_heads"},
    {"heads=1&sq=1&d=257", GEMMD_ERR_UNSUPPORTED, "d"},
    {"heads=1&sq=1&d=1&dv=257", GEMMD_ERR_UNSUPPORTED, "dv"},
    {"heads=1&sq=1&d=1&window=-1", GEMMD_ERR_MALFORMED, "window"},
    {"heads=1&sq=1&d=1&scale=nan", GEMMD_ERR_MALFORMED, "scale"},
    {"heads=1&sq=1&d=1&scale=1e39", GEMMD_ERR_MALFORMED, "scale"},
    {"heads=1&sq=1&d=1&softcap=-1", GEMMD_ERR_MALFORMED, "softcap"},
    {"heads=1&sq=1&d=1&softcap=1e-300", GEMMD_ERR_MALFORMED, "softcap"},
    {"heads=1&sq=1&d=1&dtype=i8", GEMMD_ERR_MALFORMED, "dtype"},
    {"heads=1&heads=1", GEMMD_ERR_MALFORMED, "heads"},
    {"alpha=1", GEMMD_ERR_MALFORMED, "alpha"},
};

START_TEST(what_is_refused)
{
    struct attention_request r;
    struct fault fault;
    ck_assert_uint_eq(take(&r, refused[_i].query, FORMAT_RAW, &fault), refused[_i].code);
    ck_assert_str_eq(fault.field, refused[_i].field);
}
END_TEST

START_TEST(a_raw_body_is_cut_where_its_operands_are)
{
    struct attention_request r;
    struct attention_operands o;
    struct fault fault;
    int32_t body[64] = {3, 1, 4, 5}; /* lengths of Q, then of K and V */
    const char *start = (const char *)body;
    ck_assert_uint_eq(
        take(&r, "batch=2&heads=2&kv_heads=1&sq=3&skv=5&d=2&dv=1&lens=1", FORMAT_RAW, &fault),
        GEMMD_OK);
    /* Lengths 16, Q 2*2*3*2, K 2*5*2, V 2*5 elements of two bytes. */
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 16 + 48 + 40 + 20, &o, &fault),
                      GEMMD_OK);
    ck_assert_ptr_eq(o.lens_q.data, start);
    ck_assert_ptr_eq(o.lens_kv.data, start + 8);
    ck_assert_ptr_eq(o.q.data, start + 16);
    ck_assert_ptr_eq(o.k.data, start + 64);
    ck_assert_ptr_eq(o.v.data, start + 104);
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 123, &o, &fault),
                      GEMMD_ERR_MALFORMED);
    body[3] = 6;
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 124, &o, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "lens");
}
END_TEST

START_TEST(sizes_that_overflow)
{
    struct attention_request r;
    struct fault fault;
    uint64_t bytes;
    ck_assert_uint_eq(
        take(&r, "batch=2147483647&heads=2147483647&sq=2147483647&d=1", FORMAT_RAW, &fault),
        GEMMD_OK);
    ck_assert(!attention_request_raw_bytes(&r, &bytes));
    ck_assert_uint_eq(attention_request_check_raw_bytes(&r, 1, &fault), GEMMD_ERR_TOO_LARGE);
}
END_TEST

static struct tensor tensor_of(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims)
{
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    return tensor;
}

START_TEST(residents_say_sizes_and_type)
{
    struct attention_request r;
    struct fault fault;
    const struct tensor k = tensor_of(GEMMD_BF16, 4, (uint64_t[]){2, 7, 3, 5});
    const struct tensor v = tensor_of(GEMMD_BF16, 4, (uint64_t[]){2, 7, 3, 4});
    const struct tensor other = tensor_of(GEMMD_F16, 4, (uint64_t[]){2, 7, 3, 4});
    attention_request_init(&r);
    r.layout = ATTENTION_BSHD;
    ck_assert_uint_eq(attention_request_settle_residents(&r, &k, &v, &fault), GEMMD_OK);
    ck_assert(r.batch == 2 && r.skv == 7 && r.kv_heads == 3 && r.d == 5 && r.dv == 4);
    ck_assert(r.dtype == GEMMD_BF16 && attention_request_given(&r, "dtype"));
    ck_assert_uint_eq(attention_request_settle_residents(&r, NULL, &other, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "dtype");
}
END_TEST

/* Arrays that lie in places of their own say all sizes, and have to agree. */
START_TEST(tensors_from_anywhere)
{
    struct attention_request r;
    struct fault fault;
    static const int32_t right[] = {4, 0}, wrong[] = {4, 6};
    const uint64_t lens[] = {2};
    struct attention_operands all = {
        .q = tensor_of(GEMMD_F32, 4, (uint64_t[]){2, 6, 4, 8}),
        .k = tensor_of(GEMMD_F32, 4, (uint64_t[]){2, 3, 5, 8}),
        .v = tensor_of(GEMMD_F32, 4, (uint64_t[]){2, 3, 5, 7}),
    };
    struct attention_operands operands = all;
    ck_assert_uint_eq(take(&r, "dtype=f32", FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_OK);
    ck_assert(r.batch == 2 && r.heads == 6 && r.kv_heads == 3 && r.sq == 4 && r.skv == 5);
    ck_assert(r.d == 8 && r.dv == 7 && !r.lens && r.rank == 4);

    ck_assert(tensor_init(&all.lens_q, GEMMD_I32, lens, 1, right));
    operands = all;
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the lengths of K and V"));
    ck_assert(tensor_init(&all.lens_kv, GEMMD_I32, lens, 1, right));
    operands = all;
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_OK);
    ck_assert(r.lens);
    ck_assert_uint_eq(attention_request_check_lens(&r, &operands, &fault), GEMMD_OK);
    all.lens_kv.data = wrong;
    operands = all;
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_check_lens(&r, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "number 1 is 6"));

    operands = all;
    operands.v.rank = 0;
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "v");
    strcpy(r.k, "resident");
    operands = all;
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "k");
}
END_TEST

/* O has the dimensions that Q came with, lse one fewer. */
START_TEST(the_shape_of_the_result)
{
    struct attention_request r;
    struct tensor o, lse;
    struct fault fault;
    char text[64];
    ck_assert_uint_eq(take(&r, "heads=1&sq=5&d=3&dv=2&layout=bshd", FORMAT_RAW, &fault), GEMMD_OK);
    static const char *const shapes[] = {"5,2", "5,1,2", "1,5,1,2"};
    for (r.rank = 2; r.rank <= 4; r.rank++) {
        ck_assert(attention_request_result(&r, &o, &lse));
        tensor_shape_text(&o, text, sizeof text);
        ck_assert_str_eq(text, shapes[r.rank - 2]);
        ck_assert(lse.rank == r.rank - 1 && lse.dims[lse.rank - 1] == 5);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("attention_request");
    tcase_add_test(tests, defaults);
    tcase_add_test(tests, every_parameter_lands_in_its_place);
    tcase_add_loop_test(tests, what_is_refused, 0, COUNT(refused));
    tcase_add_test(tests, a_raw_body_is_cut_where_its_operands_are);
    tcase_add_test(tests, sizes_that_overflow);
    tcase_add_test(tests, residents_say_sizes_and_type);
    tcase_add_test(tests, tensors_from_anywhere);
    tcase_add_test(tests, the_shape_of_the_result);
    Suite *suite = suite_create("attention_request");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
