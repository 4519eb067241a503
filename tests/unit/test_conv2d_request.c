/* proto/conv2d_request.c and conv2d_bind.c: the parameters of a convolution, and its operands in
 * bodies of each format. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/conv2d_request.h"
#include "proto/operands.h"
#include "proto/parameter.h"

static struct fault fault;

/* Sets the parameters of a query. */
static enum gemmd_error set(struct conv2d_request *request, const char *query)
{
    char text[512], *rest = text;
    snprintf(text, sizeof text, "%s", query);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        if (name[0] == '\0')
            continue;
        const enum gemmd_error code = conv2d_request_set(request, name, pair, &fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static enum gemmd_error read_raw(struct conv2d_request *request, const char *query)
{
    conv2d_request_init(request);
    const enum gemmd_error code = set(request, query);
    return code == GEMMD_OK ? conv2d_request_check(request, FORMAT_RAW, &fault) : code;
}

/* One image of 2 x 4 x 5, two filters of 2 x 3 x 3: Y is 2 x 2 x 3. */
#define SIZES "channels=2&height=4&width=5&filters=2&filter_h=3&filter_w=3"

static const struct {
    const char *query;
    const char *shape; /* of Y, or the field at fault */
    enum gemmd_error code;
    enum gemmd_dtype out;
} queries[] = {
    {SIZES, "1,2,2,3", GEMMD_OK, GEMMD_F32},
    {SIZES "&layout=nhwc&batch=3", "3,2,3,2", GEMMD_OK, GEMMD_F32},
    {SIZES "&padding=same", "1,2,4,5", GEMMD_OK, GEMMD_F32},
    {SIZES "&padding=1", "1,2,4,5", GEMMD_OK, GEMMD_F32},
    {SIZES "&padding=1,0", "1,2,4,3", GEMMD_OK, GEMMD_F32},
    {SIZES "&padding=1,2,3,4", "1,2,5,10", GEMMD_OK, GEMMD_F32},
    {SIZES "&stride=2", "1,2,1,2", GEMMD_OK, GEMMD_F32},
    {SIZES "&stride=1,3", "1,2,2,1", GEMMD_OK, GEMMD_F32},
    {SIZES "&dilation=1,2", "1,2,2,1", GEMMD_OK, GEMMD_F32},
    {SIZES "&dtype=f16", "1,2,2,3", GEMMD_OK, GEMMD_F16},
    {SIZES "&dtype=bf16&out=bf16", "1,2,2,3", GEMMD_OK, GEMMD_BF16},
    {SIZES "&dtype=i8", "1,2,2,3", GEMMD_OK, GEMMD_I32},
    {SIZES "&dtype=i8&out=f32&alpha=0.5&act=gelu", "1,2,2,3", GEMMD_OK, GEMMD_F32},
    {SIZES "&dtype=i8&alpha=-2147483648&act=relu", "1,2,2,3", GEMMD_OK, GEMMD_I32},
    {SIZES "&precision=tf32", "1,2,2,3", GEMMD_OK, GEMMD_F32},
    {"channels=2&height=4&width=5&filters=2&filter_h=3", "filter_w", GEMMD_ERR_MALFORMED, 0},
    {"height=4&width=5&filters=2&filter_h=3&filter_w=3", "channels", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&dtype=f64", "dtype", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&dtype=f31", "dtype", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&out=i8", "out", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&out=f31", "out", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&out=f16", "out", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=i8&out=f16", "out", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=f16&precision=tf32", "precision", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=i8&alpha=0.5", "alpha", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&alpha=1e39", "alpha", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&dtype=i8&out=f32&alpha=-3.4028236e38", "alpha", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&dtype=i8&alpha=2147483648", "alpha", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=i8&alpha=-2147483649", "alpha", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&dtype=i8&act=silu", "act", GEMMD_ERR_UNSUPPORTED, 0},
    {SIZES "&stride=0", "stride", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&stride=1,2,3", "stride", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&stride=1,", "stride", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&stride=2147483648", "stride", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&stride=000000000000000000000001", "stride", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&padding=1,2,3", "padding", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&padding=1,2,3,4,5", "padding", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&padding=-1", "padding", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&groups=3", "groups", GEMMD_ERR_MALFORMED, 0},
    {SIZES "&stride=1&stride=1", "stride", GEMMD_ERR_MALFORMED, 0},
    {"channels=2147483647&height=1&width=1&filters=1&filter_h=1&filter_w=2&padding=1", "channels",
     GEMMD_ERR_TOO_LARGE, 0},
    {"channels=2147483647&height=1&width=1&filters=1&filter_h=2147483647&filter_w=2147483647&"
     "padding=1073741823",
     "channels", GEMMD_ERR_TOO_LARGE, 0},
    {"channels=1&height=2147483647&width=1&filters=1&filter_h=1&filter_w=1", "1,1,2147483647,1",
     GEMMD_OK, GEMMD_F32},
    {"channels=1&height=65536&width=32768&filters=1&filter_h=1&filter_w=1", "padding",
     GEMMD_ERR_TOO_LARGE, 0},
    {"channels=1073741823&height=1&width=2&filters=1&filter_h=1&filter_w=2", "1,1,1,1", GEMMD_OK,
     GEMMD_F32},
    {"channels=1073741824&height=1&width=2&filters=1&filter_h=1&filter_w=2", "channels",
     GEMMD_ERR_TOO_LARGE, 0},
};

START_TEST(parameters_make_a_result)
{
    struct conv2d_request request;
    struct tensor y;
    char shape[128];
    const enum gemmd_error code = read_raw(&request, queries[_i].query);
    ck_assert_msg(code == queries[_i].code, "%s: %d: %s", queries[_i].query, (int)code,
                  fault.detail);
    if (code != GEMMD_OK) {
        ck_assert_msg(strcmp(fault.field, queries[_i].shape) == 0, "%s: %s", queries[_i].query,
                      fault.detail);
        return;
    }
    ck_assert(conv2d_request_result(&request, &y));
    tensor_shape_text(&y, shape, sizeof shape);
    ck_assert_str_eq(shape, queries[_i].shape);
    ck_assert_int_eq(y.dtype, queries[_i].out);
}
END_TEST

START_TEST(a_result_of_impossible_sizes_is_none)
{
    struct conv2d_request request;
    struct tensor y;
    ck_assert_int_eq(read_raw(&request, SIZES), GEMMD_OK);
    request.filter_h = 5;
    ck_assert(!conv2d_request_result(&request, &y));
}
END_TEST

/* ---- raw bodies ---- */

enum { X_BYTES = 2 * 4 * 5 * 4, W_BYTES = 2 * 2 * 3 * 3 * 4, BIAS_BYTES = 2 * 4 };

static char body[1024];

START_TEST(a_raw_body_has_x_then_w_then_the_bias)
{
    struct conv2d_request request;
    struct conv2d_operands operands;
    ck_assert_int_eq(read_raw(&request, SIZES "&bias=1"), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_bind(&request, FORMAT_RAW, body, X_BYTES + W_BYTES + BIAS_BYTES,
                                         &operands, &fault),
                     GEMMD_OK);
    ck_assert_ptr_eq(operands.x.data, body);
    ck_assert_ptr_eq(operands.w.data, body + X_BYTES);
    ck_assert_ptr_eq(operands.bias.data, body + X_BYTES + W_BYTES);
}
END_TEST

/* The detail of the refusal of a raw body of so many bytes. */
static const char *refusal(const char *query, uint64_t bytes)
{
    struct conv2d_request request;
    struct conv2d_operands operands;
    ck_assert_int_eq(read_raw(&request, query), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_bind(&request, FORMAT_RAW, body, bytes, &operands, &fault),
                     GEMMD_ERR_MALFORMED);
    return fault.detail;
}

START_TEST(a_refusal_guesses_the_parameter_that_was_meant)
{
    ck_assert_ptr_nonnull(strstr(refusal(SIZES "&bias=1", X_BYTES + W_BYTES), "bias missing"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "with bias"));
    ck_assert_ptr_nonnull(
        strstr(refusal(SIZES, X_BYTES + W_BYTES + BIAS_BYTES), "is bias=1 missing"));
    ck_assert_ptr_null(strstr(fault.detail, "with bias"));
    ck_assert_ptr_nonnull(strstr(refusal(SIZES, (X_BYTES + W_BYTES) / 2), "f16"));
    ck_assert_ptr_nonnull(strstr(refusal(SIZES, (X_BYTES + W_BYTES) / 4), "i8"));
    ck_assert_ptr_null(strstr(refusal(SIZES "&w=edges", X_BYTES / 2), "f16"));
    ck_assert_ptr_null(strstr(refusal(SIZES, 7), " is bias"));
    ck_assert_ptr_null(strstr(refusal(SIZES, 0), " is bias"));
}
END_TEST

/* The length of X fits in 64 bits in i8, and does not fit in f32. */
START_TEST(a_guess_that_overflows_is_no_guess)
{
    const char *says = refusal("batch=2147483647&channels=2147483647&height=1&width=1&filters=1&"
                               "filter_h=1&filter_w=1&dtype=i8",
                               4);
    ck_assert_ptr_nonnull(strstr(says, "the body is 4 bytes"));
    ck_assert_ptr_null(strstr(says, "(dtype)"));
}
END_TEST

START_TEST(sizes_that_overflow_have_no_layout)
{
    struct conv2d_request request;
    struct conv2d_operands operands;
    ck_assert_int_eq(read_raw(&request,
                              "batch=2147483647&channels=2147483647&height=2147483647&width=1&"
                              "filters=1&filter_h=1&filter_w=1"),
                     GEMMD_OK);
    ck_assert_int_eq(conv2d_request_bind(&request, FORMAT_RAW, body, 4, &operands, &fault),
                     GEMMD_ERR_TOO_LARGE);
}
END_TEST

/* ---- .npy bodies ---- */

static size_t body_bytes;

/* Appends an array of f32 with a shape such as "1,2,4,5" to the body. */
static void append_npy(const char *descr, const char *shape, size_t data_bytes)
{
    char *at = body + body_bytes;
    memcpy(at, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(at + 10, ' ', 118);
    const int length = snprintf(
        at + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    at[10 + length] = ' ';
    at[127] = '\n';
    memset(at + 128, 0, data_bytes);
    body_bytes += 128 + data_bytes;
}

static enum gemmd_error bind_body(struct conv2d_request *request, enum format format)
{
    struct conv2d_operands operands;
    return conv2d_request_bind(request, format, body, body_bytes, &operands, &fault);
}

START_TEST(arrays_give_type_and_sizes)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    ck_assert_int_eq(set(&request, "bias=1"), GEMMD_OK);
    append_npy("<f4", "1,2,4,5", X_BYTES);
    append_npy("<f4", "2,2,3,3", W_BYTES);
    append_npy("<f4", "2,", BIAS_BYTES);
    ck_assert_msg(bind_body(&request, FORMAT_NPY) == GEMMD_OK, "%s", fault.detail);
    ck_assert_uint_eq(request.channels, 2);
    ck_assert_uint_eq(request.width, 5);
    ck_assert_uint_eq(request.filter_h, 3);
    /* Once more with the parameters, which say the same or something else. */
    ck_assert_msg(bind_body(&request, FORMAT_NPY) == GEMMD_OK, "%s", fault.detail);
    request.height = 3;
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "height");
    conv2d_request_init(&request);
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "bias=1 adds a vector"));
    ck_assert_int_eq(set(&request, "w=edges"), GEMMD_OK);
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(a_body_can_end_too_soon)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    append_npy("<f4", "1,2,4,5", X_BYTES);
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "before the .npy array of W"));
    body_bytes -= 4;
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_MALFORMED);
}
END_TEST

static const struct {
    const char *x, *w, *bias;
    const char *query, *detail; /* a part of the detail of the refusal */
    enum gemmd_error code;
} arrays[] = {
    {"2,4,5", "2,2,3,3", NULL, "", "batch, channels, height, width", GEMMD_ERR_MALFORMED},
    {"2,4,5", "2,2,3,3", NULL, "layout=nhwc", "batch, height, width, channels",
     GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,3,3", NULL, "", "filters, channels / groups, r, s", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,3,3", NULL, "w_layout=krsc", "filters, r, s, channels / groups",
     GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "batch=2", "batch", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "width=4", "width", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "channels=3", "channels", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "filters=3", "filters", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "filter_h=2", "filter_h", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "filter_w=2", "filter_w", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,1,3,3", NULL, "", "is something else", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "groups=2147483647", "is more than", GEMMD_ERR_TOO_LARGE},
    {"1,2,4,5", "2,2,3,3", NULL, "dtype=f16", "another operand says f16", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", NULL, "out=f16", "not offered", GEMMD_ERR_UNSUPPORTED},
    {"1,2,4,5", "2,2,3,3", "3,", "bias=1", "one vector of filters=2", GEMMD_ERR_MALFORMED},
    {"1,2,4,5", "2,2,3,3", "1,2", "bias=1", "one vector of filters=2", GEMMD_ERR_MALFORMED},
    {"1,5,4,2", "2,3,3,2", "2,", "bias=1&layout=nhwc&w_layout=krsc", "", GEMMD_OK},
    {"1,2,4,5", "2,1,3,3", NULL, "groups=2", "", GEMMD_OK},
    {"1,2,4,5", "2,2,3,3", NULL, "groups=2", "is something else", GEMMD_ERR_MALFORMED},
};

static size_t bytes_of(const char *shape)
{
    size_t bytes = 4;
    for (const char *at = shape; at[0] != '\0'; at++)
        bytes *= at[0] == ',' ? 1 : (size_t)(at[0] - '0');
    return bytes;
}

START_TEST(arrays_that_contradict_are_refused)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    ck_assert_int_eq(set(&request, arrays[_i].query), GEMMD_OK);
    append_npy("<f4", arrays[_i].x, bytes_of(arrays[_i].x));
    append_npy("<f4", arrays[_i].w, bytes_of(arrays[_i].w));
    if (arrays[_i].bias != NULL)
        append_npy("<f4", arrays[_i].bias, bytes_of(arrays[_i].bias));
    const enum gemmd_error code = bind_body(&request, FORMAT_NPY);
    ck_assert_msg(code == arrays[_i].code, "%d: %s", (int)code, fault.detail);
    if (code != GEMMD_OK)
        ck_assert_msg(strstr(fault.detail, arrays[_i].detail) != NULL ||
                          strcmp(fault.field, arrays[_i].detail) == 0,
                      "%s", fault.detail);
}
END_TEST

START_TEST(a_type_that_is_not_offered_is_refused)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    append_npy("<f8", "1,2,4,5", 2 * X_BYTES);
    append_npy("<f8", "2,2,3,3", 2 * W_BYTES);
    ck_assert_int_eq(bind_body(&request, FORMAT_NPY), GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "dtype");
}
END_TEST

START_TEST(a_resident_w_gives_its_sizes)
{
    const uint64_t dims[] = {2, 2, 3, 3};
    struct conv2d_request request;
    struct tensor w;
    ck_assert(tensor_init(&w, GEMMD_F16, dims, 4, NULL));
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, NULL, NULL, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.filters, 0);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, NULL, &w, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.filters, 2);
    ck_assert_int_eq(request.dtype, GEMMD_F16);
    ck_assert(conv2d_request_given(&request, "dtype"));
}
END_TEST

/* ---- safetensors bodies, and tensors that are found already ---- */

static void write_safetensors(bool with_x, bool with_w, bool with_bias)
{
    char header[512];
    size_t at = 0;
    int length = snprintf(header, sizeof header, "{\"__metadata__\":{\"by\":\"test\"}");
#define ADD(there, name, shape, bytes)                                                             \
    if (there) {                                                                                   \
        length += snprintf(header + length, sizeof header - (size_t)length,                        \
                           ",\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape                    \
                           "],\"data_offsets\":[%zu,%zu]}",                                        \
                           at, at + bytes);                                                        \
        at += bytes;                                                                               \
    }
    ADD(with_x, "x", "1,2,4,5", X_BYTES)
    ADD(with_w, "w", "2,2,3,3", W_BYTES)
    ADD(with_bias, "bias", "2", BIAS_BYTES)
#undef ADD
    length += snprintf(header + length, sizeof header - (size_t)length, "}");
    const uint64_t header_bytes = (uint64_t)length;
    memcpy(body, &header_bytes, sizeof header_bytes);
    memcpy(body + sizeof header_bytes, header, header_bytes);
    memset(body + sizeof header_bytes + header_bytes, 0, at);
    body_bytes = sizeof header_bytes + header_bytes + at;
}

START_TEST(named_arrays_are_found_by_name)
{
    struct conv2d_request request;
    write_safetensors(true, true, true);
    conv2d_request_init(&request);
    ck_assert_msg(bind_body(&request, FORMAT_SAFETENSORS) == GEMMD_OK, "%s", fault.detail);
    ck_assert(request.bias);
    ck_assert_uint_eq(request.channels, 2);
    conv2d_request_init(&request);
    ck_assert_int_eq(set(&request, "bias=0"), GEMMD_OK);
    ck_assert_int_eq(bind_body(&request, FORMAT_SAFETENSORS), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "bias");
    ck_assert_ptr_nonnull(strstr(fault.detail, "there is no tensor 'bias'"));
    write_safetensors(true, true, false);
    conv2d_request_init(&request);
    ck_assert_int_eq(bind_body(&request, FORMAT_SAFETENSORS), GEMMD_OK);
    ck_assert(!request.bias);
    write_safetensors(true, false, false);
    ck_assert_int_eq(bind_body(&request, FORMAT_SAFETENSORS), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "'w' is missing"));
    write_safetensors(false, true, false);
    ck_assert_int_eq(bind_body(&request, FORMAT_SAFETENSORS), GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "'x' is missing"));
    body_bytes = 3;
    ck_assert_int_ne(bind_body(&request, FORMAT_SAFETENSORS), GEMMD_OK);
}
END_TEST

START_TEST(tensors_that_are_there_are_bound)
{
    const uint64_t x_dims[] = {1, 2, 4, 5}, w_dims[] = {2, 2, 3, 3}, filters = 2;
    const struct conv2d_operands none = {.x = {.rank = 0}};
    struct conv2d_request request;
    struct conv2d_operands operands = none;
    conv2d_request_init(&request);
    ck_assert(tensor_init(&operands.x, GEMMD_F32, x_dims, 4, body));
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "w");
    ck_assert_str_eq(fault.detail, "the request lacks W");
    ck_assert(tensor_init(&operands.w, GEMMD_F32, w_dims, 4, body));
    ck_assert(tensor_init(&operands.bias, GEMMD_F32, &filters, 1, body));
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    ck_assert(request.bias);
    ck_assert(tensor_init(&operands.bias, GEMMD_F16, &filters, 1, body));
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "bias");
    operands = none;
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request lacks X");
    ck_assert(tensor_init(&operands.x, GEMMD_F32, x_dims, 4, body));
    ck_assert(tensor_init(&operands.w, GEMMD_F32, w_dims, 4, body));
    ck_assert_int_eq(set(&request, "w=edges"), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request sends W, which is resident");
}
END_TEST

/* ---- the kinds of convolutions that kernels tell apart ---- */

START_TEST(kinds_are_told_apart)
{
    static const struct {
        const char *query;
        bool pointwise, depthwise;
    } cases[] = {
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=1", true, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=2&filter_w=1", false, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=2", false, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=1&groups=2", false, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=1&stride=2,1", false, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=1&stride=1,2", false, false},
        {"channels=4&height=4&width=5&filters=4&filter_h=1&filter_w=1&padding=0,0,0,1", false,
         false},
        {"channels=4&height=4&width=5&filters=8&filter_h=1&filter_w=1&groups=4", false, true},
        {"channels=1&height=4&width=5&filters=8&filter_h=1&filter_w=1", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct conv2d_request request;
        struct conv_shape shape;
        ck_assert_int_eq(read_raw(&request, cases[i].query), GEMMD_OK);
        ck_assert_int_eq(conv2d_request_shape(&request, &shape, &fault), GEMMD_OK);
        ck_assert_msg(conv_shape_is_pointwise(&shape) == cases[i].pointwise, "%s", cases[i].query);
        ck_assert_msg(conv_shape_is_depthwise(&shape) == cases[i].depthwise, "%s", cases[i].query);
    }
}
END_TEST

/* A sentence that would be too long names fewer parameters, and keeps its end. */
START_TEST(unknown_names_are_answered_with_known_ones)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_set(&request, "v", "1", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "v");
    ck_assert_ptr_nonnull(strstr(fault.detail, "those of /conv2d are batch, channels, "));
    ck_assert_ptr_nonnull(strstr(fault.detail, ", timeout_ms, priority"));
    ck_assert_ptr_null(strstr(fault.detail, "..."));
    ck_assert_int_eq(conv2d_request_set(&request, "precisions", "full", &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "those of /conv2d are batch, channels, "));
    ck_assert_ptr_nonnull(strstr(fault.detail, ", ...; did you mean precision?"));
    ck_assert_uint_lt(strlen(fault.detail), sizeof fault.detail - 1);
    ck_assert_int_eq(
        conv2d_request_set(&request, "a_name_of_forty_characters_that_nobody_has", "1", &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail + strlen(fault.detail) - 5, ", ...");
}
END_TEST

START_TEST(a_result_can_be_stored)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    ck_assert_str_eq(request.store, "");
    ck_assert_int_eq(conv2d_request_set(&request, "store", "a name", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(conv2d_request_set(&request, "store", "y-1", &fault), GEMMD_OK);
    ck_assert_str_eq(request.store, "y-1");
    ck_assert(conv2d_request_given(&request, "store"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv2d_request");
    TCase *tests = tcase_create("conv2d_request");
    tcase_add_loop_test(tests, parameters_make_a_result, 0,
                        (int)(sizeof queries / sizeof *queries));
    tcase_add_test(tests, a_result_of_impossible_sizes_is_none);
    tcase_add_test(tests, a_raw_body_has_x_then_w_then_the_bias);
    tcase_add_test(tests, a_refusal_guesses_the_parameter_that_was_meant);
    tcase_add_test(tests, a_guess_that_overflows_is_no_guess);
    tcase_add_test(tests, sizes_that_overflow_have_no_layout);
    tcase_add_test(tests, arrays_give_type_and_sizes);
    tcase_add_test(tests, a_body_can_end_too_soon);
    tcase_add_loop_test(tests, arrays_that_contradict_are_refused, 0,
                        (int)(sizeof arrays / sizeof *arrays));
    tcase_add_test(tests, a_type_that_is_not_offered_is_refused);
    tcase_add_test(tests, a_resident_w_gives_its_sizes);
    tcase_add_test(tests, named_arrays_are_found_by_name);
    tcase_add_test(tests, tensors_that_are_there_are_bound);
    tcase_add_test(tests, kinds_are_told_apart);
    tcase_add_test(tests, unknown_names_are_answered_with_known_ones);
    tcase_add_test(tests, a_result_can_be_stored);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
