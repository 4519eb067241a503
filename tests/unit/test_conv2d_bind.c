/* proto/conv2d_bind.c: the operands of a convolution in bodies with headers. test_conv2d_request.c
 * has the parameters, and raw bodies. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/conv2d_request.h"
#include "proto/npy.h"
#include "proto/safetensors.h"

static struct fault fault;

/* One image of 2 channels of 3 x 4, three filters of 2 x 2, and their bias. */
static const uint64_t x_dims[] = {1, 2, 3, 4}, w_dims[] = {3, 2, 2, 2}, bias_dims[] = {3};
static const float x[24], w[24], bias[3];

static struct tensor tensor_of(const uint64_t *dims, uint32_t rank, const void *data)
{
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, rank, data));
    return tensor;
}

/* A body that is being written. */
struct written {
    char bytes[2048];
    uint64_t length;
};

static void add_bytes(struct written *body, const void *bytes, uint64_t length)
{
    ck_assert_uint_le(body->length + length, sizeof body->bytes);
    memcpy(body->bytes + body->length, bytes, length);
    body->length += length;
}

static void add_npy(struct written *body, const struct tensor *tensor)
{
    char header[SAFETENSORS_HEADER_MAX];
    add_bytes(body, header, npy_header(tensor, header));
    add_bytes(body, tensor->data, tensor->bytes);
}

static void add_safetensors(struct written *body, const struct safetensors_entry entries[],
                            uint32_t count)
{
    char header[SAFETENSORS_HEADER_MAX];
    add_bytes(body, header, safetensors_header(entries, count, header));
    for (uint32_t i = 0; i < count; i++)
        add_bytes(body, entries[i].tensor.data, entries[i].tensor.bytes);
}

static enum gemmd_error bind_written(const char *name, const char *value, enum format format,
                                     const struct written *body, struct conv2d_operands *operands)
{
    struct conv2d_request request;
    conv2d_request_init(&request);
    if (name != NULL)
        ck_assert_int_eq(conv2d_request_set(&request, name, value, &fault), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_check(&request, format, &fault), GEMMD_OK);
    return conv2d_request_bind(&request, format, body->bytes, body->length, operands, &fault);
}

static void expect_refusal(const char *name, const char *value, enum format format,
                           const struct written *body, const char *says)
{
    struct conv2d_operands operands;
    ck_assert_int_eq(bind_written(name, value, format, body, &operands), GEMMD_ERR_MALFORMED);
    ck_assert_msg(strstr(fault.detail, says) != NULL, "%s", fault.detail);
}

START_TEST(arrays_of_npy_bodies_come_in_order)
{
    const struct tensor tx = tensor_of(x_dims, 4, x), tw = tensor_of(w_dims, 4, w),
                        tb = tensor_of(bias_dims, 1, bias);
    struct written body = {.length = 0};
    struct conv2d_operands operands;
    add_npy(&body, &tx);
    expect_refusal(NULL, NULL, FORMAT_NPY, &body, "ends before the .npy array of W");
    add_npy(&body, &tw);
    ck_assert_int_eq(bind_written(NULL, NULL, FORMAT_NPY, &body, &operands), GEMMD_OK);
    ck_assert_uint_eq(operands.w.dims[0], 3);
    ck_assert_uint_eq(operands.bias.rank, 0);
    ck_assert_int_eq(bind_written("dtype", "f32", FORMAT_NPY, &body, &operands), GEMMD_OK);
    expect_refusal("dtype", "f16", FORMAT_NPY, &body, "is of type f32 and the parameter");
    expect_refusal("bias", "1", FORMAT_NPY, &body, "ends before the .npy array of the bias");
    add_npy(&body, &tb);
    expect_refusal(NULL, NULL, FORMAT_NPY, &body, "(bias=1 adds a vector after W)");
    ck_assert_int_eq(bind_written("bias", "1", FORMAT_NPY, &body, &operands), GEMMD_OK);
    ck_assert_uint_eq(operands.bias.dims[0], 3);
}
END_TEST

START_TEST(tensors_of_safetensors_bodies_have_names)
{
    const struct safetensors_entry all[] = {
        {.name = "x", .tensor = tensor_of(x_dims, 4, x)},
        {.name = "w", .tensor = tensor_of(w_dims, 4, w)},
        {.name = "bias", .tensor = tensor_of(bias_dims, 1, bias)}};
    struct written body = {.length = 0};
    struct conv2d_operands operands;
    add_safetensors(&body, all, 3);
    ck_assert_int_eq(bind_written(NULL, NULL, FORMAT_SAFETENSORS, &body, &operands), GEMMD_OK);
    ck_assert_uint_eq(operands.bias.dims[0], 3);
    ck_assert_int_eq(bind_written("bias", "1", FORMAT_SAFETENSORS, &body, &operands), GEMMD_OK);
    expect_refusal("bias", "0", FORMAT_SAFETENSORS, &body, "say that there is no tensor 'bias'");
    ck_assert_str_eq(fault.field, "bias");
    expect_refusal("w", "resident", FORMAT_SAFETENSORS, &body, "say that there is no tensor 'w'");
    ck_assert_str_eq(fault.field, "w");
    body.length = 0;
    add_safetensors(&body, all, 2);
    expect_refusal("bias", "1", FORMAT_SAFETENSORS, &body, "the tensor 'bias' is missing");
    body.length = 0;
    add_safetensors(&body, all + 1, 2);
    expect_refusal(NULL, NULL, FORMAT_SAFETENSORS, &body, "the tensor 'x' is missing");
    ck_assert_str_eq(fault.field, "x");
}
END_TEST

START_TEST(every_type_that_is_offered_is_taken)
{
    static const struct {
        enum gemmd_dtype dtype, out;
    } offered[] = {{GEMMD_F32, GEMMD_F32},
                   {GEMMD_F16, GEMMD_F16},
                   {GEMMD_BF16, GEMMD_BF16},
                   {GEMMD_I8, GEMMD_I32}};
    for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
        struct conv2d_request request;
        struct conv2d_operands operands = {.x = tensor_of(x_dims, 4, x)};
        ck_assert(tensor_init(&operands.x, offered[i].dtype, x_dims, 4, x));
        ck_assert(tensor_init(&operands.w, offered[i].dtype, w_dims, 4, w));
        conv2d_request_init(&request);
        ck_assert_msg(conv2d_request_bind_tensors(&request, &operands, &fault) == GEMMD_OK, "%s",
                      fault.detail);
        ck_assert_int_eq(request.dtype, offered[i].dtype);
        ck_assert_int_eq(request.out, offered[i].out);
    }
}
END_TEST

START_TEST(a_resident_w_is_not_in_the_body)
{
    const struct tensor tx = tensor_of(x_dims, 4, x), tw = tensor_of(w_dims, 4, w);
    struct written body = {.length = 0};
    struct conv2d_request request;
    struct conv2d_operands operands;
    add_npy(&body, &tx);
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_set(&request, "w", "resident", &fault), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, NULL, &tw, &fault), GEMMD_OK);
    ck_assert_int_eq(
        conv2d_request_bind(&request, FORMAT_NPY, body.bytes, body.length, &operands, &fault),
        GEMMD_OK);
    ck_assert_uint_eq(operands.w.rank, 0);
    ck_assert_uint_eq(request.filters, 3);
    ck_assert_uint_eq(request.channels, 2);
}
END_TEST

START_TEST(a_resident_x_is_not_in_the_body)
{
    const struct tensor tx = tensor_of(x_dims, 4, x), tw = tensor_of(w_dims, 4, w);
    struct written body = {.length = 0};
    struct conv2d_request request;
    struct conv2d_operands operands;
    add_npy(&body, &tw);
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_set(&request, "x", "resident", &fault), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, &tx, NULL, &fault), GEMMD_OK);
    ck_assert_int_eq(
        conv2d_request_bind(&request, FORMAT_NPY, body.bytes, body.length, &operands, &fault),
        GEMMD_OK);
    ck_assert_uint_eq(operands.x.rank, 0);
    ck_assert_uint_eq(operands.w.rank, 4);
    ck_assert_uint_eq(request.batch, x_dims[0]);
    ck_assert_uint_eq(request.height, x_dims[2]);
    ck_assert_uint_eq(request.filters, 3);
}
END_TEST

/* A body without X gives no hint of another type, since X has one. */
START_TEST(a_raw_body_of_another_length_beside_a_resident_x)
{
    static const char *const parameters[][2] = {
        {"x", "resident"}, {"filters", "3"}, {"filter_h", "2"}, {"filter_w", "2"}};
    const struct tensor tx = tensor_of(x_dims, 4, x), tw = tensor_of(w_dims, 4, w),
                        tbias = tensor_of(bias_dims, 1, bias);
    struct written body = {.length = 0};
    struct conv2d_request request;
    struct conv2d_operands operands;
    add_bytes(&body, tw.data, tw.bytes);
    add_bytes(&body, tbias.data, tbias.bytes);
    conv2d_request_init(&request);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        ck_assert_int_eq(conv2d_request_set(&request, parameters[i][0], parameters[i][1], &fault),
                         GEMMD_OK);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, &tx, NULL, &fault), GEMMD_OK);
    ck_assert_int_eq(
        conv2d_request_bind(&request, FORMAT_RAW, body.bytes, body.length, &operands, &fault),
        GEMMD_ERR_MALFORMED);
    ck_assert_msg(strstr(fault.detail, "is bias=1 missing") != NULL, "%s", fault.detail);
    ck_assert_msg(strstr(fault.detail, "dtype") == NULL, "%s", fault.detail);
}
END_TEST

START_TEST(residents_that_do_not_fit_each_other)
{
    const uint64_t other[] = {1, x_dims[1] + 1, 4, 5}, flat[] = {4, 5};
    const struct tensor tx = tensor_of(other, 4, x), tw = tensor_of(w_dims, 4, w),
                        matrix = tensor_of(flat, 2, x);
    struct conv2d_request request;
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, &tx, &tw, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_msg(strstr(fault.detail, "the resident W") != NULL, "%s", fault.detail);
    ck_assert_int_eq(conv2d_request_settle_residents(&request, &matrix, NULL, &fault),
                     GEMMD_ERR_MALFORMED);
    ck_assert_msg(strstr(fault.detail, "the resident X has 2 dimensions") != NULL, "%s",
                  fault.detail);
}
END_TEST

/* The inference protocol finds the operands itself. */
START_TEST(tensors_that_a_caller_has_found)
{
    struct conv2d_request request;
    struct conv2d_operands operands = {.x = tensor_of(x_dims, 4, x)};
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request lacks W");
    operands.w = tensor_of(w_dims, 4, w);
    operands.bias = tensor_of(bias_dims, 1, bias);
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_OK);
    ck_assert(request.bias);
    ck_assert_uint_eq(request.filters, 3);
    conv2d_request_init(&request);
    ck_assert_int_eq(conv2d_request_set(&request, "w", "resident", &fault), GEMMD_OK);
    ck_assert_int_eq(conv2d_request_bind_tensors(&request, &operands, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.detail, "the request sends W, which is resident");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conv2d_bind");
    TCase *tests = tcase_create("conv2d_bind");
    tcase_add_test(tests, arrays_of_npy_bodies_come_in_order);
    tcase_add_test(tests, tensors_of_safetensors_bodies_have_names);
    tcase_add_test(tests, every_type_that_is_offered_is_taken);
    tcase_add_test(tests, a_resident_w_is_not_in_the_body);
    tcase_add_test(tests, a_resident_x_is_not_in_the_body);
    tcase_add_test(tests, a_raw_body_of_another_length_beside_a_resident_x);
    tcase_add_test(tests, residents_that_do_not_fit_each_other);
    tcase_add_test(tests, tensors_that_a_caller_has_found);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
