/* The parameters of /attention, and the operands in a body: what each takes, what contradicts, what
 * is not offered. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/safetensors.h"

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
    ck_assert_uint_eq(r.batch, 1);
    ck_assert_uint_eq(r.kv_heads, 6);
    ck_assert_uint_eq(r.skv, 5);
    ck_assert_uint_eq(r.dv, 3);
    ck_assert_uint_eq(r.dtype, GEMMD_F16);
    ck_assert_uint_eq(r.layout, ATTENTION_BHSD);
    ck_assert_double_eq(r.softcap, 0);
    ck_assert(!r.causal);
    ck_assert(!r.lens);
    ck_assert(!r.lse);
    ck_assert_int_eq(r.k[0], '\0');
    ck_assert_int_eq(r.v[0], '\0');
    ck_assert(!attention_request_given(&r, "window") && !attention_request_given(&r, "scale"));
    ck_assert_uint_eq(r.priority, GEMM_PRIORITY_DEFAULT);
    ck_assert_uint_eq(r.timeout_ms, 0);
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
    ck_assert_uint_eq(r.batch, 2);
    ck_assert_uint_eq(r.heads, 8);
    ck_assert_uint_eq(r.kv_heads, 4);
    ck_assert_uint_eq(r.sq, 3);
    ck_assert_uint_eq(r.skv, 5);
    ck_assert_uint_eq(r.d, 7);
    ck_assert_uint_eq(r.dv, 9);
    ck_assert_uint_eq(r.layout, ATTENTION_BSHD);
    ck_assert_uint_eq(r.dtype, GEMMD_BF16);
    ck_assert(r.causal);
    ck_assert(attention_request_given(&r, "window"));
    ck_assert_uint_eq(r.window, 0);
    ck_assert_double_eq(r.scale, -0.5);
    ck_assert_double_eq(r.softcap, 30);
    ck_assert(r.lens);
    ck_assert(r.lse);
    ck_assert_str_eq(r.k, "K");
    ck_assert_str_eq(r.v, "V");
    ck_assert_str_eq(r.kernel, "naive");
    ck_assert_uint_eq(r.timeout_ms, 10);
    ck_assert_uint_eq(r.priority, 0);
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
    {"heads=1&sq=1&d=2147483648", GEMMD_ERR_MALFORMED, "d"},
    {"heads=1&sq=1&d=x", GEMMD_ERR_MALFORMED, "d"},
    {"heads=1&sq=1&d=1&window=-1", GEMMD_ERR_MALFORMED, "window"},
    {"heads=1&sq=1&d=1&scale=nan", GEMMD_ERR_MALFORMED, "scale"},
    {"heads=1&sq=1&d=1&scale=1e39", GEMMD_ERR_MALFORMED, "scale"},
    {"heads=1&sq=1&d=1&softcap=-1", GEMMD_ERR_MALFORMED, "softcap"},
    {"heads=1&sq=1&d=1&softcap=1e-300", GEMMD_ERR_MALFORMED, "softcap"},
    {"heads=1&sq=1&d=1&softcap=nan", GEMMD_ERR_MALFORMED, "softcap"},
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
    body[0] = -1;
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 124, &o, &fault),
                      GEMMD_ERR_MALFORMED);
    body[0] = 3;
    body[3] = 6;
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 124, &o, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "lens");
}
END_TEST

static struct tensor tensor_of(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims)
{
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    return tensor;
}

START_TEST(a_mask_follows_v)
{
    struct attention_request r;
    struct attention_operands o;
    struct fault fault;
    int32_t body[64] = {0};
    const char *start = (const char *)body;
    ck_assert_uint_eq(take(&r,
                           "batch=2&heads=3&sq=1&skv=5&d=1&mask=add&mask_batch=2&mask_heads=3&"
                           "offset=4",
                           FORMAT_RAW, &fault),
                      GEMMD_OK);
    ck_assert(attention_request_given(&r, "offset"));
    ck_assert_uint_eq(r.offset, 4);
    /* Q 2*3, K and V 2*3*5, the mask 2*3*1*5 elements of two bytes. */
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 12 + 60 + 60 + 60, &o, &fault),
                      GEMMD_OK);
    ck_assert_ptr_eq(o.mask.data, start + 132);
    ck_assert_uint_eq(take(&r, "heads=3&sq=2&skv=5&d=1&mask=bool&mask_sq=1", FORMAT_RAW, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 12 + 30 + 30 + 5, &o, &fault),
                      GEMMD_OK);
    ck_assert_uint_eq(o.mask.dtype, GEMMD_I8);
    ck_assert_uint_eq(take(&r, "heads=1&sq=2&skv=5&d=1", FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, body, 4 + 10 + 10 + 20, &o, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "is mask=add missing"));
}
END_TEST

static const struct {
    const char *query, *field;
} wrong_masks[] = {
    {"mask=add&mask_batch=3", "mask_batch"},
    {"mask=add&mask_heads=2", "mask_heads"},
    {"mask=bool&mask_sq=3", "mask_sq"},
    {"mask_sq=1", "mask_sq"},
    {"mask_batch=2", "mask_batch"},
    {"mask=none&mask_heads=3", "mask_heads"},
    {"mask=i8", "mask"},
    {"offset=-1", "offset"},
};

START_TEST(wrong_masks_are_refused)
{
    struct attention_request r;
    struct fault fault;
    char query[128];
    snprintf(query, sizeof query, "batch=2&heads=3&sq=4&d=1&%s", wrong_masks[_i].query);
    ck_assert_uint_eq(take(&r, query, FORMAT_RAW, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, wrong_masks[_i].field);
}
END_TEST

/* The types and shapes of a mask among arrays: what they mean, or the field of the refusal. */
static const struct {
    const char *query, *field;
    enum gemmd_dtype dtype;
    uint32_t rank;
    uint64_t dims[5];
    enum attention_mask kind;
} arrays[] = {
    {"", NULL, GEMMD_F16, 4, {2, 3, 4, 5}, ATTENTION_MASK_ADD},
    {"", NULL, GEMMD_I8, 1, {5}, ATTENTION_MASK_BOOL},
    {"mask=bool", NULL, GEMMD_I8, 3, {3, 1, 5}, ATTENTION_MASK_BOOL},
    {"", "mask_batch", GEMMD_F16, 4, {4, 3, 4, 5}, ATTENTION_MASK_NONE},
    {"", "mask_heads", GEMMD_F16, 3, {2, 4, 5}, ATTENTION_MASK_NONE},
    {"", "mask_sq", GEMMD_F16, 2, {3, 5}, ATTENTION_MASK_NONE},
    {"", "skv", GEMMD_F16, 2, {4, 4}, ATTENTION_MASK_NONE},
    {"", "mask", GEMMD_F16, 5, {1, 2, 3, 4, 5}, ATTENTION_MASK_NONE},
    {"", "mask", GEMMD_F32, 2, {4, 5}, ATTENTION_MASK_NONE},
    {"mask=bool", "mask", GEMMD_F16, 2, {4, 5}, ATTENTION_MASK_NONE},
    {"mask=add", "mask", GEMMD_I8, 2, {4, 5}, ATTENTION_MASK_NONE},
    {"mask=none", "mask", GEMMD_I8, 2, {4, 5}, ATTENTION_MASK_NONE},
    {"mask_heads=3", "mask_heads", GEMMD_I8, 2, {4, 5}, ATTENTION_MASK_NONE},
};

START_TEST(masks_among_arrays)
{
    struct attention_request r;
    struct fault fault;
    struct attention_operands operands = {
        .q = tensor_of(GEMMD_F16, 4, (uint64_t[]){2, 3, 4, 1}),
        .k = tensor_of(GEMMD_F16, 4, (uint64_t[]){2, 3, 5, 1}),
        .v = tensor_of(GEMMD_F16, 4, (uint64_t[]){2, 3, 5, 1}),
        .mask = tensor_of(arrays[_i].dtype, arrays[_i].rank, arrays[_i].dims),
    };
    ck_assert_uint_eq(take(&r, arrays[_i].query, FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    const enum gemmd_error code = attention_request_bind_tensors(&r, &operands, &fault);
    ck_assert_uint_eq(code, arrays[_i].field == NULL ? GEMMD_OK : GEMMD_ERR_MALFORMED);
    if (arrays[_i].field == NULL)
        ck_assert_uint_eq(r.mask, arrays[_i].kind);
    else
        ck_assert_str_eq(fault.field, arrays[_i].field);
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
    struct attention_operands operands;
    ck_assert_uint_eq(attention_request_bind(&r, FORMAT_RAW, "", 1, &operands, &fault),
                      GEMMD_ERR_TOO_LARGE);
    struct tensor o, lse;
    ck_assert(!attention_request_result(&r, &o, &lse));
    /* 2^61 rows: o has 2^62 bytes, and lse twice as many. */
    ck_assert_uint_eq(
        take(&r, "batch=1073741824&heads=1073741824&sq=2&d=1&dtype=f16", FORMAT_RAW, &fault),
        GEMMD_OK);
    ck_assert(!attention_request_result(&r, &o, &lse));
}
END_TEST

START_TEST(a_softcap_of_zero_is_none)
{
    struct attention_request r;
    struct fault fault;
    ck_assert_uint_eq(take(&r, "heads=1&sq=1&d=1&softcap=0", FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert_uint_eq(take(&r, "heads=1&sq=1&d=1&softcap=30", FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert_double_eq(r.softcap, 30);
}
END_TEST

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
    ck_assert_uint_eq(r.batch, 2);
    ck_assert_uint_eq(r.skv, 7);
    ck_assert_uint_eq(r.kv_heads, 3);
    ck_assert_uint_eq(r.d, 5);
    ck_assert_uint_eq(r.dv, 4);
    ck_assert_uint_eq(r.dtype, GEMMD_BF16);
    ck_assert(attention_request_given(&r, "dtype"));
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
    ck_assert_uint_eq(r.batch, 2);
    ck_assert_uint_eq(r.heads, 6);
    ck_assert_uint_eq(r.kv_heads, 3);
    ck_assert_uint_eq(r.sq, 4);
    ck_assert_uint_eq(r.skv, 5);
    ck_assert_uint_eq(r.d, 8);
    ck_assert_uint_eq(r.dv, 7);
    ck_assert(!r.lens);
    ck_assert_uint_eq(r.rank, 4);

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

#define USUAL                                                                                      \
    {                                                                                              \
        1, 2, 3, 4                                                                                 \
    } /* batch, heads, sequence, d */

/* Each array has a type, a rank and sizes of its own, any of which may contradict the others. */
static const struct {
    const char *query, *field, *says;
    enum gemmd_error code;
    enum gemmd_dtype dtype; /* of Q */
    uint32_t rank;          /* of Q */
    uint64_t q[5], k[4], v[4];
} contradictions[] = {
    {"", "dtype", "of type i8", GEMMD_ERR_UNSUPPORTED, GEMMD_I8, 4, USUAL, USUAL, USUAL},
    {"", "dtype", "says f16", GEMMD_ERR_MALFORMED, GEMMD_F16, 4, USUAL, USUAL, USUAL},
    {"", "", "Q has 1 dim", GEMMD_ERR_MALFORMED, GEMMD_F32, 1, {4}, USUAL, USUAL},
    {"", "", "heads, sequence", GEMMD_ERR_MALFORMED, GEMMD_F32, 5, {1, 1, 2, 3, 4}, USUAL, USUAL},
    {"layout=bshd",
     "",
     "sequence, heads",
     GEMMD_ERR_MALFORMED,
     GEMMD_F32,
     5,
     {1, 1, 2, 3, 4},
     USUAL,
     USUAL},
    {"batch=2", "batch", "Q", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, USUAL, USUAL, USUAL},
    {"heads=3", "heads", "Q", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, USUAL, USUAL, USUAL},
    {"sq=2", "sq", "Q", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, USUAL, USUAL, USUAL},
    {"", "d", "K", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, USUAL, {1, 2, 3, 5}, USUAL},
    {"", "skv", "V", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, USUAL, USUAL, {1, 2, 5, 4}},
    {"", "kv_heads", "kv_heads", GEMMD_ERR_MALFORMED, GEMMD_F32, 4, {1, 3, 3, 4}, USUAL, USUAL},
    {"layout=bshd", "", "", GEMMD_OK, GEMMD_F32, 2, {3, 4}, {1, 5, 1, 4}, {1, 5, 1, 4}},
    {"dtype=f8_e4m3", "dtype", "of type f32", GEMMD_ERR_MALFORMED, GEMMD_F8_E4M3, 4, USUAL, USUAL,
     USUAL},
};

START_TEST(arrays_may_contradict_each_other)
{
    struct attention_request r;
    struct fault fault = {.code = GEMMD_OK};
    struct attention_operands operands = {
        .q = tensor_of(contradictions[_i].dtype, contradictions[_i].rank, contradictions[_i].q),
        .k = tensor_of(GEMMD_F32, 4, contradictions[_i].k),
        .v = tensor_of(GEMMD_F32, 4, contradictions[_i].v),
    };
    ck_assert_uint_eq(take(&r, contradictions[_i].query, FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault),
                      contradictions[_i].code);
    ck_assert_str_eq(fault.field, contradictions[_i].field);
    ck_assert_msg(strstr(fault.detail, contradictions[_i].says) != NULL, "%s", fault.detail);
}
END_TEST

START_TEST(residents_contradict_each_other)
{
    struct attention_request r;
    struct fault fault;
    const struct tensor k = tensor_of(GEMMD_I8, 4, (uint64_t[]){2, 7, 3, 5});
    const struct tensor v = tensor_of(GEMMD_BF16, 4, (uint64_t[]){2, 7, 3, 4});
    attention_request_init(&r);
    ck_assert_uint_eq(attention_request_settle_residents(&r, &k, &v, &fault),
                      GEMMD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the resident K"));
    attention_request_init(&r);
    ck_assert_uint_eq(attention_request_settle_residents(&r, NULL, &v, &fault), GEMMD_OK);
    attention_request_init(&r);
    ck_assert_uint_eq(attention_request_settle_residents(&r, &v, NULL, &fault), GEMMD_OK);
}
END_TEST

/* Only Q arrives with the request; K and V are resident. */
START_TEST(resident_operands_do_not_arrive)
{
    struct attention_request r;
    struct fault fault = {.code = GEMMD_OK};
    const struct tensor kv = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 5, 4});
    struct attention_operands operands = {.q = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4})};
    ck_assert_uint_eq(take(&r, "k=K&v=V", FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_settle_residents(&r, &kv, &kv, &fault), GEMMD_OK);
    ck_assert_msg(attention_request_bind_tensors(&r, &operands, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_uint_eq(r.sq, 3);
    ck_assert_uint_eq(r.skv, 5);
}
END_TEST

START_TEST(lengths_are_a_vector_of_i32)
{
    static const struct {
        enum gemmd_dtype dtype;
        uint32_t rank;
        uint64_t dims[2];
    } wrong[] = {{GEMMD_F32, 1, {1}}, {GEMMD_I32, 2, {1, 1}}, {GEMMD_I32, 1, {2}}};
    static const int32_t lens[2] = {0};
    struct attention_request r;
    struct fault fault;
    for (size_t i = 0; i < 2 * COUNT(wrong); i++) {
        struct attention_operands operands = {
            .q = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
            .k = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
            .v = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
            .lens_q = tensor_of(GEMMD_I32, 1, (uint64_t[]){1}),
            .lens_kv = tensor_of(GEMMD_I32, 1, (uint64_t[]){1}),
        };
        operands.lens_q.data = operands.lens_kv.data = lens;
        *(i % 2 ? &operands.lens_q : &operands.lens_kv) =
            tensor_of(wrong[i / 2].dtype, wrong[i / 2].rank, wrong[i / 2].dims);
        ck_assert_uint_eq(take(&r, "", FORMAT_SAFETENSORS, &fault), GEMMD_OK);
        ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault),
                          GEMMD_ERR_MALFORMED);
        ck_assert_str_eq(fault.field, "lens");
    }
}
END_TEST

START_TEST(lengths_come_in_pairs)
{
    struct attention_request r;
    struct fault fault;
    struct attention_operands operands = {
        .q = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
        .k = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
        .v = tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 2, 3, 4}),
        .lens_kv = tensor_of(GEMMD_I32, 1, (uint64_t[]){1}),
    };
    ck_assert_uint_eq(take(&r, "", FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    ck_assert_uint_eq(attention_request_bind_tensors(&r, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "the lengths are two vectors"));
}
END_TEST

/* The names of the tensors in a file, and what is said of a name that is missing or too many. */
static const struct {
    const char *query, *names, *field, *says;
} files[] = {
    {"", "qkv", "", ""},
    {"", "qkvlm", "", ""},
    {"", "qkvm", "lens", "is missing"},
    {"", "qkvl", "lens", "is missing"},
    {"lens=1", "qkv", "lens", "is missing"},
    {"lens=0", "qkvlm", "lens", "there is no tensor"},
    {"", "qv", "k", "is missing"},
    {"k=K", "qkv", "k", "there is no tensor"},
    {"", "qkvx", "", "'x'"},
};

START_TEST(safetensors_have_all_that_is_wanted)
{
    static char body[SAFETENSORS_HEADER_MAX + 4096];
    struct safetensors_entry entries[5] = {0};
    struct attention_request r;
    struct attention_operands operands;
    struct fault fault = {.code = GEMMD_OK};
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (const char *name = files[_i].names; *name != '\0'; name++) {
        const bool is_lens = *name == 'l' || *name == 'm';
        struct safetensors_entry *entry = &entries[count++];
        if (is_lens)
            snprintf(entry->name, sizeof entry->name, "%s", *name == 'l' ? "lens_q" : "lens_kv");
        else
            snprintf(entry->name, sizeof entry->name, "%c", *name);
        entry->tensor = is_lens ? tensor_of(GEMMD_I32, 1, (uint64_t[]){1})
                                : tensor_of(GEMMD_F32, 4, (uint64_t[]){1, 1, 1, 1});
        bytes += entry->tensor.bytes;
    }
    memset(body, 0, sizeof body);
    bytes += safetensors_header(entries, count, body);
    ck_assert_uint_eq(take(&r, files[_i].query, FORMAT_SAFETENSORS, &fault), GEMMD_OK);
    enum gemmd_error code =
        attention_request_bind(&r, FORMAT_SAFETENSORS, body, bytes, &operands, &fault);
    ck_assert_msg(code == (files[_i].says[0] == '\0' ? GEMMD_OK : GEMMD_ERR_MALFORMED), "%s",
                  fault.detail);
    ck_assert_msg(strstr(fault.detail, files[_i].says) != NULL, "%s", fault.detail);
    ck_assert_str_eq(fault.field, files[_i].field);
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
        ck_assert_uint_eq(lse.rank, r.rank - 1);
        ck_assert_uint_eq(lse.dims[lse.rank - 1], 5);
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
    tcase_add_test(tests, a_mask_follows_v);
    tcase_add_loop_test(tests, wrong_masks_are_refused, 0,
                        sizeof wrong_masks / sizeof *wrong_masks);
    tcase_add_loop_test(tests, masks_among_arrays, 0, sizeof arrays / sizeof *arrays);
    tcase_add_test(tests, sizes_that_overflow);
    tcase_add_test(tests, residents_say_sizes_and_type);
    tcase_add_test(tests, tensors_from_anywhere);
    tcase_add_loop_test(tests, arrays_may_contradict_each_other, 0, COUNT(contradictions));
    tcase_add_test(tests, residents_contradict_each_other);
    tcase_add_test(tests, resident_operands_do_not_arrive);
    tcase_add_test(tests, lengths_are_a_vector_of_i32);
    tcase_add_test(tests, lengths_come_in_pairs);
    tcase_add_loop_test(tests, safetensors_have_all_that_is_wanted, 0, COUNT(files));
    tcase_add_test(tests, a_softcap_of_zero_is_none);
    tcase_add_test(tests, the_shape_of_the_result);
    Suite *suite = suite_create("attention_request");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
