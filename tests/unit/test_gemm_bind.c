/*
 * Finding the operands of /gemm in a body.
 *
 * Bodies are spelled in the tables as arrays "[name=]type:shape", a shape ending in f for Fortran
 * order: "f32:2x3 <u2:3x4f". The bytes of array number i are all i, so that a view shows which
 * array it looks at.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { ROOM = 64 * 1024 };

struct body {
    unsigned char bytes[ROOM];
    uint64_t length;
};

struct spelled {
    char name[32], type[16];
    bool fortran;
    uint32_t rank;
    uint64_t dims[9], bytes;
};

static void append(struct body *body, const void *bytes, uint64_t count)
{
    ck_assert_uint_le(count, ROOM - body->length);
    memcpy(body->bytes + body->length, bytes, count);
    body->length += count;
}

static void append_filling(struct body *body, int value, uint64_t count)
{
    ck_assert_uint_le(count, ROOM - body->length);
    memset(body->bytes + body->length, value, count);
    body->length += count;
}

/* One array's spelling. A type that is no dtype's name stands for itself, its size at its end. */
static struct spelled spell(char *word)
{
    struct spelled array = {.name = ""};
    enum gemmd_dtype dtype;
    char *equals = strchr(word, '=');
    if (equals != NULL) {
        *equals = '\0';
        snprintf(array.name, sizeof array.name, "%s", word);
        word = equals + 1;
    }
    char *shape = strchr(word, ':');
    *shape++ = '\0';
    snprintf(array.type, sizeof array.type, "%s", word);
    array.bytes = dtype_from_name(word, &dtype) ? dtype_size(dtype)
                                                : (uint64_t)(word[strlen(word) - 1] - '0');
    while (*shape != '\0' && *shape != 'f') {
        array.dims[array.rank] = strtoull(shape, &shape, 10);
        array.bytes *= array.dims[array.rank++];
        shape += *shape == 'x';
    }
    array.fortran = *shape == 'f';
    return array;
}

static void append_npy(struct body *body, const struct spelled *array)
{
    char shape[128] = "", dict[256];
    enum gemmd_dtype dtype;
    for (uint32_t i = 0; i < array->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%" PRIu64 ", ",
                 array->dims[i]);
    int length =
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n",
                 dtype_from_name(array->type, &dtype) ? dtype_npy(dtype) : array->type,
                 array->fortran ? "True" : "False", shape);
    append(body, "\x93NUMPY\x01", 8);
    append(body, (unsigned char[]){(unsigned char)length, 0}, 2);
    append(body, dict, (uint64_t)length);
}

static void spell_npy(struct body *body, const char *spelling)
{
    char text[256], *rest = text;
    int number = 0;
    body->length = 0;
    snprintf(text, sizeof text, "%s", spelling);
    for (char *word = strsep(&rest, " "); word != NULL && *word != '\0';
         word = strsep(&rest, " ")) {
        struct spelled array = spell(word);
        append_npy(body, &array);
        append_filling(body, ++number, array.bytes);
    }
}

static void spell_safetensors(struct body *body, const char *spelling)
{
    char text[256], header[2048] = "{", *rest = text;
    static struct body data;
    int number = 0;
    body->length = data.length = 0;
    snprintf(text, sizeof text, "%s", spelling);
    for (char *word = strsep(&rest, " "); word != NULL && *word != '\0';
         word = strsep(&rest, " ")) {
        struct spelled array = spell(word);
        enum gemmd_dtype dtype;
        size_t at = strlen(header);
        at += (size_t)snprintf(
            header + at, sizeof header - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
            number > 0 ? "," : "", array.name,
            dtype_from_name(array.type, &dtype) ? dtype_safetensors(dtype) : array.type);
        for (uint32_t i = 0; i < array.rank; i++)
            at += (size_t)snprintf(header + at, sizeof header - at, "%s%" PRIu64, i > 0 ? "," : "",
                                   array.dims[i]);
        snprintf(header + at, sizeof header - at, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                 data.length, data.length + array.bytes);
        append_filling(&data, ++number, array.bytes);
    }
    uint64_t length = strlen(header);
    header[length++] = '}';
    for (uint32_t i = 0; i < 8; i++)
        append(body, (unsigned char[]){(unsigned char)(length >> 8 * i)}, 1);
    append(body, header, length);
    append(body, data.bytes, data.length);
}

static enum gemmd_error set(struct gemm_request *request, const char *query, enum format format,
                            struct fault *fault)
{
    char text[256], *rest = text;
    enum gemmd_error code = GEMMD_OK;
    *fault = (struct fault){.code = GEMMD_OK};
    snprintf(text, sizeof text, "%s", query);
    gemm_request_init(request);
    for (char *pair = strsep(&rest, "&"); code == GEMMD_OK && pair != NULL && *pair != '\0';
         pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        code = gemm_request_set(request, name, pair, fault);
    }
    return code != GEMMD_OK ? code : gemm_request_check(request, format, fault);
}

static bool same_place(const struct tensor *one, const unsigned char *front,
                       const struct tensor *other, const unsigned char *exact)
{
    if (one->rank == 0 || other->rank == 0)
        return one->rank == other->rank;
    return one->bytes == other->bytes && one->fortran == other->fortran &&
           (one->data == NULL ||
            (const unsigned char *)one->data - front == (const unsigned char *)other->data - exact);
}

/* A body of which the front is there says nothing, or what the complete one says; of one that turns
 * out wrong it may have found all places before. The front is a block of its own, so that a
 * sanitizer sees any read past it. */
static void assert_front_says_the_same(const struct gemm_request *asked, enum format format,
                                       uint64_t length, uint64_t received, enum gemmd_error code,
                                       const struct gemm_operands *bound,
                                       const unsigned char *exact)
{
    struct gemm_request request = *asked;
    struct gemm_operands operands;
    unsigned char *bytes = malloc(received > 0 ? received : 1);
    struct body_front front = {bytes, length, received, 0};
    memcpy(bytes, exact, received);
    const enum gemmd_error early =
        gemm_request_bind_front(&request, format, &front, &operands, NULL);
    if (early == GEMMD_ERR_CONFLICT)
        ck_assert_uint_gt(front.wanted, received);
    else if (early != GEMMD_OK || code == GEMMD_OK)
        ck_assert_uint_eq(early, code);
    if (early == GEMMD_OK && code == GEMMD_OK) {
        ck_assert(same_place(&operands.a, bytes, &bound->a, exact));
        ck_assert(same_place(&operands.b, bytes, &bound->b, exact));
        ck_assert(same_place(&operands.bias, bytes, &bound->bias, exact));
        ck_assert(same_place(&operands.c0, bytes, &bound->c0, exact));
        ck_assert_uint_eq(operands.transa, bound->transa);
        ck_assert_uint_eq(operands.transb, bound->transb);
    }
    free(bytes);
}

/* Sets, checks and binds a copy of exactly the body's length, so that a sanitizer sees any read
 * past its end. The copy, which the operands look at, is *exact. */
static enum gemmd_error bind(struct gemm_request *request, const char *query, enum format format,
                             const struct body *body, struct gemm_operands *operands,
                             unsigned char **exact, struct fault *fault)
{
    *exact = NULL;
    enum gemmd_error code = set(request, query, format, fault);
    if (code != GEMMD_OK)
        return code;
    *exact = malloc(body->length > 0 ? body->length : 1);
    memcpy(*exact, body->bytes, body->length);
    const struct gemm_request asked = *request;
    code = gemm_request_bind(request, format, body->length > 0 ? *exact : NULL, body->length,
                             operands, fault);
    for (uint64_t received = 0; received < body->length; received += 1 + body->length / 64)
        assert_front_says_the_same(&asked, format, body->length, received, code, operands, *exact);
    ck_assert_uint_eq(fault->code, code);
    ck_assert_msg(code == GEMMD_OK || fault->detail[0] != '\0', "a failure without a sentence");
    return code;
}

/* Appends " name<array's number>:<shape>", then f if it is in Fortran order and T if transposed. */
static void describe_view(char *text, size_t capacity, const char *name,
                          const struct tensor *tensor, bool transposed, const unsigned char *exact,
                          uint64_t length)
{
    char shape[64];
    const unsigned char *data = tensor->data;
    if (tensor->rank == 0)
        return;
    ck_assert(data >= exact);
    ck_assert_uint_le(tensor->bytes, length - (uint64_t)(data - exact));
    for (uint64_t i = 1; i < tensor->bytes; i++)
        ck_assert_int_eq(data[i], data[0]);
    tensor_shape_text(tensor, shape, sizeof shape);
    const size_t at = strlen(text);
    snprintf(text + at, capacity - at, " %s%d:%s%s%s", name, data[0], shape,
             tensor->fortran ? "f" : "", transposed ? "T" : "");
}

/* What was bound: "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4". */
static void describe(char *text, size_t capacity, const struct gemm_request *request,
                     const struct gemm_operands *operands, const unsigned char *exact,
                     uint64_t length)
{
    snprintf(text, capacity, "m%" PRIu64 " n%" PRIu64 " k%" PRIu64 " batch%" PRIu64 " %s %s",
             request->m, request->n, request->k, request->batch, dtype_name(request->dtype),
             dtype_name(request->out));
    describe_view(text, capacity, "a", &operands->a, operands->transa, exact, length);
    describe_view(text, capacity, "b", &operands->b, operands->transb, exact, length);
    describe_view(text, capacity, "bias", &operands->bias, false, exact, length);
    describe_view(text, capacity, "c", &operands->c0, false, exact, length);
    ck_assert_int_eq(request->bias, operands->bias.rank > 0);
}

/* ---- what is right ---- */

static const struct {
    enum format format;
    const char *query, *body, *bound;
} right[] = {
    {FORMAT_NPY, "", "f32:2x3 f32:3x4", "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "m=2&n=4&k=3&batch=1&dtype=f32", "f32:2x3 f32:3x4",
     "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "transa=1&transb=1", "f32:3x2 f32:4x3", "m2 n4 k3 batch1 f32 f32 a1:3,2T b2:4,3T"},
    {FORMAT_NPY, "", "f32:1x1 f32:1x1", "m1 n1 k1 batch1 f32 f32 a1:1,1 b2:1,1"},
    /* Fortran order is the other transpose */
    {FORMAT_NPY, "", "f32:2x3f f32:3x4f", "m2 n4 k3 batch1 f32 f32 a1:3,2T b2:4,3T"},
    {FORMAT_NPY, "transa=1", "f32:3x2f f32:3x4", "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "", "f32:1x2x3f f32:1x3x4", "m2 n4 k3 batch1 f32 f32 a1:1,3,2T b2:1,3,4"},
    /* but not of batches and C0 */
    {FORMAT_NPY, "", "f32:5x2x3f f32:5x3x4", "m2 n4 k3 batch5 f32 f32 a1:5,2,3f b2:5,3,4"},
    {FORMAT_NPY, "transb=1", "f32:5x2x3 f32:5x4x3f", "m2 n4 k3 batch5 f32 f32 a1:5,2,3 b2:5,4,3fT"},
    {FORMAT_NPY, "beta=1", "f32:2x3 f32:3x4 f32:2x4f",
     "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4 c3:2,4f"},
    /* bias and C0 */
    {FORMAT_NPY, "bias=1", "f32:2x3 f32:3x4 f32:4",
     "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4 bias3:4"},
    {FORMAT_NPY, "bias=1&beta=-1&out=bf16", "f32:2x3 f32:3x4 bf16:1x4f bf16:2x4",
     "m2 n4 k3 batch1 f32 bf16 a1:2,3 b2:3,4 bias3:4 c4:2,4"},
    {FORMAT_NPY, "bias=1&beta=1", "f64:5x2x3 f64:5x3x4 f64:4 f64:5x2x4",
     "m2 n4 k3 batch5 f64 f64 a1:5,2,3 b2:5,3,4 bias3:4 c4:5,2,4"},
    {FORMAT_NPY, "beta=1", "f32:1x2x3 f32:1x3x4 f32:2x4",
     "m2 n4 k3 batch1 f32 f32 a1:1,2,3 b2:1,3,4 c3:2,4"},
    {FORMAT_NPY, "beta=1", "f32:2x3 f32:3x4 f32:1x2x4",
     "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4 c3:1,2,4"},
    /* types */
    {FORMAT_NPY, "", "|V2:2x3 <V2:3x4", "m2 n4 k3 batch1 bf16 bf16 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "dtype=bf16", "<u2:2x3 |V2:3x4", "m2 n4 k3 batch1 bf16 bf16 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "dtype=f8_e4m3&beta=1", "|u1:2x3 |V1:3x4 <u2:2x4",
     "m2 n4 k3 batch1 f8_e4m3 bf16 a1:2,3 b2:3,4 c3:2,4"},
    {FORMAT_NPY, "", "|V1:2x3 |V1:3x4", "m2 n4 k3 batch1 f8_e4m3 bf16 a1:2,3 b2:3,4"},
    {FORMAT_NPY, "bias=1", "i8:2x3 i8:3x4 i32:4", "m2 n4 k3 batch1 i8 i32 a1:2,3 b2:3,4 bias3:4"},
    {FORMAT_NPY, "out=f32&alpha=0.5", "i8:2x3 i8:3x4", "m2 n4 k3 batch1 i8 f32 a1:2,3 b2:3,4"},
    /* operands that lie elsewhere */
    {FORMAT_NPY, "a=w&m=7", "f16:3x4", "m7 n4 k3 batch1 f16 f16 b1:3,4"},
    {FORMAT_NPY, "b=w&n=7&bias=1", "f16:2x3 f16:7", "m2 n7 k3 batch1 f16 f16 a1:2,3 bias2:7"},
    {FORMAT_SAFETENSORS, "b=w&n=4", "a=f32:2x3", "m2 n4 k3 batch1 f32 f32 a1:2,3"},
    /* by name, in any order */
    {FORMAT_SAFETENSORS, "", "a=f32:2x3 b=f32:3x4", "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4"},
    {FORMAT_SAFETENSORS, "transb=1", "b=bf16:5x4x3 a=bf16:5x2x3",
     "m2 n4 k3 batch5 bf16 bf16 a2:5,2,3 b1:5,4,3T"},
    {FORMAT_SAFETENSORS, "", "a=f32:2x3 b=f32:3x4 bias=f32:4",
     "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4 bias3:4"},
    {FORMAT_SAFETENSORS, "bias=1&beta=2&dtype=f8_e4m3&out=f16",
     "c=f16:2x4 bias=f16:1x4 b=f8_e4m3:3x4 a=f8_e4m3:2x3",
     "m2 n4 k3 batch1 f8_e4m3 f16 a4:2,3 b3:3,4 bias2:4 c1:2,4"},
};

START_TEST(right_bodies_are_bound)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    unsigned char *exact;
    char bound[256];
    (right[_i].format == FORMAT_NPY ? spell_npy : spell_safetensors)(&body, right[_i].body);
    enum gemmd_error code =
        bind(&request, right[_i].query, right[_i].format, &body, &operands, &exact, &fault);
    ck_assert_msg(code == GEMMD_OK, "%s with %s: %s", right[_i].body, right[_i].query,
                  fault.detail);
    describe(bound, sizeof bound, &request, &operands, exact, body.length);
    ck_assert_str_eq(bound, right[_i].bound);
    free(exact);
}
END_TEST

/* ---- what contradicts, or is not offered ---- */

static const struct {
    enum format format;
    enum gemmd_error code;
    const char *query, *body, *field, *says;
} wrong[] = {
    /* number of arrays */
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "", "", "A is missing"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x3", "", "B is missing"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4", "", "bias is missing"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4", "", "C0 is missing"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x3 f32:3x4 f32:4", "", "take"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f32:4 f32:2x4", "", "take"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "a=w&m=2", "f32:2x3 f32:3x4", "", "take"},
    /* dimensions */
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:6 f32:4", "", "A has 1 dimensions"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x3 f32:1x1x3x4", "", "and B 4"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32: f32:3x4", "", "scalar"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x3 f32:2x4", "k", "by that of A"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "transb=1", "f32:2x3 f32:3x4", "k", "by that of A"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "m=3", "f32:2x3 f32:3x4", "m", "by the parameter"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "n=3", "f32:2x3 f32:3x4", "n", "by the parameter"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "k=2", "f32:2x3 f32:3x4", "k", "by the parameter"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "batch=2", "f32:2x3 f32:3x4", "batch", "by the parameter"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "batch=1", "f32:2x2x3 f32:2x3x4", "batch", "the parameter"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x2x3 f32:3x3x4", "batch", "by that of A"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x2x3 f32:3x4", "", "and B 2"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:1x2x3 f32:3x4", "", "and B 2"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:0x3 f32:3x4", "m", "from 1 to"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x0 f32:0x4", "k", "from 1 to"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:0x2x3 f32:0x3x4", "batch", "from 1 to"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2147483648x0 f32:0x4", "m", "2147483648"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:9223372036854775808x0 f32:0x4", "m",
     "9223372036854775808"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "a=w", "f32:3x4", "m", "m is missing"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "a=w&b=v&m=1&n=1", "", "k", "k is missing"},
    /* types */
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "", "f32:2x3 f64:3x4", "dtype", "B of f64"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "dtype=f64", "f32:2x3 f32:3x4", "dtype", "f64"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "dtype=f16", "|V2:2x3 |V2:3x4", "dtype", "bf16"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "", "<u2:2x3 <u2:3x4", "", "A: "},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "", "f32:2x3 >f4:3x4", "", "big-endian"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "", "i32:2x3 i32:3x4", "dtype", "i32"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "out=i32", "f32:2x3 f32:3x4", "out", "f32, f16, bf16"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "precision=tf32", "f64:2x3 f64:3x4", "precision", "f32"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "alpha=0.5", "i8:2x3 i8:3x4", "alpha", "whole"},
    {FORMAT_NPY, GEMMD_ERR_UNSUPPORTED, "act=gelu", "i8:2x3 i8:3x4", "act", "relu"},
    /* bias and C0 */
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f64:4", "bias", "f64"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "bf16:2x3 bf16:3x4 f32:4", "bias", "f32"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f32:3", "bias", "n=4"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f32:4x1", "bias", "(1, n)"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f32:2x4", "bias", "(1, n)"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "bias=1", "f32:2x3 f32:3x4 f32:1x1x4", "bias", "(n,)"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4 f16:2x4", "beta", "f16"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4 f32:4x2", "beta", "m=2, n=4"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4 f32:2x5", "beta", "m=2, n=4"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4 f32:8", "beta", "m=2, n=4"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:5x2x3 f32:5x3x4 f32:2x4", "beta", "batch=5"},
    {FORMAT_NPY, GEMMD_ERR_MALFORMED, "beta=1", "f32:2x3 f32:3x4 f32:2x2x4", "beta", "batch=1"},
    /* safetensors: names */
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "", "", "a and b"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "a=f32:2x3", "", "a and b"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "a=w&m=2", "a=f32:2x3 b=f32:3x4", "", "a and b"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "A=f32:2x3 b=f32:3x4", "", "'A'"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "a=f32:2x3 b=f32:3x4 x=f32:1", "", "'x'"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "bias=1", "a=f32:2x3 b=f32:3x4", "bias", "bias=1"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "bias=0", "a=f32:2x3 b=f32:3x4 bias=f32:4", "bias",
     "bias=0"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "a=f32:2x3 b=f32:3x4 c=f32:2x4", "beta",
     "beta=0"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "beta=0", "a=f32:2x3 b=f32:3x4 c=f32:2x4", "beta",
     "beta=0"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "beta=1", "a=f32:2x3 b=f32:3x4", "beta",
     "needs a tensor 'c'"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "a=f32: b=f32:3x4", "", "scalar"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "", "a=f32:2x3 b=f32:2x4", "k", "by that of A"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_MALFORMED, "dtype=bf16", "a=f32:2x3 b=f32:3x4", "dtype", "bf16"},
    {FORMAT_SAFETENSORS, GEMMD_ERR_UNSUPPORTED, "", "a=I64:2x3 b=f32:3x4", "", "I64"},
};

START_TEST(wrong_bodies_are_refused)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    unsigned char *exact;
    (wrong[_i].format == FORMAT_NPY ? spell_npy : spell_safetensors)(&body, wrong[_i].body);
    enum gemmd_error code =
        bind(&request, wrong[_i].query, wrong[_i].format, &body, &operands, &exact, &fault);
    ck_assert_msg(code == wrong[_i].code, "'%s' with '%s': %s (%s)", wrong[_i].body,
                  wrong[_i].query, error_name(code), fault.detail);
    ck_assert_msg(strstr(fault.detail, wrong[_i].says) != NULL, "'%s' does not say '%s'",
                  fault.detail, wrong[_i].says);
    ck_assert_str_eq(fault.field, wrong[_i].field);
    ck_assert_uint_lt(strlen(fault.detail), sizeof fault.detail - 1); /* nothing was cut */
    free(exact);
}
END_TEST

/* ---- raw bodies ---- */

static const struct {
    const char *query;
    uint64_t a, b, bias, c0; /* bytes; 0: not there */
    const char *bound;
} raw[] = {
    {"m=2&n=4&k=3", 24, 48, 0, 0, "m2 n4 k3 batch1 f32 f32 a1:2,3 b2:3,4"},
    {"m=2&n=4&k=3&transa=1&transb=1", 24, 48, 0, 0, "m2 n4 k3 batch1 f32 f32 a1:3,2T b2:4,3T"},
    {"m=2&n=4&k=3&bias=1&beta=1&dtype=f8_e4m3&batch=5", 30, 60, 8, 80,
     "m2 n4 k3 batch5 f8_e4m3 bf16 a1:5,2,3 b2:5,3,4 bias3:4 c4:5,2,4"},
    {"m=1&n=1&k=1&bias=1&dtype=i8", 1, 1, 4, 0, "m1 n1 k1 batch1 i8 i32 a1:1,1 b2:1,1 bias3:1"},
    {"m=2&n=4&k=3&a=w", 0, 48, 0, 0, "m2 n4 k3 batch1 f32 f32 b2:3,4"},
    {"m=2&n=4&k=3&a=w&b=v&beta=2", 0, 0, 0, 32, "m2 n4 k3 batch1 f32 f32 c4:2,4"},
};

START_TEST(raw_bodies_are_cut_up_in_order)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    unsigned char *exact;
    char bound[256];
    body.length = 0;
    append_filling(&body, 1, raw[_i].a);
    append_filling(&body, 2, raw[_i].b);
    append_filling(&body, 3, raw[_i].bias);
    append_filling(&body, 4, raw[_i].c0);
    ck_assert_msg(bind(&request, raw[_i].query, FORMAT_RAW, &body, &operands, &exact, &fault) ==
                      GEMMD_OK,
                  "%s: %s", raw[_i].query, fault.detail);
    describe(bound, sizeof bound, &request, &operands, exact, body.length);
    ck_assert_str_eq(bound, raw[_i].bound);
    ck_assert_uint_eq(gemm_request_check_raw_bytes(&request, body.length, &fault), GEMMD_OK);
    free(exact);
}
END_TEST

START_TEST(raw_bodies_of_another_length_are_refused)
{
    static struct body body;
    const uint64_t right_length = raw[_i].a + raw[_i].b + raw[_i].bias + raw[_i].c0;
    for (uint64_t length = 0; length <= right_length + 8; length++) {
        struct gemm_request request;
        struct gemm_operands operands;
        struct fault fault;
        unsigned char *exact;
        char expected[32], received[32];
        if (length == right_length)
            continue;
        body.length = 0;
        append_filling(&body, 0, length);
        ck_assert_uint_eq(
            bind(&request, raw[_i].query, FORMAT_RAW, &body, &operands, &exact, &fault),
            GEMMD_ERR_MALFORMED);
        snprintf(received, sizeof received, "body is %" PRIu64 " bytes", length);
        snprintf(expected, sizeof expected, "take %" PRIu64, right_length);
        ck_assert_ptr_nonnull(strstr(fault.detail, received));
        ck_assert_ptr_nonnull(strstr(fault.detail, expected));
        free(exact);
    }
}
END_TEST

START_TEST(raw_sizes_past_64_bits_are_too_large)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    unsigned char *exact;
    body.length = 0;
    append_filling(&body, 0, 64);
    ck_assert_uint_eq(bind(&request, "m=2147483647&n=2147483647&k=2147483647&batch=2147483647",
                           FORMAT_RAW, &body, &operands, &exact, &fault),
                      GEMMD_ERR_TOO_LARGE);
    ck_assert_uint_eq(gemm_request_check_raw_bytes(&request, 64, &fault), GEMMD_ERR_TOO_LARGE);
    free(exact);
}
END_TEST

/* The body is refused for its first two arrays before the header of the bias has arrived. */
START_TEST(a_front_without_its_bias_is_checked)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    spell_npy(&body, "f32:2x3 f32:2x4");
    struct body_front front = {
        .bytes = body.bytes, .length = body.length + 16, .received = body.length};
    ck_assert_uint_eq(set(&request, "bias=1", FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert_uint_eq(gemm_request_bind_front(&request, FORMAT_NPY, &front, &operands, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "k");
}
END_TEST

/* ---- arrays from places of their own ---- */

static const struct {
    const char *query;
    bool a, b, bias, c0;
    enum gemmd_error code;
    const char *field;
} tensors[] = {
    {"", 1, 1, 0, 0, GEMMD_OK, ""},
    {"beta=1", 1, 1, 1, 1, GEMMD_OK, ""},
    {"", 0, 1, 0, 0, GEMMD_ERR_MALFORMED, "a"},
    {"", 1, 0, 0, 0, GEMMD_ERR_MALFORMED, "b"},
    {"", 1, 1, 0, 1, GEMMD_ERR_MALFORMED, "beta"},
    {"beta=1", 1, 1, 0, 0, GEMMD_ERR_MALFORMED, "beta"},
    {"k=4", 1, 1, 0, 0, GEMMD_ERR_MALFORMED, "k"},
    {"dtype=bf16", 1, 1, 0, 0, GEMMD_ERR_MALFORMED, "dtype"},
    {"a=w&m=2", 0, 1, 0, 0, GEMMD_OK, ""},
    {"b=v&n=4", 1, 0, 0, 0, GEMMD_OK, ""},
    {"b=v", 1, 1, 0, 0, GEMMD_OK, ""}, /* the resident B is among the operands */
};

START_TEST(tensors_are_bound_by_the_same_rules)
{
    static unsigned char a[24], b[48], bias[16], c0[32];
    struct gemm_request request;
    struct gemm_operands operands = {.transa = false};
    struct fault fault = {.code = GEMMD_OK};
    const uint64_t dims[] = {2, 3, 4}, c_dims[] = {2, 4};
    ck_assert(!tensors[_i].a || tensor_init(&operands.a, GEMMD_F32, dims, 2, a));
    ck_assert(!tensors[_i].b || tensor_init(&operands.b, GEMMD_F32, dims + 1, 2, b));
    ck_assert(!tensors[_i].bias || tensor_init(&operands.bias, GEMMD_F32, dims + 2, 1, bias));
    ck_assert(!tensors[_i].c0 || tensor_init(&operands.c0, GEMMD_F32, c_dims, 2, c0));
    ck_assert_uint_eq(set(&request, tensors[_i].query, FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert_uint_eq(gemm_request_bind_tensors(&request, &operands, &fault), tensors[_i].code);
    ck_assert_str_eq(fault.field, tensors[_i].field);
    if (tensors[_i].code == GEMMD_OK) {
        ck_assert_uint_eq(request.m, 2);
        ck_assert_uint_eq(request.n, 4);
        ck_assert_uint_eq(request.k, 3);
        ck_assert_uint_eq(request.batch, 1);
        ck_assert_int_eq(request.bias, tensors[_i].bias);
        ck_assert(!tensors[_i].b || operands.b.data == b);
    }
}
END_TEST

/* A resident B of two dimensions is multiplied with every A of the batch. */
START_TEST(one_b_serves_a_batch_of_a)
{
    static unsigned char a[5 * 24], b[48];
    struct gemm_request request;
    struct gemm_operands operands = {.transa = false};
    struct fault fault;
    const uint64_t dims[] = {5, 2, 3, 4};
    ck_assert(tensor_init(&operands.a, GEMMD_F32, dims, 3, a));
    ck_assert(tensor_init(&operands.b, GEMMD_F32, dims + 2, 2, b));
    ck_assert_uint_eq(set(&request, "b=v", FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert_uint_eq(gemm_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    ck_assert(request.one_b);
    ck_assert_uint_eq(request.batch, 5);
    ck_assert_uint_eq(request.m, 2);
    ck_assert_uint_eq(request.n, 4);
    ck_assert_uint_eq(set(&request, "", FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert_uint_eq(gemm_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
}
END_TEST

/* ---- any body cut short or grown ---- */

/* ---- resident operands ---- */

static const struct {
    const char *query;
    uint64_t a[3], b[3]; /* dimensions; all 0: not resident */
    uint32_t a_rank, b_rank;
    enum gemmd_error code;
    const char *field;
    uint64_t m, n, k, batch;
} residents[] = {
    {"", {0}, {0}, 0, 0, GEMMD_OK, "", 0, 0, 0, 1},
    {"a=w&b=v", {2, 3}, {3, 4}, 2, 2, GEMMD_OK, "", 2, 4, 3, 1},
    {"a=w&b=v", {5, 2, 3}, {3, 4}, 3, 2, GEMMD_OK, "", 2, 4, 3, 5},
    {"a=w&b=v", {5, 2, 3}, {5, 3, 4}, 3, 3, GEMMD_OK, "", 2, 4, 3, 5},
    {"a=w&b=v&batch=5", {5, 2, 3}, {5, 3, 4}, 3, 3, GEMMD_OK, "", 2, 4, 3, 5},
    {"b=v&transb=1", {0}, {4, 3}, 0, 2, GEMMD_OK, "", 0, 4, 3, 1},
    {"a=w", {2, 3}, {0}, 2, 0, GEMMD_OK, "", 2, 0, 3, 1},
    {"a=w&b=v", {2, 3}, {2, 4}, 2, 2, GEMMD_ERR_MALFORMED, "k", 0, 0, 0, 0},
    {"a=w&b=v", {5, 2, 3}, {6, 3, 4}, 3, 3, GEMMD_ERR_MALFORMED, "batch", 0, 0, 0, 0},
    {"a=w&m=3", {2, 3}, {0}, 2, 0, GEMMD_ERR_MALFORMED, "m", 0, 0, 0, 0},
};

START_TEST(residents_give_the_dimensions)
{
    struct gemm_request request;
    struct fault fault = {.code = GEMMD_OK};
    struct tensor a, b;
    const uint32_t a_rank = residents[_i].a_rank, b_rank = residents[_i].b_rank;
    ck_assert_uint_eq(set(&request, residents[_i].query, FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert(a_rank == 0 || tensor_init(&a, GEMMD_F32, residents[_i].a, a_rank, NULL));
    ck_assert(b_rank == 0 || tensor_init(&b, GEMMD_F32, residents[_i].b, b_rank, NULL));
    ck_assert_uint_eq(gemm_request_settle_residents(&request, a_rank > 0 ? &a : NULL,
                                                    b_rank > 0 ? &b : NULL, &fault),
                      residents[_i].code);
    ck_assert_str_eq(fault.field, residents[_i].field);
    if (residents[_i].code != GEMMD_OK)
        return;
    ck_assert_uint_eq(request.m, residents[_i].m);
    ck_assert_uint_eq(request.n, residents[_i].n);
    ck_assert_uint_eq(request.k, residents[_i].k);
    ck_assert_uint_eq(request.batch, residents[_i].batch);
    ck_assert_int_eq(request.one_b, b_rank == 2);
    ck_assert_int_eq(gemm_request_given(&request, "dtype"), a_rank + b_rank > 0);
    /* One resident B serves whatever batch the body has. */
    ck_assert_int_eq(gemm_request_given(&request, "batch"), a_rank > 0 || b_rank == 3);
}
END_TEST

START_TEST(residents_of_two_types_are_refused)
{
    const uint64_t dims[] = {2, 2};
    struct gemm_request request;
    struct fault fault;
    struct tensor a, b;
    ck_assert_uint_eq(set(&request, "a=w&b=v", FORMAT_NPY, &fault), GEMMD_OK);
    ck_assert(tensor_init(&a, GEMMD_F32, dims, 2, NULL) &&
              tensor_init(&b, GEMMD_F16, dims, 2, NULL));
    ck_assert_uint_eq(gemm_request_settle_residents(&request, &a, &b, &fault), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(a_body_that_contradicts_a_resident_operand_names_it)
{
    static unsigned char data[64];
    static const struct {
        const char *query, *says;
        uint64_t a[2], b[2];
    } cases[] = {{"b=v", "that of the tensor 'v'", {2, 4}, {3, 4}},
                 {"a=w", "that of the tensor 'w'", {2, 3}, {2, 4}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gemm_request request;
        struct fault fault;
        struct gemm_operands operands = {.transa = false};
        struct tensor resident;
        const bool is_b = i == 0;
        ck_assert_uint_eq(set(&request, cases[i].query, FORMAT_NPY, &fault), GEMMD_OK);
        ck_assert(tensor_init(&resident, GEMMD_F32, is_b ? cases[i].b : cases[i].a, 2, NULL));
        ck_assert_uint_eq(gemm_request_settle_residents(&request, is_b ? NULL : &resident,
                                                        is_b ? &resident : NULL, &fault),
                          GEMMD_OK);
        ck_assert(tensor_init(is_b ? &operands.a : &operands.b, GEMMD_F32,
                              is_b ? cases[i].a : cases[i].b, 2, data));
        ck_assert_uint_eq(gemm_request_bind_tensors(&request, &operands, &fault),
                          GEMMD_ERR_MALFORMED);
        ck_assert_msg(strstr(fault.detail, cases[i].says) != NULL, "%s", fault.detail);
    }
}
END_TEST

/* A body as long as several of the requests asks whether batch is missing. */
START_TEST(the_batch_of_a_long_body_is_guessed)
{
    static struct body body;
    struct gemm_request request;
    struct gemm_operands operands;
    struct fault fault;
    unsigned char *exact;
    static const struct {
        uint64_t bytes;
        bool guessed;
    } cases[] = {{72 * 5, true}, {72 * 5 + 4, false}, {36, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        body.length = 0;
        append_filling(&body, 0, cases[i].bytes);
        ck_assert_uint_eq(
            bind(&request, "m=2&n=4&k=3", FORMAT_RAW, &body, &operands, &exact, &fault),
            GEMMD_ERR_MALFORMED);
        ck_assert_msg((strstr(fault.detail, "is batch=5 missing") != NULL) == cases[i].guessed,
                      "%s", fault.detail);
        free(exact);
    }
}
END_TEST

START_TEST(truncated_at_every_byte)
{
    static struct body whole, body;
    const enum format format = _i == 0 ? FORMAT_NPY : FORMAT_SAFETENSORS;
    if (format == FORMAT_NPY)
        spell_npy(&whole, "f32:2x3 f32:3x4 f32:4 f32:2x4");
    else
        spell_safetensors(&whole, "a=f32:2x3 b=f32:3x4 bias=f32:4 c=f32:2x4");
    for (uint64_t length = 0; length <= whole.length + 1; length++) {
        struct gemm_request request;
        struct gemm_operands operands;
        struct fault fault;
        unsigned char *exact;
        body = whole;
        body.length = length;
        enum gemmd_error code =
            bind(&request, "bias=1&beta=1", format, &body, &operands, &exact, &fault);
        ck_assert_msg(code == (length == whole.length ? GEMMD_OK : GEMMD_ERR_MALFORMED),
                      "%" PRIu64 " of %" PRIu64 " bytes: %s", length, whole.length, fault.detail);
        free(exact);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gemm_bind");
    tcase_add_loop_test(tests, right_bodies_are_bound, 0, COUNT(right));
    tcase_add_loop_test(tests, wrong_bodies_are_refused, 0, COUNT(wrong));
    tcase_add_loop_test(tests, raw_bodies_are_cut_up_in_order, 0, COUNT(raw));
    tcase_add_loop_test(tests, raw_bodies_of_another_length_are_refused, 0, COUNT(raw));
    tcase_add_test(tests, raw_sizes_past_64_bits_are_too_large);
    tcase_add_test(tests, a_front_without_its_bias_is_checked);
    tcase_add_test(tests, one_b_serves_a_batch_of_a);
    tcase_add_loop_test(tests, tensors_are_bound_by_the_same_rules, 0, COUNT(tensors));
    tcase_add_loop_test(tests, residents_give_the_dimensions, 0, COUNT(residents));
    tcase_add_test(tests, residents_of_two_types_are_refused);
    tcase_add_test(tests, a_body_that_contradicts_a_resident_operand_names_it);
    tcase_add_test(tests, the_batch_of_a_long_body_is_guessed);
    tcase_add_loop_test(tests, truncated_at_every_byte, 0, 2);
    Suite *suite = suite_create("gemm_bind");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
