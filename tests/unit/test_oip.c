/* Inference requests: bodies as clients send them, byte for byte, and every way they can lie. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/oip.h"
#include "proto/oip_answer.h"
#include "proto/oip_datatype.h"

/* Decodes a copy of exactly these bytes, so that a sanitizer sees any read past the end; the views
 * are rebased onto `body`. */
static enum gemmd_error decode(const void *body, uint64_t bytes, uint64_t json_bytes,
                               struct oip_request *request, struct fault *fault)
{
    char *exact = malloc(bytes > 0 ? bytes : 1);
    if (bytes > 0)
        memcpy(exact, body, bytes);
    *fault = (struct fault){.code = GEMMD_OK};
    enum gemmd_error code = oip_request_decode(exact, bytes, json_bytes, request, fault);
    ck_assert_uint_eq(fault->code, code);
    ck_assert_msg(code == GEMMD_OK || fault->detail[0] != '\0', "a failure without a sentence");
    for (uint32_t i = 0; i < request->input_count; i++) {
        struct oip_input *input = &request->inputs[i];
        if (input->region.name[0] != '\0')
            continue; /* it is not there */
        if (input->binary)
            input->data = (const char *)body + ((const char *)input->data - exact);
        else
            input->array.text = (const char *)body + (input->array.text - exact);
    }
    free(exact);
    return code;
}

/* As the Python client sends it: binary inputs, all outputs binary. */
START_TEST(binary_inputs_are_views)
{
    static const char body[] =
        "{\"id\":\"42\",\"parameters\":{\"priority\":1,\"timeout\":2500000,\"alpha\":0.5,\"act\":"
        "\"relu\",\"transa\":true,\"beta\":2,\"sequence_id\":7,\"binary_data_output\":true},"
        "\"inputs\":[{\"name\":\"A\",\"shape\":[2,1],\"datatype\":\"FP32\",\"parameters\":{"
        "\"binary_"
        "data_size\":8}},{\"name\":\"B\",\"shape\":[1, 1],\"datatype\":\"FP32\",\"parameters\":{"
        "\"binary_data_size\":4}}]}aaaaaaaabbbb";
    static const char *const parameters[][2] = {
        {"alpha", "0.5"}, {"act", "relu"}, {"transa", "1"}, {"beta", "2"}};
    const uint64_t bytes = sizeof body - 1;
    struct oip_request request;
    struct fault fault;
    ck_assert_msg(decode(body, bytes, bytes - 12, &request, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_str_eq(request.id, "42");
    ck_assert_uint_eq(request.priority, 1);
    ck_assert_uint_eq(request.timeout_us, 2500000);
    ck_assert(request.binary_output);
    ck_assert_uint_eq(request.output_count, 0);
    ck_assert_uint_eq(request.parameter_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(request.parameters[i].name, parameters[i][0]);
        ck_assert_str_eq(request.parameters[i].value, parameters[i][1]);
    }
    ck_assert_uint_eq(request.input_count, 2);
    ck_assert_str_eq(request.inputs[0].name, "A");
    ck_assert_str_eq(request.inputs[0].datatype, "FP32");
    ck_assert_uint_eq(request.inputs[0].rank, 2);
    ck_assert_uint_eq(request.inputs[0].dims[0], 2);
    ck_assert_uint_eq(request.inputs[0].dims[1], 1);
    ck_assert_ptr_eq(request.inputs[0].data, body + bytes - 12);
    ck_assert_uint_eq(request.inputs[0].bytes, 8);
    ck_assert_ptr_eq(request.inputs[1].data, body + bytes - 4);
    ck_assert_uint_eq(request.inputs[1].bytes, 4);
}
END_TEST

/* Keys in any order, members nobody knows, nulls, and both ways of sending side by side. */
START_TEST(json_and_binary_can_be_mixed)
{
    static const char body[] =
        "{\"outputs\":[{\"parameters\":{\"binary_data\":true},\"name\":\"C\"},{\"name\":\"D\"}],"
        "\"extra\":{\"deep\":1},\"parameters\":null,\"id\":\"\",\"inputs\":[{\"data\":[[1, 2], [3, "
        "4]],\"datatype\":\"INT8\",\"shape\":[2,2],\"name\":\"A\",\"parameters\":{\"content_type\":"
        "\"np\"}},{\"shape\":[],\"name\":\"B\",\"datatype\":\"INT8\",\"parameters\":{\"binary_data_"
        "size\":0}}]}";
    const uint64_t bytes = sizeof body - 1;
    struct oip_request request;
    struct fault fault;
    ck_assert_msg(decode(body, bytes, bytes, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    ck_assert_str_eq(request.id, "");
    ck_assert(!request.inputs[0].binary);
    ck_assert_uint_eq(request.inputs[0].array.bytes, 16);
    ck_assert_mem_eq(request.inputs[0].array.text, "[[1, 2], [3, 4]]", 16);
    ck_assert(request.inputs[1].binary);
    ck_assert_uint_eq(request.inputs[1].rank, 0);
    ck_assert_uint_eq(request.output_count, 2);
    ck_assert(request.outputs[0].binary);
    ck_assert(!request.outputs[1].binary);
}
END_TEST

/* Parts of regions, which are not behind the JSON. */
START_TEST(tensors_can_be_in_shared_memory)
{
    static const char body[] =
        "{\"inputs\":[{\"name\":\"A\",\"shape\":[2],\"datatype\":\"FP32\",\"parameters\":{"
        "\"shared_memory_region\":\"in\",\"shared_memory_byte_size\":8,"
        "\"shared_memory_offset\":9223372036854775807}}],\"outputs\":[{\"name\":\"C\","
        "\"parameters\":{\"binary_data\":false,\"shared_memory_region\":\"out\","
        "\"shared_memory_byte_size\":0}}],\"parameters\":{\"binary_data_output\":true}}";
    const uint64_t bytes = sizeof body - 1;
    struct oip_request request;
    struct fault fault;
    ck_assert_msg(decode(body, bytes, bytes, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    const struct oip_input *input = &request.inputs[0];
    ck_assert_str_eq(input->region.name, "in");
    ck_assert_uint_eq(input->region.offset, INT64_MAX);
    ck_assert_uint_eq(input->bytes, 8);
    ck_assert(input->binary);
    ck_assert_ptr_null(input->data);
    ck_assert_str_eq(request.outputs[0].region.name, "out");
    ck_assert_uint_eq(request.outputs[0].region.bytes, 0);
    ck_assert_uint_eq(request.outputs[0].region.offset, 0);
    ck_assert(!request.outputs[0].binary);
}
END_TEST

#define INPUT(members) "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\"," members "}]}"
#define ONE "{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}"

#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
    const char *json;
    enum gemmd_error code;
    const char *detail; /* a part of it */
} refused[] = {
    {"", GEMMD_ERR_MALFORMED, "not JSON"},
    {"{", GEMMD_ERR_MALFORMED, "not JSON"},
    {"[]", GEMMD_ERR_MALFORMED, "not an object"},
    {"7", GEMMD_ERR_MALFORMED, "not JSON"},
    {"{}", GEMMD_ERR_MALFORMED, "no inputs"},
    {"{\"inputs\":{}}", GEMMD_ERR_MALFORMED, "no inputs"},
    {"{\"inputs\":7}", GEMMD_ERR_MALFORMED, "no inputs"},
    {"{\"inputs\":[7]}", GEMMD_ERR_MALFORMED, "with a name"},
    {"{\"inputs\":[" ONE "," ONE "]}", GEMMD_ERR_MALFORMED, "'A' is there twice"},
    {"{\"inputs\":[" ONE "],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "duplicate"},
    {"{\"inputs\":[{\"name\":\"\",\"shape\":[1]}]}", GEMMD_ERR_MALFORMED, "with a name"},
    {"{\"inputs\":[{\"name\":\"A\"}]}", GEMMD_ERR_MALFORMED, "no datatype"},
    {INPUT("\"data\":[1]"), GEMMD_ERR_MALFORMED, "no shape"},
    {INPUT("\"shape\":7,\"data\":[1]"), GEMMD_ERR_MALFORMED, "no shape"},
    {INPUT("\"shape\":[-1],\"data\":[1]"), GEMMD_ERR_MALFORMED, "whole numbers"},
    {INPUT("\"shape\":[1.5],\"data\":[1]"), GEMMD_ERR_MALFORMED, "whole numbers"},
    {INPUT("\"shape\":[1,],\"data\":[1]"), GEMMD_ERR_MALFORMED, "whole numbers"},
    {INPUT("\"shape\":[[1]],\"data\":[1]"), GEMMD_ERR_MALFORMED, "whole numbers"},
    {INPUT("\"shape\":[1000000000000000000000],\"data\":[1]"), GEMMD_ERR_MALFORMED, "whole"},
    {INPUT("\"shape\":[1,1,1,1,1,1,1,1,1],\"data\":[1]"), GEMMD_ERR_MALFORMED, "8 dimensions"},
    {INPUT("\"shape\":[1]"), GEMMD_ERR_MALFORMED, "either data or"},
    {INPUT("\"shape\":[1],\"data\":[1],\"parameters\":{\"binary_data_size\":4}"),
     GEMMD_ERR_MALFORMED, "either data or"},
    {INPUT("\"shape\":[1],\"data\":{\"0\":1}"), GEMMD_ERR_MALFORMED, "not an array"},
    {INPUT("\"shape\":[1],\"data\":[1"), GEMMD_ERR_MALFORMED, "is not closed"},
    {"{\"inputs\":[{\"shape\":[1,\"]\"", GEMMD_ERR_MALFORMED, "is not closed"},
    {INPUT("\"shape\":[1],\"parameters\":[]"), GEMMD_ERR_MALFORMED, "not an object"},
    {INPUT("\"shape\":[1],\"parameters\":{\"binary_data_size\":-4}"), GEMMD_ERR_MALFORMED,
     "whole number"},
    {INPUT("\"shape\":[1],\"parameters\":{\"binary_data_size\":4}"), GEMMD_ERR_MALFORMED,
     "0 bytes of the body are left"},
    {INPUT("\"shape\":[1],\"parameters\":{\"binary_data_size\":18446744073709551616}"),
     GEMMD_ERR_MALFORMED, "integer"},
    {INPUT("\"shape\":[1],\"parameters\":{\"shared_memory_region\":\"r\"}"), GEMMD_ERR_MALFORMED,
     "shared memory is"},
    {"{\"id\":7,\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "id must be"},
    {"{\"id\":\"\\u0000\",\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "not JSON"},
    {"{\"parameters\":[],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "not an object"},
    {"{\"parameters\":{\"priority\":-1},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "priority"},
    {"{\"parameters\":{\"timeout\":\"5\"},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "timeout"},
    {"{\"parameters\":{\"binary_data_output\":1},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "true or false"},
    {"{\"parameters\":{\"alpha\":{}},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "'alpha'"},
    {"{\"parameters\":{\"alpha\":null},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "'alpha'"},
    {"{\"outputs\":7,\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "not an array"},
    {"{\"outputs\":[{}],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "with a name"},
    {"{\"outputs\":[{\"name\":\"C\"},{\"name\":\"C\"}],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "asked for twice"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":{\"binary_data\":1}}],\"inputs\":[" ONE "]}",
     GEMMD_ERR_MALFORMED, "true or false"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":{\"classification\":3}}],\"inputs\":[" ONE "]}",
     GEMMD_ERR_NOT_IMPLEMENTED, "classification"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":{\"shared_memory_region\":\"r\"}}],\"inputs\":"
     "[" ONE "]}",
     GEMMD_ERR_MALFORMED, "shared memory is"},
    {"{\"inputs\":[{\"parameters\":{\"a\":{\"b\":1}}}]}", GEMMD_ERR_MALFORMED, "nests deeper"},
    {"{\"inputs\":[{\"name\":\"" X32 "x\"}]}", GEMMD_ERR_MALFORMED, "with a name"},
    {INPUT("\"shape\":[1],\"parameters\":{\"shared_memory_byte_size\":4}"), GEMMD_ERR_MALFORMED,
     "shared memory is"},
    {INPUT("\"shape\":[1],\"parameters\":{\"shared_memory_offset\":4}"), GEMMD_ERR_MALFORMED,
     "shared memory is"},
    {INPUT("\"shape\":[1],\"parameters\":{\"shared_memory_region\":\"r\","
           "\"shared_memory_byte_size\":4,\"shared_memory_offset\":-1}"),
     GEMMD_ERR_MALFORMED, "shared memory is"},
    {"{\"inputs\":[{},{},{},{},{},{},{},{},{}]}", GEMMD_ERR_MALFORMED, "more inputs"},
    {"{\"outputs\":[{},{},{},{},{},{},{},{},{}],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "more outputs"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":7}],\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "not an object"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":{\"classification\":\"x\"}}],\"inputs\":[" ONE
     "]}",
     GEMMD_ERR_NOT_IMPLEMENTED, "classification"},
    {"{\"outputs\":[{\"name\":\"C\",\"parameters\":{\"binary_data\":true,"
     "\"shared_memory_region\":\"r\"}}],\"inputs\":[" ONE "]}",
     GEMMD_ERR_MALFORMED, "not both"},
    {"{\"parameters\":{\"alpha\":\"" X32 X32 "x\"},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "'alpha'"},
    {"{\"parameters\":{\"" X32 "x\":1},\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED, "'" X32 "'"},
    {"{\"parameters\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
     "\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1},\"inputs\":[" ONE "]}",
     GEMMD_ERR_MALFORMED, "more parameters"},
    {"{\"id\":\"" X32 X32 X32 X32 X32 X32 X32 X32 "x\",\"inputs\":[" ONE "]}", GEMMD_ERR_MALFORMED,
     "id must be"},
    {"{\"inputs\":[" ONE "," ONE "," ONE "," ONE "," ONE "," ONE "," ONE "," ONE "," ONE "]}",
     GEMMD_ERR_MALFORMED, "more than the 16 arrays"},
};

START_TEST(lies_are_refused)
{
    struct oip_request request;
    struct fault fault;
    const char *json = refused[_i].json;
    enum gemmd_error code = decode(json, strlen(json), strlen(json), &request, &fault);
    ck_assert_msg(code == refused[_i].code, "%s: %s", json, fault.detail);
    ck_assert_msg(strstr(fault.detail, refused[_i].detail) != NULL, "%s: '%s'", json, fault.detail);
}
END_TEST

/* Values at the edge of what is read. */
START_TEST(edges_are_taken)
{
    static const char json[] =
        "{\"id\":\"" X32 X32 X32 X32 X32 X32 X32 X32 "\",\"parameters\":{\"priority\":-0,"
        "\"sequence_id\":7,\"sequence_start\":true,\"sequence_end\":true,\"" X32 "\":\"" X32 X32
        "\",\"beta\":-0},\"outputs\":[{\"name\":\"" X32
        "\",\"parameters\":{\"classification\":0}}],\"inputs\":[" ONE "]}";
    struct oip_request request;
    struct fault fault;
    ck_assert_msg(decode(json, sizeof json - 1, sizeof json - 1, &request, &fault) == GEMMD_OK,
                  "%s", fault.detail);
    ck_assert_uint_eq(strlen(request.id), 256);
    ck_assert_uint_eq(request.priority, 0);
    ck_assert_uint_eq(request.parameter_count, 2);
    ck_assert_str_eq(request.parameters[0].name, X32);
    ck_assert_str_eq(request.parameters[0].value, X32 X32);
    ck_assert_str_eq(request.parameters[1].value, "0");
    ck_assert_str_eq(request.outputs[0].name, X32);
}
END_TEST

START_TEST(bytes_must_be_those_that_were_announced)
{
    static const char body[] =
        INPUT("\"shape\":[1],\"parameters\":{\"binary_data_size\":4}") "bbbb";
    const uint64_t json_bytes = sizeof body - 5;
    struct oip_request request;
    struct fault fault;
    ck_assert_uint_eq(decode(body, json_bytes + 4, json_bytes, &request, &fault), GEMMD_OK);
    ck_assert_uint_eq(decode(body, json_bytes + 3, json_bytes, &request, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(decode(body, json_bytes + 5, json_bytes, &request, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "1 bytes more"));
    ck_assert_uint_eq(decode(body, json_bytes, json_bytes + 1, &request, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(decode(body, json_bytes + 4, json_bytes - 1, &request, &fault),
                      GEMMD_ERR_MALFORMED);
}
END_TEST

/* Deep, long and many: nothing recurses, and memory does not grow with it. */
START_TEST(hostile_sizes_are_refused)
{
    enum { COUNT = 100000 };
    static const struct {
        const char *head, *unit;
    } cases[] = {
        {"", "["},
        {"", "{\"a\":"},
        {"{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":", "["},
        {"{\"inputs\":[", "{},"},
        {"{\"inputs\":[{\"a\":[]", ",\"b\":[]"},
        {"{\"id\":\"", "x"},
        {"{\"parameters\":{\"a\":1", ",\"a\":1"},
    };
    const size_t head = strlen(cases[_i].head), unit = strlen(cases[_i].unit);
    char *json = malloc(head + unit * COUNT);
    struct oip_request request;
    struct fault fault;
    memcpy(json, cases[_i].head, head);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(json + head + i * unit, cases[_i].unit, unit);
    ck_assert_uint_eq(decode(json, head + unit * COUNT, head + unit * COUNT, &request, &fault),
                      GEMMD_ERR_MALFORMED);
    free(json);
}
END_TEST

/* A request cannot forge what stands for an array that was cut out. */
START_TEST(arrays_are_only_arrays)
{
    static const char *const values[] = {"0", "\"[0]\"", "{\"0\":0}", "true"};
    char json[256];
    struct oip_request request;
    struct fault fault;
    snprintf(json, sizeof json, INPUT("\"shape\":[1],\"data\":%s"), values[_i]);
    ck_assert_uint_eq(decode(json, strlen(json), strlen(json), &request, &fault),
                      GEMMD_ERR_MALFORMED);
    ck_assert_ptr_nonnull(strstr(fault.detail, "not an array"));
}
END_TEST

START_TEST(answers_are_exact)
{
    const uint64_t dims[] = {2, 3};
    struct tensor halves, doubles;
    struct json_text json;
    char out[OIP_ANSWER_TEXT_MAX];
    ck_assert(tensor_init(&halves, GEMMD_BF16, dims, 2, NULL));
    ck_assert(tensor_init(&doubles, GEMMD_F64, dims, 2, NULL));
    static const char binary[] =
        "{\"model_name\":\"gemm_bf16\",\"model_version\":\"1\",\"id\":\"a\\\"b\",\"outputs\":[{"
        "\"name\":\"C\",\"datatype\":\"BF16\",\"shape\":[2,3],\"parameters\":{\"binary_data_size\":"
        "12}}]}";
    json_text_start(&json, out, sizeof out);
    oip_answer_begin(&json, "gemm_bf16", "a\"b");
    oip_answer_output(&json, &(struct oip_answer_output){"C", &halves, true, false});
    ck_assert_uint_eq(oip_answer_end(&json), sizeof binary - 1);
    ck_assert_str_eq(out, binary);

    static const char text[] =
        "{\"model_name\":\"linear.W\",\"model_version\":\"1\",\"outputs\":[{"
        "\"name\":\"Y\",\"datatype\":\"FP64\",\"shape\":[2,3],\"data\":[1,2]},{"
        "\"name\":\"Z\",\"datatype\":\"BF16\",\"shape\":[2,3],\"parameters\":{\"binary_data_size\":"
        "12}}]}";
    json_text_start(&json, out, sizeof out);
    oip_answer_begin(&json, "linear.W", "");
    oip_answer_output(&json, &(struct oip_answer_output){"Y", &doubles, false, false});
    json_text_raw(&json, "1,2");
    oip_answer_numbers_end(&json);
    oip_answer_output(&json, &(struct oip_answer_output){"Z", &halves, true, false});
    ck_assert_uint_eq(oip_answer_end(&json), sizeof text - 1);
    ck_assert_str_eq(out, text);

    static const char elsewhere[] =
        "{\"model_name\":\"linear.W\",\"model_version\":\"1\",\"outputs\":[{"
        "\"name\":\"Y\",\"datatype\":\"FP64\",\"shape\":[2,3]}]}";
    json_text_start(&json, out, sizeof out);
    oip_answer_begin(&json, "linear.W", "");
    oip_answer_output(&json, &(struct oip_answer_output){"Y", &doubles, false, true});
    ck_assert_uint_eq(oip_answer_end(&json), sizeof elsewhere - 1);
    ck_assert_str_eq(out, elsewhere);
}
END_TEST

/* The longest of everything fits, whatever its characters need. */
START_TEST(any_answer_has_room)
{
    char id[OIP_ID_MAX + 1], model[7 + 128 + 1], out[OIP_ANSWER_TEXT_MAX];
    struct json_text json;
    memset(id, '\x01', OIP_ID_MAX);
    id[OIP_ID_MAX] = '\0';
    memset(model, 'W', sizeof model - 1);
    model[sizeof model - 1] = '\0';
    struct tensor tensor = {.dtype = GEMMD_F32, .rank = TENSOR_MAX_RANK, .bytes = UINT64_MAX};
    for (uint32_t i = 0; i < TENSOR_MAX_RANK; i++)
        tensor.dims[i] = UINT64_MAX;
    json_text_start(&json, out, sizeof out);
    oip_answer_begin(&json, model, id);
    oip_answer_output(&json, &(struct oip_answer_output){"LSE", &tensor, true, false});
    oip_answer_output(&json, &(struct oip_answer_output){"LSE", &tensor, false, false});
    oip_answer_numbers_end(&json);
    ck_assert_uint_gt(oip_answer_end(&json), 0);
}
END_TEST

START_TEST(datatypes_have_the_protocols_names)
{
    static const char *const names[GEMMD_DTYPE_COUNT] = {
        [GEMMD_F64] = "FP64",  [GEMMD_F32] = "FP32", [GEMMD_F16] = "FP16",
        [GEMMD_BF16] = "BF16", [GEMMD_I8] = "INT8",  [GEMMD_F8_E4M3] = "UINT8",
        [GEMMD_I32] = "INT32"};
    const enum gemmd_dtype dtype = (enum gemmd_dtype)_i;
    char config[16];
    snprintf(config, sizeof config, "TYPE_%s", names[dtype]);
    ck_assert_str_eq(oip_datatype(dtype), names[dtype]);
    ck_assert_str_eq(oip_config_datatype(dtype), config);
    ck_assert_uint_eq(oip_datatype_has_json(dtype), dtype != GEMMD_F16 && dtype != GEMMD_BF16);
    for (int other = 0; other < GEMMD_DTYPE_COUNT; other++)
        ck_assert_int_eq(oip_datatype_names(names[other], dtype), other == _i);
    ck_assert_int_eq(oip_datatype_names("UINT16", dtype), dtype == GEMMD_BF16);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("oip");
    tcase_add_test(tests, binary_inputs_are_views);
    tcase_add_test(tests, json_and_binary_can_be_mixed);
    tcase_add_test(tests, tensors_can_be_in_shared_memory);
    tcase_add_loop_test(tests, lies_are_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tests, edges_are_taken);
    tcase_add_test(tests, bytes_must_be_those_that_were_announced);
    tcase_add_loop_test(tests, hostile_sizes_are_refused, 0, 7);
    tcase_add_loop_test(tests, arrays_are_only_arrays, 0, 4);
    tcase_add_test(tests, answers_are_exact);
    tcase_add_test(tests, any_answer_has_room);
    tcase_add_loop_test(tests, datatypes_have_the_protocols_names, 0, GEMMD_DTYPE_COUNT);
    Suite *suite = suite_create("oip");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
