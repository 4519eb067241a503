/* server/api/v2/model_json.c: the JSON of a model, and that nothing is left of it without memory.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/v2/model_json.h"
#include "server/api/v2/model_list.h"

/* Of all allocations of jansson, number `fails_at` fails. */
static uint64_t allocations, fails_at, held;

static void *counting_malloc(size_t bytes)
{
    if (++allocations == fails_at)
        return NULL;
    void *memory = malloc(bytes);
    ck_assert_ptr_nonnull(memory);
    held++;
    return memory;
}

static void counting_free(void *memory)
{
    held -= memory != NULL;
    free(memory);
}

static const struct model_tensor inputs[] = {
    {.name = "A", .dtype = GEMMD_F32, .rank = 2, .dims = {-1, -1}},
    {.name = "BIAS", .dtype = GEMMD_F16, .optional = true, .rank = 1, .dims = {300}},
    {.name = "A_SCALE", .dtype = GEMMD_F32, .rank = 1, .dims = {-1}}};
static const struct model_tensor outputs[] = {
    {.name = "C", .dtype = GEMMD_F32, .rank = 2, .dims = {-1, -1}}};

static struct model_stats stats;
static const struct model model = {.name = "gemm_fp32",
                                   .stats = &stats,
                                   .inputs = inputs,
                                   .outputs = outputs,
                                   .input_count = 3,
                                   .output_count = 1,
                                   .listed_count = 2};

static const struct {
    json_t *(*describe)(const struct model *model);
    const char *inputs, *text; /* the name of the list of inputs, and its JSON */
} descriptions[] = {
    {model_metadata_json, "inputs",
     "[{\"name\": \"A\", \"datatype\": \"FP32\", \"shape\": [-1, -1]},"
     " {\"name\": \"BIAS\", \"datatype\": \"FP16\", \"shape\": [300]}]"},
    {model_config_json, "input",
     "[{\"name\": \"A\", \"data_type\": \"TYPE_FP32\", \"format\": \"FORMAT_NONE\","
     " \"dims\": [-1, -1], \"is_shape_tensor\": false, \"allow_ragged_batch\": false,"
     " \"optional\": false},"
     " {\"name\": \"BIAS\", \"data_type\": \"TYPE_FP16\", \"format\": \"FORMAT_NONE\","
     " \"dims\": [300], \"is_shape_tensor\": false, \"allow_ragged_batch\": false,"
     " \"optional\": true}]"},
};

START_TEST(a_model_lists_its_inputs)
{
    json_t *json = descriptions[_i].describe(&model);
    ck_assert_ptr_nonnull(json);
    ck_assert_str_eq(json_string_value(json_object_get(json, "name")), "gemm_fp32");
    char *text = json_dumps(json_object_get(json, descriptions[_i].inputs), 0);
    ck_assert_str_eq(text, descriptions[_i].text);
    free(text);
    json_decref(json);
}
END_TEST

START_TEST(the_longest_statistics_fit)
{
    struct model_stats full;
    struct model longest = {.name = longest.layer.name, .stats = &full};
    struct json_text json;
    char text[MODEL_LIST_ENTRY_MAX + 1];
    memset(&full, 0x7f, sizeof full);
    memset(longest.layer.name, 'w', MODEL_NAME_MAX);
    json_text_start(&json, text, sizeof text);
    model_stats_json(&json, &longest);
    const uint64_t length = json_text_end(&json);
    ck_assert_uint_gt(length, 0);
    json_t *read = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(read, "name")), longest.name);
    ck_assert_int_eq(json_integer_value(json_object_get(read, "inference_count")),
                     0x7f7f7f7f7f7f7f7f);
    ck_assert_uint_eq(json_object_size(json_object_get(read, "inference_stats")), 8);
    json_decref(read);
}
END_TEST

START_TEST(nothing_is_left_without_memory)
{
    json_t *json = NULL;
    json_set_alloc_funcs(counting_malloc, counting_free);
    for (fails_at = 1; json == NULL; fails_at++) {
        allocations = 0;
        json = descriptions[_i].describe(&model);
        if (json != NULL && allocations >= fails_at)
            ck_abort_msg("allocation %d failed, and there is JSON", (int)fails_at);
        ck_assert_msg(json != NULL || held == 0, "%d blocks are held after allocation %d failed",
                      (int)held, (int)fails_at);
    }
    ck_assert_uint_gt(fails_at, 10);
    json_decref(json);
    ck_assert_uint_eq(held, 0);
}
END_TEST

int main(void)
{
    const int count = sizeof descriptions / sizeof descriptions[0];
    Suite *suite = suite_create("model_json");
    TCase *tests = tcase_create("model_json");
    tcase_add_loop_test(tests, a_model_lists_its_inputs, 0, count);
    tcase_add_test(tests, the_longest_statistics_fit);
    tcase_add_loop_test(tests, nothing_is_left_without_memory, 0, count);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
