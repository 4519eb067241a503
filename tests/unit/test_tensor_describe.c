/* server/tensors/tensor_describe.c: every byte of the descriptions of tensors. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/device/memory/arena.h"
#include "server/tensors/tensor_describe.h"

enum { UNITS = 16 };

static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
static unsigned char *memory;
static struct tensor_store *store;

static void set_up(void)
{
    memory = aligned_alloc(ARENA_ALIGNMENT, UNITS * ARENA_ALIGNMENT);
    store = tensor_store_create(&(struct device_span){memory, UNITS * ARENA_ALIGNMENT}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(store);
}

static void tear_down(void)
{
    tensor_store_destroy(store);
    free(memory);
}

static struct resident *reserve(const char *name, bool evictable, uint32_t rank,
                                const uint64_t *dims)
{
    struct resident *resident;
    struct tensor tensor;
    struct fault fault;
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, rank, NULL));
    const struct tensor_offer offer = {.name = name,
                                       .tenant = "",
                                       .evictable = evictable,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    ck_assert_int_eq(tensor_store_reserve(store, &offer, &resident, &fault), GEMMD_OK);
    return resident;
}

static void assert_says(char *text, const char *expected)
{
    ck_assert_str_eq(text, expected);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(json);
    json_decref(json);
    free(text);
}

#define W                                                                                          \
    "{\"name\": \"w.1\", \"dtype\": \"f32\", \"shape\": [2, 3], \"bytes\": 24, \"etag\": "         \
    "\"\\\"abc\\\"\", \"evictable\": true, \"memory_bytes\": 4096, \"devices\": [0]}"
#define V                                                                                          \
    "{\"name\": \"v\", \"dtype\": \"f32\", \"shape\": [5], \"bytes\": 20, \"etag\": null, "        \
    "\"evictable\": false, \"memory_bytes\": 4096, \"devices\": [0]}"

START_TEST(one_and_a_page)
{
    struct resident *page[] = {reserve("v", false, 1, (uint64_t[]){5}),
                               reserve("w.1", true, 2, (uint64_t[]){2, 3})};
    const char etag[TENSOR_ETAG_SIZE] = "\"abc\"";
    tensor_store_set_etag(store, page[1], etag);
    assert_says(tensor_describe(page[0]), V "\n");
    assert_says(tensor_describe(page[1]), W "\n");
    assert_says(tensor_describe_page(page, 2, true),
                "{\"tensors\": [" V ", " W "], \"next\": \"w.1\"}\n");
    assert_says(tensor_describe_page(page, 1, false), "{\"tensors\": [" V "], \"next\": null}\n");
    assert_says(tensor_describe_page(page, 0, false), "{\"tensors\": [], \"next\": null}\n");
    tensor_store_release(store, page[0]);
    tensor_store_release(store, page[1]);
}
END_TEST

/* Every string is as long as it may be. */
START_TEST(the_longest_fit)
{
    const uint64_t dims[TENSOR_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 0};
    char name[GEMM_TENSOR_NAME_MAX + 1], etag[TENSOR_ETAG_SIZE];
    struct resident *page[8];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memset(etag, '"', sizeof etag - 1);
    etag[sizeof etag - 1] = '\0';
    for (uint32_t i = 0; i < 8; i++) {
        page[i] = reserve(name, true, TENSOR_MAX_RANK, dims);
        tensor_store_set_etag(store, page[i], etag);
    }
    char *text = tensor_describe_page(page, 8, true);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json != NULL, "not JSON: %s", text);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "tensors")), 8);
    ck_assert_str_eq(json_string_value(json_object_get(json, "next")), name);
    json_decref(json);
    free(text);
    for (uint32_t i = 0; i < 8; i++)
        tensor_store_release(store, page[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_describe");
    TCase *tcase = tcase_create("tensor_describe");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, one_and_a_page);
    tcase_add_test(tcase, the_longest_fit);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
