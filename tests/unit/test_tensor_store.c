/* server/tensors/tensor_store.c: owners of names, the end of memory, and eviction. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/device/memory/arena.h"
#include "server/tensors/tensor_store.h"

enum { UNIT = ARENA_ALIGNMENT, UNITS = 16 };

static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
static const struct tensor_condition always;
static unsigned char *memory;
static struct tensor_store *store;
static struct fault fault;

static void set_up(void)
{
    memory = aligned_alloc(UNIT, UNITS * UNIT);
    ck_assert_ptr_nonnull(memory);
    store = tensor_store_create(&(struct device_span){memory, UNITS * UNIT}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(store);
    memset(&fault, 0, sizeof fault);
}

static void tear_down(void)
{
    tensor_store_destroy(store);
    free(memory);
}

/* An f32 tensor that takes the given number of units of memory. */
static struct tensor tensor_of(uint64_t units)
{
    struct tensor tensor;
    const uint64_t dims[] = {units, UNIT / 4};
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, 2, NULL));
    return tensor;
}

static enum gemmd_error reserve(const char *tenant, const char *name, uint64_t units,
                                bool evictable, struct resident **resident)
{
    const struct tensor tensor = tensor_of(units);
    const struct tensor_offer offer = {.name = name,
                                       .tenant = tenant,
                                       .evictable = evictable,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    return tensor_store_reserve(store, &offer, resident, &fault);
}

/* Stores a tensor and releases it. */
static void put(const char *tenant, const char *name, uint64_t units, bool evictable)
{
    struct resident *resident;
    bool replaced;
    ck_assert_msg(reserve(tenant, name, units, evictable, &resident) == GEMMD_OK, "%s: %s", name,
                  fault.detail);
    ck_assert_msg(tensor_store_publish(store, resident, &always, &replaced, &fault) == GEMMD_OK,
                  "%s: %s", name, fault.detail);
    tensor_store_release(store, resident);
}

static struct resident *acquire(const char *tenant, const char *name)
{
    struct resident *resident = NULL;
    ck_assert_msg(tensor_store_acquire(store, name, tenant, &resident, &fault) == GEMMD_OK,
                  "%s: %s", name, fault.detail);
    return resident;
}

static bool is_there(const char *tenant, const char *name)
{
    struct resident *resident;
    enum gemmd_error code = tensor_store_acquire(store, name, tenant, &resident, &fault);
    if (code == GEMMD_OK)
        tensor_store_release(store, resident);
    else
        ck_assert_int_eq(code, GEMMD_ERR_NOT_FOUND);
    return code == GEMMD_OK;
}

static uint64_t used(void)
{
    return tensor_store_state(store).used_bytes / UNIT;
}

START_TEST(what_is_stored_is_found)
{
    put("t", "b", 2, false);
    put("t", "a", 1, true);
    put("t", "c", 3, false);
    struct resident *resident = acquire("t", "b");
    ck_assert_str_eq(resident_name(resident), "b");
    ck_assert(!resident_evictable(resident));
    const struct tensor *tensor = resident_tensor(resident);
    ck_assert_uint_eq(tensor->dtype, GEMMD_F32);
    ck_assert_uint_eq(tensor->rank, 2);
    ck_assert_uint_eq(tensor->dims[0], 2);
    ck_assert_uint_eq(tensor->bytes, 2 * UNIT);
    ck_assert_uint_eq(resident_rows(resident), 2);
    ck_assert_uint_eq(resident_leading(resident), UNIT / 4);
    ck_assert_uint_eq(resident_memory_bytes(resident), 2 * UNIT);
    unsigned char *at = resident_memory(resident);
    ck_assert(at >= memory && at + 2 * UNIT <= memory + UNITS * UNIT);
    tensor_store_release(store, resident);
    ck_assert_uint_eq(used(), 6);
    ck_assert_uint_eq(tensor_store_state(store).count, 3);
    ck_assert(!is_there("t", "d"));
}
END_TEST

START_TEST(a_tensor_has_no_name_before_it_is_published)
{
    struct resident *resident;
    ck_assert_int_eq(reserve("t", "a", 1, false, &resident), GEMMD_OK);
    ck_assert(!is_there("t", "a"));
    ck_assert_uint_eq(used(), 1);
    tensor_store_release(store, resident); /* given up */
    ck_assert_uint_eq(used(), 0);
}
END_TEST

START_TEST(one_that_is_removed_stays_while_it_is_used)
{
    put("t", "a", 2, false);
    struct resident *first = acquire("t", "a"), *second = acquire("t", "a");
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(tensor_store_remove(store, "a", "t", &always, &fault), GEMMD_OK);
    ck_assert(!is_there("t", "a"));
    tensor_store_release(store, first);
    ck_assert_uint_eq(used(), 2);
    ck_assert_uint_eq(resident_tensor(second)->bytes, 2 * UNIT);
    tensor_store_release(store, second);
    ck_assert_uint_eq(used(), 0);
    ck_assert_int_eq(tensor_store_remove(store, "a", "t", &always, &fault), GEMMD_ERR_NOT_FOUND);
}
END_TEST

START_TEST(one_that_is_replaced_stays_while_it_is_used)
{
    struct resident *fresh;
    bool replaced = false;
    put("t", "a", 2, true);
    struct resident *old = acquire("t", "a");
    ck_assert_int_eq(reserve("t", "a", 3, false, &fresh), GEMMD_OK);
    ck_assert_int_eq(tensor_store_publish(store, fresh, &always, &replaced, &fault), GEMMD_OK);
    ck_assert(replaced);
    ck_assert_uint_eq(used(), 5);
    ck_assert_uint_eq(tensor_store_state(store).count, 1);
    struct resident *found = acquire("t", "a");
    ck_assert_ptr_eq(found, fresh);
    tensor_store_release(store, found);
    tensor_store_release(store, fresh);
    tensor_store_release(store, old);
    ck_assert_uint_eq(used(), 3);
}
END_TEST

START_TEST(the_budget_is_exact)
{
    struct resident *resident;
    put("t", "a", UNITS - 1, false);
    ck_assert_int_eq(reserve("t", "b", 2, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_ptr_nonnull(strstr(fault.detail, "8 KiB needed, 4 KiB free (--tensor-bytes)"));
    put("t", "b", 1, false);
    ck_assert_uint_eq(used(), UNITS);
    ck_assert_uint_eq(tensor_store_state(store).capacity_bytes, UNITS * UNIT);
    ck_assert_int_eq(reserve("t", "c", 1, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_uint_eq(tensor_store_state(store).evictions, 0);
}
END_TEST

START_TEST(a_tiny_tensor_takes_what_the_arena_gives)
{
    struct tensor tensor;
    struct resident *resident;
    const uint64_t one = 1;
    ck_assert(tensor_init(&tensor, GEMMD_I8, &one, 1, NULL));
    for (int i = 0; i < UNITS; i++) {
        char name[16];
        bool replaced;
        snprintf(name, sizeof name, "t%d", i);
        const struct tensor_offer offer = {.name = name,
                                           .tenant = "t",
                                           .evictable = false,
                                           .tensor = &tensor,
                                           .device = TENSOR_ANY_DEVICE};
        ck_assert_int_eq(tensor_store_reserve(store, &offer, &resident, &fault), GEMMD_OK);
        ck_assert_int_eq(tensor_store_publish(store, resident, &always, &replaced, &fault),
                         GEMMD_OK);
        tensor_store_release(store, resident);
    }
    const struct tensor_offer offer = {.name = "more",
                                       .tenant = "t",
                                       .evictable = false,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    ck_assert_int_eq(tensor_store_reserve(store, &offer, &resident, &fault), GEMMD_ERR_NO_ROOM);
}
END_TEST

START_TEST(a_store_without_memory_has_no_room)
{
    const struct tensor tensor = tensor_of(1);
    const struct tensor_offer offer = {.name = "a",
                                       .tenant = "t",
                                       .evictable = false,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    struct resident *resident;
    struct tensor_store *none = tensor_store_create(&(struct device_span){NULL, 0}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(none);
    ck_assert_int_eq(tensor_store_reserve(none, &offer, &resident, &fault), GEMMD_ERR_NO_ROOM);
    ck_assert_uint_eq(tensor_store_state(none).capacity_bytes, 0);
    tensor_store_destroy(none);
}
END_TEST

START_TEST(a_size_beyond_64_bits_has_no_room)
{
    const struct tensor tensor = {
        .dtype = GEMMD_F64, .rank = 3, .dims = {UINT64_C(1) << 31, UINT64_C(1) << 31, 2}};
    const struct tensor_offer offer = {.name = "a",
                                       .tenant = "t",
                                       .evictable = false,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    struct resident *resident;
    ck_assert_int_eq(tensor_store_reserve(store, &offer, &resident, &fault), GEMMD_ERR_NO_ROOM);
    ck_assert_uint_eq(used(), 0);
}
END_TEST

/* --- eviction --- */

START_TEST(the_least_recently_used_goes_first)
{
    put("t", "a", 4, true);
    put("t", "b", 4, true);
    put("t", "c", 4, true);
    put("t", "d", 4, true);
    tensor_store_release(store, acquire("t", "a"));
    put("t", "e", 4, true);
    ck_assert(!is_there("t", "b"));
    ck_assert(is_there("t", "c")); /* and is now the last used */
    put("t", "f", 4, true);
    ck_assert(!is_there("t", "d"));
    ck_assert(is_there("t", "a") && is_there("t", "c") && is_there("t", "e"));
    ck_assert_uint_eq(tensor_store_state(store).evictions, 2);
}
END_TEST

START_TEST(only_what_is_marked_goes)
{
    struct resident *resident;
    put("t", "kept", UNITS / 2, false);
    put("t", "spare", UNITS / 2, true);
    ck_assert_int_eq(reserve("t", "large", UNITS / 2 + 1, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert(is_there("t", "spare")); /* would not have helped */
    put("t", "other", UNITS / 2, false);
    ck_assert(!is_there("t", "spare"));
    ck_assert(is_there("t", "kept"));
}
END_TEST

START_TEST(none_goes_where_what_stays_lies_between)
{
    struct resident *resident;
    put("t", "a", 2, true);
    put("t", "b", 2, false);
    put("t", "c", 2, true);
    put("t", "d", UNITS - 8, false);
    ck_assert_int_eq(reserve("t", "large", 5, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_int_eq(reserve("t", "large", 3, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert(is_there("t", "a") && is_there("t", "c")); /* 4 units, and 2 are free, but apart */
    ck_assert_int_eq(tensor_store_remove(store, "b", "t", &always, &fault), GEMMD_OK);
    put("t", "e", 6, false);
    ck_assert(!is_there("t", "a") && !is_there("t", "c"));
    ck_assert_uint_eq(tensor_store_state(store).evictions, 2);
}
END_TEST

START_TEST(only_the_same_tenants_go)
{
    struct resident *resident;
    put("one", "a", UNITS / 2, true);
    put("two", "b", UNITS / 2, true);
    ck_assert_int_eq(reserve("two", "c", UNITS / 2 + 1, false, &resident), GEMMD_ERR_NO_ROOM);
    put("two", "c", UNITS / 2, false);
    ck_assert(is_there("one", "a"));
    ck_assert(!is_there("two", "b"));
    ck_assert_int_eq(reserve("three", "d", 1, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert(is_there("one", "a"));
}
END_TEST

START_TEST(what_is_in_use_does_not_go)
{
    struct resident *resident;
    put("t", "a", UNITS / 2, true);
    put("t", "b", UNITS / 2, true);
    struct resident *busy = acquire("t", "a");
    ck_assert_int_eq(reserve("t", "c", UNITS, false, &resident), GEMMD_ERR_NO_ROOM);
    put("t", "c", UNITS / 2, false);
    ck_assert(!is_there("t", "b"));
    ck_assert(is_there("t", "a"));
    tensor_store_release(store, busy);
    put("t", "d", UNITS / 2, false); /* not in use any more */
    ck_assert(!is_there("t", "a"));
}
END_TEST

START_TEST(a_replaced_or_removed_one_is_not_evicted_again)
{
    put("t", "a", 4, true);
    put("t", "a", 4, true);
    put("t", "b", 4, true);
    ck_assert_int_eq(tensor_store_remove(store, "b", "t", &always, &fault), GEMMD_OK);
    put("t", "c", UNITS, false);
    ck_assert_uint_eq(tensor_store_state(store).evictions, 1);
    ck_assert_uint_eq(tensor_store_state(store).count, 1);
}
END_TEST

/* --- tenants --- */

static void part(uint64_t units)
{
    tensor_store_destroy(store);
    const struct device_span span = {memory, UNITS * UNIT};
    store = tensor_store_create(&span, 1, &cpu, units * UNIT);
    ck_assert_ptr_nonnull(store);
}

START_TEST(a_tenant_has_his_own_part)
{
    struct resident *resident;
    part(6);
    put("one", "a", 4, false);
    ck_assert_int_eq(reserve("one", "b", 3, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_ptr_nonnull(strstr(fault.detail, "tenant-tensor-bytes"));
    put("one", "c", 2, false);
    put("two", "d", 6, false);
    ck_assert_uint_eq(tensor_store_used_by(store, "one"), 6 * UNIT);
    struct resident *busy = acquire("one", "a");
    ck_assert_int_eq(tensor_store_remove(store, "a", "one", &always, &fault), GEMMD_OK);
    ck_assert_int_eq(reserve("one", "e", 1, false, &resident), GEMMD_ERR_NO_ROOM);
    tensor_store_release(store, busy); /* its memory counted until now */
    put("one", "e", 4, false);
    ck_assert_uint_eq(tensor_store_used_by(store, "one"), 6 * UNIT);
    ck_assert_uint_eq(tensor_store_used_by(store, "three"), 0);
}
END_TEST

START_TEST(ones_own_make_room_within_his_part)
{
    struct resident *resident;
    part(6);
    put("one", "a", 2, true);
    put("one", "b", 2, true);
    put("one", "c", 2, false);
    ck_assert_int_eq(reserve("one", "d", 5, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert(is_there("one", "a") && is_there("one", "b"));
    tensor_store_release(store, acquire("one", "a"));
    put("one", "d", 1, true); /* there is memory, but not his */
    ck_assert(!is_there("one", "b") && is_there("one", "a") && is_there("one", "c"));
    put("one", "e", 4, true);
    ck_assert(!is_there("one", "a") && !is_there("one", "d") && is_there("one", "e"));
    ck_assert_uint_eq(tensor_store_used_by(store, "one"), 6 * UNIT);
}
END_TEST

/* Tensors beyond a lowered part stay. Evicting idle tensors makes room for a further one only if
 * the tenant is then within his part. */
START_TEST(his_part_changes)
{
    struct resident *resident;
    put("one", "a", 4, false);
    put("one", "b", 2, true);
    tensor_store_set_tenant_bytes(store, 3 * UNIT);
    ck_assert(is_there("one", "a") && is_there("one", "b"));
    ck_assert_int_eq(reserve("one", "c", 1, false, &resident), GEMMD_ERR_NO_ROOM);
    ck_assert_ptr_nonnull(strstr(fault.detail, "0 bytes free of this tenant's"));
    ck_assert(is_there("one", "b"));
    ck_assert_uint_eq(tensor_store_used_by(store, "one"), 6 * UNIT);
    ck_assert_int_eq(tensor_store_remove(store, "a", "one", &always, &fault), GEMMD_OK);
    put("one", "c", 2, false);
    ck_assert(!is_there("one", "b") && is_there("one", "c"));
    put("two", "d", 3, false);
    ck_assert_int_eq(reserve("two", "e", 1, false, &resident), GEMMD_ERR_NO_ROOM);
    tensor_store_set_tenant_bytes(store, 0);
    put("two", "e", 1, false);
}
END_TEST

START_TEST(a_name_is_one_tenants)
{
    struct resident *resident, *late;
    bool replaced;
    ck_assert_int_eq(reserve("two", "a", 1, false, &late), GEMMD_OK); /* nobody has it yet */
    put("one", "a", 1, false);
    ck_assert_int_eq(tensor_store_acquire(store, "a", "two", &resident, &fault),
                     GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(tensor_store_remove(store, "a", "two", &always, &fault), GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(tensor_store_require(store, "a", "two", &always, &fault), GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(reserve("two", "a", 1, false, &resident), GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(tensor_store_publish(store, late, &always, &replaced, &fault),
                     GEMMD_ERR_FORBIDDEN);
    tensor_store_release(store, late);
    ck_assert_uint_eq(used(), 1);
    ck_assert_int_eq(tensor_store_remove(store, "a", "one", &always, &fault), GEMMD_OK);
    put("two", "a", 1, false);
    ck_assert(is_there("two", "a"));
}
END_TEST

static void assert_page(const char *tenant, const char *after, uint32_t capacity,
                        const char *expected)
{
    struct resident *page[8];
    char got[64] = "";
    bool more;
    const uint32_t count = tensor_store_page(store, tenant, after, page, capacity, &more);
    for (uint32_t i = 0; i < count; i++) {
        strcat(got, resident_name(page[i]));
        tensor_store_release(store, page[i]);
    }
    strcat(got, more ? "+" : "");
    ck_assert_str_eq(got, expected);
}

START_TEST(pages_list_a_tenants_own_by_name)
{
    put("t", "d", 1, false);
    put("u", "c", 1, false);
    put("t", "b", 1, true);
    put("t", "a", 1, false);
    put("t", "e", 1, false);
    assert_page("t", "", 8, "abde");
    assert_page("t", "", 4, "abde");
    assert_page("t", "", 2, "ab+");
    assert_page("t", "b", 2, "de");
    assert_page("t", "c", 1, "d+"); /* a name need not exist to go on after it */
    assert_page("t", "e", 8, "");
    assert_page("u", "", 8, "c");
    assert_page("nobody", "", 8, "");
}
END_TEST

/* --- conditions and tags --- */

START_TEST(a_condition_is_kept_when_the_name_changes_hands)
{
    const struct tensor_condition create = {.if_none_match = "*"};
    struct resident *resident;
    bool replaced;
    ck_assert_int_eq(tensor_store_require(store, "a", "t", &create, &fault), GEMMD_OK);
    ck_assert_int_eq(reserve("t", "a", 1, false, &resident), GEMMD_OK);
    put("t", "a", 2, false); /* meanwhile */
    ck_assert_int_eq(tensor_store_publish(store, resident, &create, &replaced, &fault),
                     GEMMD_ERR_PRECONDITION);
    tensor_store_release(store, resident);
    ck_assert_uint_eq(used(), 2);
}
END_TEST

START_TEST(a_tag_is_matched_once_it_is_known)
{
    char etag[TENSOR_ETAG_SIZE];
    const struct tensor_condition same = {.if_match = etag};
    struct tensor_hash hash;
    put("t", "a", 1, false);
    struct resident *resident = acquire("t", "a");
    tensor_hash_start(&hash, resident_tensor(resident));
    tensor_hash_end(&hash, etag);
    ck_assert_ptr_null(resident_etag(resident));
    ck_assert_int_eq(tensor_store_remove(store, "a", "t", &same, &fault), GEMMD_ERR_PRECONDITION);
    tensor_store_set_etag(store, resident, etag);
    ck_assert_str_eq(resident_etag(resident), etag);
    ck_assert_int_eq(tensor_store_require(store, "a", "t", &same, &fault), GEMMD_OK);
    ck_assert_int_eq(tensor_store_remove(store, "a", "t", &same, &fault), GEMMD_OK);
    tensor_store_release(store, resident);
}
END_TEST

START_TEST(uses_are_counted)
{
    tensor_store_count_use(store, true);
    tensor_store_count_use(store, true);
    tensor_store_count_use(store, false);
    ck_assert_uint_eq(tensor_store_state(store).hits, 2);
    ck_assert_uint_eq(tensor_store_state(store).misses, 1);
}
END_TEST

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 2000 };

/* The first byte of a tensor's memory is its writer's number, and does not change while the tensor
 * is in use. */
static void use_one(const char *tenant, const char *name)
{
    struct resident *resident;
    struct fault local;
    if (tensor_store_acquire(store, name, tenant, &resident, &local) != GEMMD_OK)
        return;
    const unsigned char *byte = resident_memory(resident);
    const unsigned char seen = *byte;
    (void)resident_etag(resident);
    ck_assert_uint_eq(*byte, seen);
    ck_assert_uint_eq(seen, (unsigned char)resident_tensor(resident)->dims[0]);
    tensor_store_release(store, resident);
}

static void put_one(const char *tenant, const char *name, uint64_t units, bool evictable)
{
    const struct tensor tensor = tensor_of(units);
    const struct tensor_offer offer = {.name = name,
                                       .tenant = tenant,
                                       .evictable = evictable,
                                       .tensor = &tensor,
                                       .device = TENSOR_ANY_DEVICE};
    struct resident *resident;
    struct fault local;
    bool replaced;
    if (tensor_store_reserve(store, &offer, &resident, &local) != GEMMD_OK)
        return;
    *(unsigned char *)resident_memory(resident) = (unsigned char)units;
    (void)tensor_store_publish(store, resident, &always, &replaced, &local);
    tensor_store_release(store, resident);
}

static void *play(void *argument)
{
    unsigned state = *(unsigned *)argument;
    const char *tenant = state % 2 ? "odd" : "even";
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525u + 1013904223u;
        const char *name = names[(state >> 8) % 6];
        struct resident *page[4];
        struct fault local;
        bool more;
        switch ((state >> 16) % 4) {
        case 0:
            put_one(tenant, name, 1 + (state >> 20) % 5, (state >> 24) & 1);
            break;
        case 1:
            (void)tensor_store_remove(store, name, tenant, &always, &local);
            break;
        case 2:
            for (uint32_t n = tensor_store_page(store, tenant, "", page, 4, &more); n > 0; n--)
                tensor_store_release(store, page[n - 1]);
            break;
        default:
            use_one(tenant, name);
        }
    }
    return NULL;
}

START_TEST(threads_get_along)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS] = {1, 2, 3, 4};
    struct resident *page[8];
    bool more;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, play, &seeds[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t left = 0;
    for (int i = 0; i < 2; i++) {
        const uint32_t count = tensor_store_page(store, i ? "odd" : "even", "", page, 8, &more);
        for (uint32_t j = 0; j < count; j++) {
            left += resident_memory_bytes(page[j]);
            tensor_store_release(store, page[j]);
        }
    }
    ck_assert_uint_eq(tensor_store_state(store).used_bytes, left);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tensor_store");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_stored_is_found);
    tcase_add_test(tests, a_tensor_has_no_name_before_it_is_published);
    tcase_add_test(tests, one_that_is_removed_stays_while_it_is_used);
    tcase_add_test(tests, one_that_is_replaced_stays_while_it_is_used);
    tcase_add_test(tests, the_budget_is_exact);
    tcase_add_test(tests, a_tiny_tensor_takes_what_the_arena_gives);
    tcase_add_test(tests, a_store_without_memory_has_no_room);
    tcase_add_test(tests, a_size_beyond_64_bits_has_no_room);
    tcase_add_test(tests, the_least_recently_used_goes_first);
    tcase_add_test(tests, only_what_is_marked_goes);
    tcase_add_test(tests, none_goes_where_what_stays_lies_between);
    tcase_add_test(tests, only_the_same_tenants_go);
    tcase_add_test(tests, what_is_in_use_does_not_go);
    tcase_add_test(tests, a_replaced_or_removed_one_is_not_evicted_again);
    tcase_add_test(tests, a_tenant_has_his_own_part);
    tcase_add_test(tests, ones_own_make_room_within_his_part);
    tcase_add_test(tests, his_part_changes);
    tcase_add_test(tests, a_name_is_one_tenants);
    tcase_add_test(tests, pages_list_a_tenants_own_by_name);
    tcase_add_test(tests, a_condition_is_kept_when_the_name_changes_hands);
    tcase_add_test(tests, a_tag_is_matched_once_it_is_known);
    tcase_add_test(tests, uses_are_counted);
    tcase_add_test(tests, threads_get_along);
    Suite *suite = suite_create("tensor_store");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
