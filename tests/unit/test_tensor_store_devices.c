/* A store over the memories of two devices. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/tensors/resident_copy.h"
#include "server/tensors/tensor_store.h"
#include "tests/unit/failing_calls.h"

enum { UNIT = 4096, UNITS = 4 };

static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
static const struct tensor_condition always;
static unsigned char *memories[2];
static struct tensor_store *store;
static struct fault fault;

static void open_store(uint64_t tenant_bytes)
{
    struct device_span spans[2];
    for (int i = 0; i < 2; i++) {
        memories[i] = aligned_alloc(UNIT, (size_t)UNITS * UNIT);
        ck_assert_ptr_nonnull(memories[i]);
        spans[i] = (struct device_span){memories[i], (uint64_t)UNITS * UNIT};
    }
    store = tensor_store_create(spans, 2, &cpu, tenant_bytes);
    ck_assert_ptr_nonnull(store);
    memset(&fault, 0, sizeof fault);
}

static void set_up(void)
{
    open_store(0);
}

static void tear_down(void)
{
    tensor_store_destroy(store);
    free(memories[0]);
    free(memories[1]);
}

static enum gemmd_error reserve(const char *name, uint64_t units, bool evictable, int32_t device,
                                struct resident **resident)
{
    struct tensor tensor;
    const uint64_t dims[] = {units, UNIT / 4};
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, 2, NULL));
    const struct tensor_offer offer = {
        .name = name, .tenant = "t", .evictable = evictable, .tensor = &tensor, .device = device};
    return tensor_store_reserve(store, &offer, resident, &fault);
}

/* Stores a tensor, and returns the device that it lies on. */
static uint32_t keep(const char *name, uint64_t units, bool evictable, int32_t device)
{
    struct resident *resident;
    bool replaced;
    ck_assert_int_eq(reserve(name, units, evictable, device, &resident), GEMMD_OK);
    ck_assert_int_eq(tensor_store_publish(store, resident, &always, &replaced, &fault), GEMMD_OK);
    const uint32_t place = resident_device(resident);
    const unsigned char *at = resident_memory(resident);
    ck_assert(at >= memories[place] && at < memories[place] + (size_t)UNITS * UNIT);
    tensor_store_release(store, resident);
    return place;
}

static bool has(const char *name)
{
    struct resident *resident;
    if (tensor_store_acquire(store, name, "t", &resident, &fault) != GEMMD_OK)
        return false;
    tensor_store_release(store, resident);
    return true;
}

START_TEST(the_device_with_the_most_free_memory_gets_a_tensor)
{
    ck_assert_uint_eq(keep("a", 2, false, TENSOR_ANY_DEVICE), 0);
    ck_assert_uint_eq(keep("b", 1, false, TENSOR_ANY_DEVICE), 1);
    ck_assert_uint_eq(keep("c", 1, false, TENSOR_ANY_DEVICE), 1);
    ck_assert_uint_eq(keep("d", 1, false, 1), 1);
    ck_assert_uint_eq(keep("e", 2, false, TENSOR_ANY_DEVICE), 0);
    ck_assert_uint_eq(tensor_store_state_on(store, 0).used_bytes, 4 * UNIT);
    ck_assert_uint_eq(tensor_store_state_on(store, 1).used_bytes, 3 * UNIT);
    ck_assert_uint_eq(tensor_store_state(store).used_bytes, 7 * UNIT);
    ck_assert_uint_eq(tensor_store_state(store).capacity_bytes, 8 * UNIT);
}
END_TEST

START_TEST(free_memory_is_used_before_tensors_are_evicted)
{
    keep("old", 3, true, 0);
    keep("other", 2, false, 1);
    ck_assert_uint_eq(keep("new", 2, false, TENSOR_ANY_DEVICE), 1);
    ck_assert(has("old"));
    ck_assert_uint_eq(keep("newer", 2, false, TENSOR_ANY_DEVICE), 0);
    ck_assert(!has("old"));
}
END_TEST

START_TEST(a_device_that_is_asked_for_evicts_only_its_own)
{
    struct resident *resident;
    keep("on_0", 4, true, 0);
    keep("on_1", 4, false, 1);
    ck_assert_int_eq(reserve("new", 1, false, 1, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert(has("on_0"));
    keep("on_1", 4, true, 0); /* takes the place of on_0 */
    ck_assert(!has("on_0"));
}
END_TEST

START_TEST(a_tenants_limit_counts_all_devices)
{
    struct resident *resident;
    tear_down();
    open_store((uint64_t)3 * UNIT);
    keep("a", 2, true, 0);
    keep("b", 1, false, 1);
    ck_assert_int_eq(reserve("c", 3, false, 1, &resident), GEMMD_ERR_NO_ROOM);
    keep("c", 2, false, 1);
    ck_assert(!has("a"));
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 3 * UNIT);
}
END_TEST

static struct resident *acquire(const char *name)
{
    struct resident *resident;
    ck_assert_int_eq(tensor_store_acquire(store, name, "t", &resident, &fault), GEMMD_OK);
    return resident;
}

/* Keeps a copy of a tensor on a device. */
static void copy_to(const char *name, uint32_t device)
{
    struct resident *original = acquire(name), *copy;
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, device, &copy, &fault), GEMMD_OK);
    tensor_store_end_copy(store, original, copy, true);
    ck_assert(resident_is_on(original, device));
    tensor_store_release(store, original);
}

static uint64_t used_on(uint32_t device)
{
    return tensor_store_state_on(store, device).used_bytes / UNIT;
}

START_TEST(a_copy_has_no_name_and_counts_for_nobody)
{
    struct resident *original, *copy, *second;
    keep("a", 2, false, 0);
    original = acquire("a");
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, 1, &copy, &fault), GEMMD_OK);
    ck_assert_uint_eq(resident_device(copy), 1);
    ck_assert_uint_eq(resident_leading(copy), resident_leading(original));
    const struct work_copy rows = resident_copy_as_is(original, resident_memory(copy));
    ck_assert_ptr_eq(rows.from, resident_memory(original));
    ck_assert_uint_eq(rows.rows, 2);
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 2 * UNIT);
    ck_assert_uint_eq(tensor_store_state(store).count, 1);
    /* Nobody else can use the copy before it is complete. */
    ck_assert(resident_is_arriving(original, 1) && !resident_is_on(original, 1));
    ck_assert_ptr_null(tensor_store_acquire_copy(store, original, 1));
    tensor_store_end_copy(store, original, copy, true);
    ck_assert(!resident_is_arriving(original, 1) && resident_is_on(original, 1));
    second = tensor_store_acquire_copy(store, original, 1);
    ck_assert_ptr_eq(second, copy);
    tensor_store_release(store, second);
    ck_assert_uint_eq(used_on(1), 2);
    tensor_store_release(store, original);
}
END_TEST

START_TEST(a_copy_that_was_not_completed_is_given_back)
{
    keep("a", 2, false, 0);
    struct resident *original = acquire("a"), *copy;
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, 1, &copy, &fault), GEMMD_OK);
    tensor_store_end_copy(store, original, copy, false);
    ck_assert(!resident_is_on(original, 1) && !resident_is_arriving(original, 1));
    ck_assert_uint_eq(used_on(1), 0);
    /* Of two copies that two requests have made, one is kept. */
    struct resident *other;
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, 1, &copy, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, 1, &other, &fault), GEMMD_OK);
    tensor_store_end_copy(store, original, copy, true);
    tensor_store_end_copy(store, original, other, true);
    ck_assert_uint_eq(used_on(1), 2);
    tensor_store_release(store, original);
}
END_TEST

START_TEST(a_copy_without_memory_for_its_record)
{
    keep("a", 2, false, 0);
    struct resident *original = acquire("a"), *copy;
    calls_fail(1);
    const enum gemmd_error code = tensor_store_reserve_copy(store, original, 1, &copy, &fault);
    ck_assert(calls_end());
    ck_assert_int_eq(code, GEMMD_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(fault.detail, "no memory for the record of a tensor"));
    ck_assert(!resident_is_arriving(original, 1));
    ck_assert_uint_eq(used_on(1), 0);
    tensor_store_release(store, original);
}
END_TEST

/* Copies lie behind each other in the memory of their device. */
START_TEST(each_copy_has_memory_of_its_own)
{
    keep("a", 2, false, 0);
    keep("b", 1, false, 0);
    struct resident *a = acquire("a"), *b = acquire("b"), *copy_of_a, *copy_of_b;
    ck_assert_int_eq(tensor_store_reserve_copy(store, a, 1, &copy_of_a, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_store_reserve_copy(store, b, 1, &copy_of_b, &fault), GEMMD_OK);
    ck_assert_ptr_eq(resident_memory(copy_of_a), memories[1]);
    ck_assert_ptr_eq(resident_memory(copy_of_b), memories[1] + 2 * UNIT);
    tensor_store_end_copy(store, a, copy_of_a, false);
    tensor_store_end_copy(store, b, copy_of_b, false);
    tensor_store_release(store, a);
    tensor_store_release(store, b);
}
END_TEST

START_TEST(copies_go_before_tensors_do_and_the_oldest_first)
{
    keep("a", 1, false, 0);
    keep("b", 1, false, 0);
    keep("evictable", 1, true, 1);
    copy_to("a", 1);
    copy_to("b", 1);
    struct resident *a = acquire("a"), *b = acquire("b");
    tensor_store_release(store, tensor_store_acquire_copy(store, a, 1)); /* b's is older now */
    keep("new", 2, false, 1);
    ck_assert(resident_is_on(a, 1) && !resident_is_on(b, 1));
    struct resident *copy = tensor_store_acquire_copy(store, a, 1);
    keep("newer", 1, false, 1); /* a's copy is in use, so the tensor goes */
    ck_assert(!has("evictable") && resident_is_on(a, 1));
    tensor_store_release(store, copy);
    tensor_store_release(store, a);
    tensor_store_release(store, b);
}
END_TEST

START_TEST(copies_go_with_their_tensor)
{
    keep("a", 2, false, 0);
    copy_to("a", 1);
    struct resident *original = acquire("a");
    struct resident *copy = tensor_store_acquire_copy(store, original, 1);
    ck_assert_int_eq(tensor_store_remove(store, "a", "t", &always, &fault), GEMMD_OK);
    ck_assert_uint_eq(used_on(0), 2); /* both are in use */
    ck_assert_uint_eq(used_on(1), 2);
    tensor_store_release(store, copy);
    ck_assert_uint_eq(used_on(1), 0);
    /* A copy that is completed after the tensor was removed is not kept. */
    ck_assert_int_eq(tensor_store_reserve_copy(store, original, 1, &copy, &fault), GEMMD_OK);
    tensor_store_end_copy(store, original, copy, true);
    ck_assert_uint_eq(used_on(1), 0);
    tensor_store_release(store, original);
    ck_assert_uint_eq(used_on(0), 0);
}
END_TEST

START_TEST(a_copy_takes_the_place_of_a_tensor_that_is_lost)
{
    static const char etag[TENSOR_ETAG_SIZE] = "\"tag\"";
    keep("a", 2, true, 0);
    keep("b", 1, false, 1);
    copy_to("a", 1);
    struct resident *used = acquire("a"), *found;
    ck_assert_ptr_null(resident_etag(used));
    tensor_store_set_etag(store, used, etag);
    tensor_store_lose_device(store, 0);
    ck_assert(has("b"));
    found = acquire("a");
    ck_assert_uint_eq(resident_device(found), 1);
    ck_assert_pstr_eq(resident_etag(found), etag);
    ck_assert_ptr_ne(found, used);
    ck_assert(resident_evictable(found));
    ck_assert(!resident_is_on(found, 0));
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 5 * UNIT);
    tensor_store_release(store, found);
    tensor_store_release(store, used);
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 3 * UNIT);
    ck_assert_uint_eq(tensor_store_state(store).count, 2);
    keep("new", 3, false, TENSOR_ANY_DEVICE); /* the tensor can be evicted like any other */
    ck_assert(!has("a"));
}
END_TEST

START_TEST(copies_on_a_lost_device_are_gone)
{
    keep("a", 2, false, 0);
    copy_to("a", 1);
    tensor_store_lose_device(store, 1);
    struct resident *a = acquire("a"), *copy;
    ck_assert(resident_is_on(a, 0) && !resident_is_on(a, 1));
    ck_assert_int_eq(tensor_store_reserve_copy(store, a, 1, &copy, &fault),
                     GEMMD_ERR_OUT_OF_MEMORY);
    tensor_store_release(store, a);
}
END_TEST

START_TEST(the_tensors_of_a_lost_device_are_gone)
{
    struct resident *used, *resident;
    keep("on_0", 1, false, 0);
    keep("on_1", 1, false, 1);
    keep("idle_on_1", 1, true, 1);
    ck_assert_int_eq(tensor_store_acquire(store, "on_1", "t", &used, &fault), GEMMD_OK);
    tensor_store_lose_device(store, 1);
    ck_assert(has("on_0") && !has("on_1") && !has("idle_on_1"));
    ck_assert_uint_eq(tensor_store_state_on(store, 1).used_bytes, UNIT); /* still in use */
    tensor_store_release(store, used);
    ck_assert_uint_eq(tensor_store_state_on(store, 1).used_bytes, 0);
    ck_assert_uint_eq(keep("new", 1, false, TENSOR_ANY_DEVICE), 0);
    ck_assert_int_eq(reserve("more", 1, false, 1, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_int_eq(reserve("large", 3, false, TENSOR_ANY_DEVICE, &resident), GEMMD_ERR_NO_ROOM);
}
END_TEST

/* The hash of an upload may end long after the copy to the device. */
START_TEST(a_tensor_whose_device_was_lost_meanwhile_gets_no_name)
{
    struct resident *resident;
    bool replaced;
    keep("a", 1, false, 0);
    ck_assert_int_eq(reserve("a", 1, false, 1, &resident), GEMMD_OK);
    tensor_store_lose_device(store, 1);
    ck_assert_int_eq(tensor_store_publish(store, resident, &always, &replaced, &fault),
                     GEMMD_ERR_DEVICE_LOST);
    tensor_store_release(store, resident);
    struct resident *before = acquire("a");
    ck_assert_uint_eq(resident_device(before), 0);
    tensor_store_release(store, before);
    ck_assert_uint_eq(tensor_store_state_on(store, 1).used_bytes, 0);
}
END_TEST

START_TEST(a_device_without_tensor_memory_gets_none)
{
    tear_down();
    memories[0] = aligned_alloc(UNIT, (size_t)UNITS * UNIT);
    memories[1] = NULL;
    const struct device_span spans[2] = {{NULL, 0}, {memories[0], (uint64_t)UNITS * UNIT}};
    struct resident *resident;
    store = tensor_store_create(spans, 2, &cpu, 0);
    ck_assert_int_eq(reserve("a", 4, false, TENSOR_ANY_DEVICE, &resident), GEMMD_OK);
    ck_assert_uint_eq(resident_device(resident), 1);
    tensor_store_release(store, resident);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_store_devices");
    TCase *tests = tcase_create("tensor_store_devices");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_device_with_the_most_free_memory_gets_a_tensor);
    tcase_add_test(tests, free_memory_is_used_before_tensors_are_evicted);
    tcase_add_test(tests, a_device_that_is_asked_for_evicts_only_its_own);
    tcase_add_test(tests, a_tenants_limit_counts_all_devices);
    tcase_add_test(tests, a_copy_has_no_name_and_counts_for_nobody);
    tcase_add_test(tests, a_copy_that_was_not_completed_is_given_back);
    tcase_add_test(tests, a_copy_without_memory_for_its_record);
    tcase_add_test(tests, each_copy_has_memory_of_its_own);
    tcase_add_test(tests, copies_go_before_tensors_do_and_the_oldest_first);
    tcase_add_test(tests, copies_go_with_their_tensor);
    tcase_add_test(tests, a_copy_takes_the_place_of_a_tensor_that_is_lost);
    tcase_add_test(tests, copies_on_a_lost_device_are_gone);
    tcase_add_test(tests, the_tensors_of_a_lost_device_are_gone);
    tcase_add_test(tests, a_tensor_whose_device_was_lost_meanwhile_gets_no_name);
    tcase_add_test(tests, a_device_without_tensor_memory_gets_none);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
