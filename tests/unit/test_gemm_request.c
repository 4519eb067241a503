/* The parameters of /gemm: what each takes, what contradicts, what is not offered. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Sets all of "m=1&n=2"; the first failure ends it. */
static enum gemmd_error set_all(struct gemm_request *request, const char *query,
                                struct fault *fault)
{
    char text[512], *rest = text;
    snprintf(text, sizeof text, "%s", query);
    *fault = (struct fault){.code = GEMMD_OK};
    gemm_request_init(request);
    for (char *pair = strsep(&rest, "&"); pair != NULL && *pair != '\0';
         pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        enum gemmd_error code = gemm_request_set(request, name, pair, fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

/* Sets and checks. */
static enum gemmd_error take(struct gemm_request *request, const char *query, enum format format,
                             struct fault *fault)
{
    enum gemmd_error code = set_all(request, query, fault);
    return code != GEMMD_OK ? code : gemm_request_check(request, format, fault);
}

START_TEST(defaults)
{
    struct gemm_request request;
    struct fault fault;
    ck_assert_uint_eq(take(&request, "m=2&n=3&k=4", FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert_uint_eq(request.m, 2);
    ck_assert_uint_eq(request.n, 3);
    ck_assert_uint_eq(request.k, 4);
    ck_assert_uint_eq(request.batch, 1);
    ck_assert_uint_eq(request.dtype, GEMMD_F32);
    ck_assert_uint_eq(request.out, GEMMD_F32);
    ck_assert_uint_eq(request.precision, GEMM_PRECISION_FULL);
    ck_assert_uint_eq(request.act, GEMM_ACT_NONE);
    ck_assert_uint_eq(request.verify, GEMM_VERIFY_NONE);
    ck_assert(!request.transa && !request.transb && !request.bias);
    ck_assert_double_eq(request.alpha, 1);
    ck_assert_double_eq(request.beta, 0);
    ck_assert_uint_eq(request.priority, 4);
    ck_assert_uint_eq(request.timeout_ms, 0);
    ck_assert_str_eq(request.kernel, "auto");
    ck_assert_int_eq(request.a[0], '\0');
    ck_assert_int_eq(request.b[0], '\0');
    ck_assert_int_eq(request.store[0], '\0');
}
END_TEST

START_TEST(every_parameter_lands_in_its_place)
{
    struct gemm_request request;
    struct fault fault;
    ck_assert_uint_eq(
        take(&request,
             "m=1&n=2147483647&k=3&dtype=bf16&out=f32&precision=full&transa=1&transb=1&alpha=-0.5"
             "&beta=2e1&batch=7&bias=1&act=gelu_tanh&a=W.1&b=w_-2&store=C&kernel=cublas_x9"
             "&verify=none&timeout_ms=250&priority=9",
             FORMAT_RAW, &fault),
        GEMMD_OK);
    ck_assert_uint_eq(request.m, 1);
    ck_assert_uint_eq(request.n, 2147483647);
    ck_assert_uint_eq(request.k, 3);
    ck_assert_uint_eq(request.batch, 7);
    ck_assert_uint_eq(request.dtype, GEMMD_BF16);
    ck_assert_uint_eq(request.out, GEMMD_F32);
    ck_assert(request.transa && request.transb && request.bias);
    ck_assert_double_eq(request.alpha, -0.5);
    ck_assert_double_eq(request.beta, 20);
    ck_assert_uint_eq(request.act, GEMM_ACT_GELU_TANH);
    ck_assert_str_eq(gemm_act_name(request.act), "gelu_tanh");
    ck_assert_str_eq(request.a, "W.1");
    ck_assert_str_eq(request.b, "w_-2");
    ck_assert_str_eq(request.store, "C");
    ck_assert_str_eq(request.kernel, "cublas_x9");
    ck_assert_uint_eq(request.timeout_ms, 250);
    ck_assert_uint_eq(request.priority, 9);
    ck_assert(gemm_request_given(&request, "priority"));
    ck_assert(!gemm_request_given(&request, "nonsense"));

    ck_assert_uint_eq(
        take(&request, "m=1&n=1&k=1&precision=tf32&verify=freivalds", FORMAT_RAW, &fault),
        GEMMD_OK);
    ck_assert_uint_eq(request.precision, GEMM_PRECISION_TF32);
    ck_assert_uint_eq(request.verify, GEMM_VERIFY_FREIVALDS);
    ck_assert(gemm_request_given(&request, "verify") && !gemm_request_given(&request, "beta"));
}
END_TEST

/* Values that no dimension takes. */
static const char *const no_dims[] = {"",
                                      "0",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "1.5",
                                      "1e3",
                                      "0x10",
                                      "nan",
                                      "1,000",
                                      "m",
                                      "2147483648",
                                      "4294967297",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "18446744073709551617",
                                      "1000000000000000000000000000000"};

START_TEST(bad_dimensions_name_their_field)
{
    static const char *const names[] = {"m", "n", "k", "batch", "timeout_ms"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct gemm_request request, before;
        struct fault fault;
        gemm_request_init(&request);
        memcpy(&before, &request, sizeof before);
        ck_assert_msg(gemm_request_set(&request, names[i], no_dims[_i], &fault) ==
                          GEMMD_ERR_MALFORMED,
                      "%s took '%s'", names[i], no_dims[_i]);
        ck_assert_str_eq(fault.field, names[i]);
        ck_assert_ptr_nonnull(strstr(fault.detail, "2147483647")); /* says what is allowed */
        ck_assert_mem_eq(&request, &before, sizeof request);
    }
}
END_TEST

/* One parameter with a value that it does not take. */
static const char *const bad_values[] = {
    "dtype=",
    "dtype=F32",
    "dtype=float32",
    "dtype=i32",
    "dtype=f8",
    "out=i8",
    "out=f8_e4m3",
    "out=u8",
    "precision=half",
    "precision=",
    "transa=2",
    "transa=true",
    "transb=",
    "transb=-1",
    "bias=2",
    "bias=00",
    "alpha=nan",
    "alpha=inf",
    "alpha=-inf",
    "alpha=1e999",
    "alpha=0x1p3",
    "alpha=",
    "alpha=1,5",
    "alpha= 1",
    "beta=NaN",
    "beta=infinity",
    "beta=-1e400",
    "beta=1f",
    "act=",
    "act=tanh",
    "act=ReLU",
    "kernel=",
    "kernel=Cublas",
    "kernel=a-b",
    "kernel=a b",
    "kernel=\xC3\xA9",
    "verify=yes",
    "verify=",
    "timeout_ms=0",
    "timeout_ms=-5",
    "timeout_ms=1.5",
    "priority=10",
    "priority=-1",
    "priority=",
    "priority=4.0",
    "a=",
    "a=a/b",
    "a=..%2f",
    "b=a b",
    "b=\xFF",
    "store=",
    "store=a\nb",
    "kernel=abcdefghijklmnopqrstuvwxyz_012345", /* 33 characters */
};

START_TEST(bad_values_name_their_field)
{
    struct gemm_request request;
    struct fault fault;
    const char *query = bad_values[_i];
    ck_assert_msg(set_all(&request, query, &fault) == GEMMD_ERR_MALFORMED, "took %s", query);
    ck_assert_uint_eq(strlen(fault.field), strcspn(query, "="));
    ck_assert_int_eq(strncmp(fault.field, query, strlen(fault.field)), 0);
    ck_assert_ptr_nonnull(strstr(fault.detail, "it must be"));
    ck_assert_uint_lt(strlen(fault.detail), sizeof fault.detail - 1); /* nothing was cut */
}
END_TEST

START_TEST(names_have_a_longest)
{
    struct gemm_request request;
    struct fault fault;
    char name[GEMM_TENSOR_NAME_MAX + 2];
    memset(name, 'x', sizeof name);
    name[GEMM_TENSOR_NAME_MAX + 1] = '\0';
    gemm_request_init(&request);
    ck_assert_uint_eq(gemm_request_set(&request, "a", name, &fault), GEMMD_ERR_MALFORMED);
    name[GEMM_TENSOR_NAME_MAX] = '\0';
    ck_assert_uint_eq(gemm_request_set(&request, "a", name, &fault), GEMMD_OK);
    ck_assert_str_eq(request.a, name);
    name[GEMM_KERNEL_NAME_MAX] = '\0';
    ck_assert_uint_eq(gemm_request_set(&request, "kernel", name, &fault), GEMMD_OK);
    ck_assert_str_eq(request.kernel, name);
}
END_TEST

START_TEST(unknown_and_repeated_names)
{
    struct gemm_request request;
    struct fault fault;
    ck_assert_uint_eq(set_all(&request, "mm=3", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "mm");
    ck_assert_ptr_nonnull(strstr(fault.detail, "'mm'"));
    ck_assert_ptr_nonnull(strstr(fault.detail, "timeout_ms, priority")); /* lists them all */
    ck_assert_uint_eq(set_all(&request, "M=3", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(set_all(&request, "=3", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(set_all(&request, "m=3&m=3", &fault), GEMMD_ERR_MALFORMED);
    ck_assert_str_eq(fault.field, "m");
    ck_assert_ptr_nonnull(strstr(fault.detail, "twice"));
    ck_assert_uint_eq(set_all(&request, "bias", &fault), GEMMD_ERR_MALFORMED); /* no value */
    ck_assert_str_eq(fault.field, "bias");

    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_uint_eq(gemm_request_set(&request, name, name, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_uint_lt(strlen(fault.detail), sizeof fault.detail - 1);
    ck_assert_uint_eq(gemm_request_set(&request, name, name, NULL), GEMMD_ERR_MALFORMED);
}
END_TEST

/* What the parameters say together. */
static const struct {
    const char *query;
    enum gemmd_error code;
    const char *field, *says;
} together[] = {
    {"", GEMMD_ERR_MALFORMED, "m", "m is missing"},
    {"n=1&k=1", GEMMD_ERR_MALFORMED, "m", "m is missing"},
    {"m=1&k=1", GEMMD_ERR_MALFORMED, "n", "n is missing"},
    {"m=1&n=1", GEMMD_ERR_MALFORMED, "k", "k is missing"},
    {"m=1&n=1&k=1&out=i32", GEMMD_ERR_UNSUPPORTED, "out", "f32, f16, bf16"},
    {"m=1&n=1&k=1&dtype=f64&out=f32", GEMMD_ERR_UNSUPPORTED, "out", "f64"},
    {"m=1&n=1&k=1&dtype=bf16&out=f16", GEMMD_ERR_UNSUPPORTED, "out", "f32, bf16"},
    {"m=1&n=1&k=1&dtype=i8&out=bf16", GEMMD_ERR_UNSUPPORTED, "out", "f32, i32"},
    {"m=1&n=1&k=1&dtype=f16&precision=tf32", GEMMD_ERR_UNSUPPORTED, "precision", "f32"},
    {"m=1&n=1&k=1&precision=tf32", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&precision=f8", GEMMD_ERR_UNSUPPORTED, "precision", "f8_e4m3"},
    {"m=1&n=1&k=1&dtype=f8_e4m3&precision=tf32", GEMMD_ERR_UNSUPPORTED, "precision", "f32"},
    {"m=1&n=1&k=1&dtype=f8_e4m3&precision=f8", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&verify=freivalds&act=relu", GEMMD_ERR_UNSUPPORTED, "verify", "act=none"},
    {"m=1&n=1&k=1&verify=freivalds&act=none", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=i8&alpha=0.5", GEMMD_ERR_UNSUPPORTED, "alpha", "whole"},
    {"m=1&n=1&k=1&dtype=i8&alpha=2147483648", GEMMD_ERR_UNSUPPORTED, "alpha", "32 bits"},
    {"m=1&n=1&k=1&dtype=i8&alpha=-2147483648&beta=2147483647", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=i8&alpha=2e3&beta=-1.0", GEMMD_OK, "", ""},
    /* The largest number of f32, in the digits that print it, and the least that is rounded to
     * infinity. */
    {"m=1&n=1&k=1&alpha=3.4028235e38&beta=-3.4028235e38", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&alpha=3.4028236e38", GEMMD_ERR_MALFORMED, "alpha", "f32 can hold"},
    {"m=1&n=1&k=1&dtype=bf16&beta=-1e39", GEMMD_ERR_MALFORMED, "beta", "f32 can hold"},
    {"m=1&n=1&k=1&dtype=f8_e4m3&alpha=-1e39&beta=1e39", GEMMD_ERR_MALFORMED, "alpha", "bf16"},
    {"m=1&n=1&k=1&dtype=i8&out=f32&beta=1e300", GEMMD_ERR_MALFORMED, "beta", "1e+300"},
    {"m=1&n=1&k=1&dtype=f64&alpha=1e300&beta=-1e308", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&alpha=1e-300&beta=-1e-300", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=i8&beta=1e-3", GEMMD_ERR_UNSUPPORTED, "beta", "whole"},
    {"m=1&n=1&k=1&dtype=i8&beta=-2147483649", GEMMD_ERR_UNSUPPORTED, "beta", "32 bits"},
    {"m=1&n=1&k=1&dtype=i8&act=relu", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=i8&act=silu", GEMMD_ERR_UNSUPPORTED, "act", "none and relu"},
    {"m=1&n=1&k=1&dtype=i8&out=f32&act=silu&alpha=0.5&beta=0.5", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=f8_e4m3&scales=block", GEMMD_OK, "", ""},
    {"m=1&n=1&k=1&dtype=f16&scales=rowcol", GEMMD_ERR_UNSUPPORTED, "scales",
     "scales=rowcol is offered for operands of f8_e4m3 and i8, not of f16"},
    {"m=1&n=1&k=1&dtype=i8&scales=block", GEMMD_ERR_UNSUPPORTED, "scales",
     "scales=block is offered for operands of f8_e4m3, not of i8"},
    {"m=1&n=1&k=1&dtype=i8&scales=rowcol&out=i32", GEMMD_ERR_UNSUPPORTED, "out",
     "i8 with scales; it can be f32, f16, bf16"},
    {"m=1&n=1&k=1&dtype=i8&scales=rowcol&verify=freivalds", GEMMD_ERR_UNSUPPORTED, "verify",
     "scales=none, not with scales=rowcol"},
};

START_TEST(parameters_together)
{
    struct gemm_request request;
    struct fault fault;
    enum gemmd_error code = take(&request, together[_i].query, FORMAT_RAW, &fault);
    ck_assert_msg(code == together[_i].code, "%s: %s (%s)", together[_i].query, error_name(code),
                  fault.detail);
    ck_assert_str_eq(fault.field, together[_i].field);
    ck_assert_msg(strstr(fault.detail, together[_i].says) != NULL, "'%s' does not say '%s'",
                  fault.detail, together[_i].says);
}
END_TEST

START_TEST(the_result_type_follows_the_operands)
{
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        struct gemm_request request;
        struct fault fault;
        char query[64];
        if ((enum gemmd_dtype)i == GEMMD_I32)
            continue;
        snprintf(query, sizeof query, "m=1&n=1&k=1&dtype=%s", dtype_name((enum gemmd_dtype)i));
        ck_assert_uint_eq(take(&request, query, FORMAT_RAW, &fault), GEMMD_OK);
        ck_assert_uint_eq(request.out, dtype_default_out((enum gemmd_dtype)i));
    }
}
END_TEST

/* With arrays to come, shapes and types are not asked for yet; what is given is checked. */
START_TEST(bodies_with_shapes)
{
    static const enum format formats[] = {FORMAT_NPY, FORMAT_SAFETENSORS};
    for (size_t i = 0; i < COUNT(formats); i++) {
        struct gemm_request request;
        struct fault fault;
        ck_assert_uint_eq(take(&request, "", formats[i], &fault), GEMMD_OK);
        ck_assert_uint_eq(take(&request, "out=i32", formats[i], &fault), GEMMD_OK);
        ck_assert_uint_eq(take(&request, "dtype=f64&out=i32", formats[i], &fault),
                          GEMMD_ERR_UNSUPPORTED);
        ck_assert_uint_eq(take(&request, "verify=freivalds&act=silu", formats[i], &fault),
                          GEMMD_ERR_UNSUPPORTED);
    }
}
END_TEST

static const struct {
    const char *query;
    uint64_t body, result;
} sizes[] = {
    {"m=2&n=3&k=5", 4ul * (10 + 15), 4ul * 6},
    {"m=2&n=3&k=5&transa=1&transb=1", 4ul * (10 + 15), 4ul * 6},
    {"m=2&n=3&k=5&dtype=f64&batch=7", 7ul * 8 * (10 + 15), 7ul * 8 * 6},
    {"m=2&n=3&k=5&dtype=bf16&out=f32&bias=1&batch=7", 7ul * 2 * (10 + 15) + 4ul * 3, 7ul * 4 * 6},
    {"m=2&n=3&k=5&dtype=i8&beta=2&bias=1&batch=2", 2ul * (10 + 15) + 4ul * 3 + 2ul * 4 * 6,
     2ul * 4 * 6},
    {"m=2&n=3&k=5&beta=-0", 4ul * (10 + 15), 4ul * 6},
    {"m=2&n=3&k=5&a=x", 4ul * 15, 4ul * 6},
    {"m=2&n=3&k=5&a=x&b=y&bias=1", 4ul * 3, 4ul * 6},
    {"m=2147483647&n=1&k=2147483647&dtype=i8", 2147483647ul * 2147483647ul + 2147483647ul,
     4ul * 2147483647ul},
};

START_TEST(raw_bodies_have_one_length)
{
    struct gemm_request request;
    struct fault fault;
    uint64_t body = 0, result = 0;
    ck_assert_uint_eq(take(&request, sizes[_i].query, FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert(gemm_request_raw_bytes(&request, &body));
    ck_assert_uint_eq(body, sizes[_i].body);
    ck_assert(gemm_request_result_bytes(&request, &result));
    ck_assert_uint_eq(result, sizes[_i].result);
    struct tensor tensor;
    ck_assert(gemm_request_result(&request, &request, &tensor));
    ck_assert_uint_eq(tensor.bytes, result);
    ck_assert_uint_eq(tensor.rank, request.batch > 1 ? 3 : 2);
    ck_assert_uint_eq(tensor.dims[tensor.rank - 1], request.n);
    ck_assert_uint_eq(tensor.dtype, request.out);
}
END_TEST

/* Sizes past 63 bits in each of the parts. */
static const struct {
    const char *query;
    bool body, result; /* whether it fits */
} huge[] = {
    {"m=2147483647&n=1&k=2147483647&dtype=f64", false, true},
    {"m=1&n=2147483647&k=2147483647&dtype=f32", false, true},
    {"m=2147483647&n=2147483647&k=1", true, false},
    {"m=2147483647&n=2147483647&k=1&beta=1", false, false},
    {"m=2147483647&n=1&k=2147483647&dtype=i8&batch=3", false, true},
    {"m=2147483647&n=2147483647&k=2147483647&batch=2147483647", false, false},
};

START_TEST(sizes_past_63_bits_are_noticed)
{
    struct gemm_request request;
    struct fault fault;
    struct tensor tensor;
    uint64_t bytes;
    ck_assert_uint_eq(take(&request, huge[_i].query, FORMAT_RAW, &fault), GEMMD_OK);
    ck_assert_uint_eq(gemm_request_raw_bytes(&request, &bytes), huge[_i].body);
    ck_assert_uint_eq(gemm_request_result_bytes(&request, &bytes), huge[_i].result);
    ck_assert_uint_eq(gemm_request_result(&request, NULL, &tensor), huge[_i].result);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gemm_request");
    tcase_add_test(tests, defaults);
    tcase_add_test(tests, every_parameter_lands_in_its_place);
    tcase_add_loop_test(tests, bad_dimensions_name_their_field, 0, COUNT(no_dims));
    tcase_add_loop_test(tests, bad_values_name_their_field, 0, COUNT(bad_values));
    tcase_add_test(tests, names_have_a_longest);
    tcase_add_test(tests, unknown_and_repeated_names);
    tcase_add_loop_test(tests, parameters_together, 0, COUNT(together));
    tcase_add_test(tests, the_result_type_follows_the_operands);
    tcase_add_test(tests, bodies_with_shapes);
    tcase_add_loop_test(tests, raw_bodies_have_one_length, 0, COUNT(sizes));
    tcase_add_loop_test(tests, sizes_past_63_bits_are_noticed, 0, COUNT(huge));
    Suite *suite = suite_create("gemm_request");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
