/* server/shm/shm_store.c and regions.c: mappings, their references and limits, and the owners of
 * regions. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/device/device_ops.h"
#include "server/shm/regions.h"
#include "server/shm/system_object.h"

enum { SIZE = 8192 };

static const struct device_ops ops = {.computes_in_submit = true};
static struct device device = {.ops = &ops, .info = {.backend = GEMM_BACKEND_CPU}};
static struct shm_store *store;
static struct regions *regions;
static sem_t answered;
static char key[64];
static int descriptors;

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void open_store(void)
{
    const struct shm_limits limits = {.bytes = 3 * SIZE, .mappings = 3};
    descriptors = count_descriptors();
    sem_init(&answered, 0, 0);
    store = shm_store_create(&limits, &(struct device *){&device}, 1);
    regions = regions_create(&(struct region_limits){.regions = 3});
    ck_assert_ptr_nonnull(store);
    ck_assert_ptr_nonnull(regions);
    snprintf(key, sizeof key, "/gemmd-unit-%d", (int)getpid());
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, SIZE), 0);
    close(fd);
}

/* Checks that no mapping and no descriptor is left. */
static void close_store(void)
{
    shm_unlink(key);
    regions_destroy(regions);
    shm_store_stop(store);
    ck_assert_uint_le(shm_store_counts(store).mappings, 3);
    shm_store_destroy(store);
    ck_assert_int_eq(count_descriptors(), descriptors);
}

static void answer(struct shm_offer *offer)
{
    (void)offer;
    sem_post(&answered);
}

static enum gemmd_error take(struct shm_offer *offer)
{
    offer->done = answer;
    shm_store_map(store, offer);
    while (sem_wait(&answered) != 0)
        ;
    return offer->mapping != NULL ? GEMMD_OK : offer->fault.code;
}

static int memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("unit", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static struct shm_offer object(const char *name, uint64_t offset, uint64_t bytes)
{
    struct shm_offer offer = {
        .kind = SHM_SYSTEM, .user = geteuid(), .offset = offset, .bytes = bytes};
    snprintf(offer.key, sizeof offer.key, "%s", name);
    return offer;
}

static struct shm_offer descriptor(int fd)
{
    return (struct shm_offer){.kind = SHM_MEMFD, .fd = fd};
}

/* Waits until the store's thread has handled every message so far. */
static void settle(void)
{
    struct shm_offer nothing = object("/", 0, 1);
    ck_assert_int_eq(take(&nothing), GEMMD_ERR_NOT_FOUND);
}

START_TEST(a_mapping_goes_with_its_last_reference)
{
    struct shm_offer offer = object(key, 4096, 4096);
    ck_assert_int_eq(take(&offer), GEMMD_OK);
    ck_assert_uint_eq(shm_store_counts(store).bytes, 4096);
    ck_assert_ptr_nonnull(shm_mapping_at(offer.mapping, 0, 4096));
    ck_assert_ptr_eq(shm_mapping_at(offer.mapping, 8, 1), shm_mapping_at(offer.mapping, 0, 1) + 8);
    ck_assert_ptr_null(shm_mapping_at(offer.mapping, 1, 4096));
    ck_assert_ptr_null(shm_mapping_at(offer.mapping, UINT64_MAX, 1));
    ck_assert_ptr_null(shm_mapping_at(offer.mapping, 1, UINT64_MAX));
    shm_mapping_hold(offer.mapping);
    shm_mapping_release(offer.mapping);
    settle();
    ck_assert_uint_eq(shm_store_counts(store).mappings, 1);
    shm_mapping_release(offer.mapping);
    settle();
    ck_assert_uint_eq(shm_store_counts(store).mappings, 0);
    ck_assert_uint_eq(shm_store_counts(store).bytes, 0);
}
END_TEST

START_TEST(descriptors_of_one_memfd_are_one_mapping)
{
    int fd = memfd(SIZE, F_SEAL_SHRINK | F_SEAL_GROW);
    struct shm_offer first = descriptor(dup(fd)), second = descriptor(dup(fd));
    struct shm_offer other = descriptor(memfd(SIZE, F_SEAL_SHRINK));
    close(fd);
    ck_assert_int_eq(take(&first), GEMMD_OK);
    ck_assert_int_eq(take(&second), GEMMD_OK);
    ck_assert_int_eq(take(&other), GEMMD_OK);
    ck_assert_ptr_eq(first.mapping, second.mapping);
    ck_assert_ptr_ne(first.mapping, other.mapping);
    ck_assert_uint_eq(shm_store_counts(store).bytes, 2 * SIZE);
    shm_mapping_release(first.mapping);
    shm_mapping_release(second.mapping);
    shm_mapping_release(other.mapping);
}
END_TEST

START_TEST(what_is_no_sealed_memfd_is_refused)
{
    int ends[2];
    struct shm_offer loose = descriptor(memfd(SIZE, F_SEAL_GROW));
    struct shm_offer empty = descriptor(memfd(0, F_SEAL_SHRINK));
    struct shm_offer folder = descriptor(open("/", O_RDONLY));
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[1]);
    struct shm_offer end = descriptor(ends[0]);
    ck_assert_int_eq(take(&loose), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(take(&empty), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(take(&folder), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(take(&end), GEMMD_ERR_MALFORMED);
    ck_assert_uint_eq(shm_store_counts(store).mappings, 0);
}
END_TEST

START_TEST(the_limits_are_of_bytes_and_of_mappings)
{
    struct shm_offer offers[4];
    for (int i = 0; i < 4; i++)
        offers[i] = object(key, 0, 100);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(take(&offers[i]), GEMMD_OK);
    ck_assert_int_eq(take(&offers[3]), GEMMD_ERR_NO_ROOM);
    shm_mapping_release(offers[0].mapping);
    settle();
    struct shm_offer large = object(key, 0, 3 * SIZE - 199);
    ck_assert_int_eq(take(&large), GEMMD_ERR_NO_ROOM);
    ck_assert_int_eq(take(&offers[3]), GEMMD_OK);
    for (int i = 1; i < 4; i++)
        shm_mapping_release(offers[i].mapping);
}
END_TEST

START_TEST(objects_of_others_and_none_are_told_in_the_same_words)
{
    struct shm_offer none = object("/gemmd-unit-none", 0, 1), theirs = object(key, 0, 1);
    theirs.user = geteuid() + 1;
    ck_assert_int_eq(take(&none), GEMMD_ERR_NOT_FOUND);
    ck_assert_int_eq(take(&theirs), GEMMD_ERR_NOT_FOUND);
    ck_assert_str_eq(none.fault.detail, theirs.fault.detail);
    struct shm_offer short_of = object(key, 0, SIZE + 1);
    ck_assert_int_eq(take(&short_of), GEMMD_ERR_MALFORMED);
}
END_TEST

START_TEST(memory_of_a_gpu_needs_one)
{
    struct shm_offer offer = {.kind = SHM_CUDA, .bytes = 64};
    ck_assert_int_eq(take(&offer), GEMMD_ERR_UNSUPPORTED);
    ck_assert_uint_eq(shm_store_counts(store).bytes, 0);
}
END_TEST

START_TEST(a_store_that_has_stopped_answers_all_the_same)
{
    struct shm_offer offer = descriptor(memfd(SIZE, F_SEAL_SHRINK));
    struct shm_store *other =
        shm_store_create(&(struct shm_limits){SIZE, 1}, &(struct device *){&device}, 1);
    shm_store_stop(other);
    offer.done = answer;
    shm_store_map(other, &offer);
    ck_assert_int_eq(sem_trywait(&answered), 0);
    ck_assert_int_eq(offer.fault.code, GEMMD_ERR_DRAINING);
    shm_store_destroy(other);
}
END_TEST

static struct shm_mapping *some_mapping(void)
{
    struct shm_offer offer = object(key, 0, 100);
    ck_assert_int_eq(take(&offer), GEMMD_OK);
    return offer.mapping;
}

static enum gemmd_error add(struct region_owner owner, const char *name, enum shm_kind kind)
{
    struct fault fault;
    struct region region = {.kind = kind, .mapping = some_mapping()};
    snprintf(region.name, sizeof region.name, "%s", name);
    return regions_add(regions, owner, &region, &fault);
}

static void count(void *context, const struct region *region)
{
    (void)region;
    ++*(uint32_t *)context;
}

static uint32_t seen(struct region_owner owner, enum shm_kind kind, const char *name)
{
    uint32_t visited = 0, told = regions_each(regions, owner, kind, name, count, &visited);
    ck_assert_uint_eq(visited, told);
    return told;
}

START_TEST(names_are_their_owners)
{
    const struct region_owner one = {0, 1000}, user = {0, 1001}, tenant = {1, 1000};
    struct shm_mapping *mapping;
    struct fault fault;
    ck_assert_int_eq(add(one, "r", SHM_SYSTEM), GEMMD_OK);
    ck_assert_int_eq(add(one, "r", SHM_CUDA), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(regions_find(regions, user, "r", &mapping, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(regions_find(regions, tenant, "r", &mapping, &fault), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(add(user, "r", SHM_SYSTEM), GEMMD_OK);
    regions_remove(regions, user, SHM_SYSTEM, NULL);
    regions_remove(regions, tenant, SHM_SYSTEM, "r");
    regions_remove(regions, one, SHM_CUDA, NULL);
    ck_assert_uint_eq(seen(one, SHM_SYSTEM, NULL), 1);
    ck_assert_uint_eq(seen(one, SHM_SYSTEM, "r"), 1);
    ck_assert_uint_eq(seen(one, SHM_CUDA, NULL), 0);
    ck_assert_uint_eq(seen(user, SHM_SYSTEM, NULL), 0);

    /* In use: the name goes, the memory stays until it is given back. */
    ck_assert_int_eq(regions_find(regions, one, "r", &mapping, &fault), GEMMD_OK);
    regions_remove(regions, one, SHM_SYSTEM, "r");
    ck_assert_uint_eq(regions_count(regions), 0);
    settle();
    ck_assert_uint_eq(shm_store_counts(store).mappings, 1);
    shm_mapping_at(mapping, 0, 100)[99] = 1;
    shm_mapping_release(mapping);
    settle();
    ck_assert_uint_eq(shm_store_counts(store).mappings, 0);
}
END_TEST

START_TEST(names_have_a_limit)
{
    const struct region_owner one = {0, 1000};
    struct region region = {.kind = SHM_SYSTEM, .name = "d"};
    struct fault fault;
    ck_assert_int_eq(add(one, "a", SHM_SYSTEM), GEMMD_OK);
    ck_assert_int_eq(add(one, "b", SHM_CUDA), GEMMD_OK);
    region.mapping = some_mapping();
    shm_mapping_hold(region.mapping);
    ck_assert_int_eq(regions_add(regions, one, &region, &fault), GEMMD_OK);
    snprintf(region.name, sizeof region.name, "e");
    ck_assert_int_eq(regions_add(regions, one, &region, &fault), GEMMD_ERR_NO_ROOM);
    ck_assert_uint_eq(regions_count(regions), 3);
}
END_TEST

START_TEST(names_beyond_a_lowered_share_stay)
{
    const struct region_owner one = {0, 1000}, two = {1, 1000};
    ck_assert_int_eq(add(one, "a", SHM_SYSTEM), GEMMD_OK);
    ck_assert_int_eq(add(one, "b", SHM_SYSTEM), GEMMD_OK);
    regions_set_tenant_limits(regions, 1, 0);
    ck_assert_uint_eq(seen(one, SHM_SYSTEM, NULL), 2);
    ck_assert_int_eq(add(one, "c", SHM_SYSTEM), GEMMD_ERR_NO_ROOM);
    ck_assert_int_eq(add(two, "c", SHM_SYSTEM), GEMMD_OK);
    regions_remove(regions, one, SHM_SYSTEM, "a");
    ck_assert_int_eq(add(one, "c", SHM_SYSTEM), GEMMD_ERR_NO_ROOM);
    regions_set_tenant_limits(regions, 0, 0);
    ck_assert_int_eq(add(one, "c", SHM_SYSTEM), GEMMD_OK);
}
END_TEST

START_TEST(keys_and_names_have_few_characters)
{
    static const char *const wrong[] = {"",    "/",    "a",     "//a",   "/a/b", "/.",
                                        "/..", "/a b", "/a%2f", "/\xc3", "/a\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!system_object_is_key(wrong[i]), "'%s'", wrong[i]);
    ck_assert(system_object_is_key("/a.b_c-D9"));
    ck_assert(region_is_name("a.b_c-D9"));
    ck_assert(!region_is_name(""));
    ck_assert(!region_is_name("a/b"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shm_store");
    TCase *tests = tcase_create("shm_store");
    tcase_add_checked_fixture(tests, open_store, close_store);
    tcase_add_test(tests, a_mapping_goes_with_its_last_reference);
    tcase_add_test(tests, descriptors_of_one_memfd_are_one_mapping);
    tcase_add_test(tests, what_is_no_sealed_memfd_is_refused);
    tcase_add_test(tests, the_limits_are_of_bytes_and_of_mappings);
    tcase_add_test(tests, objects_of_others_and_none_are_told_in_the_same_words);
    tcase_add_test(tests, memory_of_a_gpu_needs_one);
    tcase_add_test(tests, a_store_that_has_stopped_answers_all_the_same);
    tcase_add_test(tests, names_are_their_owners);
    tcase_add_test(tests, names_have_a_limit);
    tcase_add_test(tests, names_beyond_a_lowered_share_stay);
    tcase_add_test(tests, keys_and_names_have_few_characters);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
