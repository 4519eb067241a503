/* server/tensors/sequence.c: pages, forks, appends that are whole or nothing, and the end of
 * memory. The copies of a use are made here as a device makes them. */
#include "server/tensors/sequence.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/device/memory/arena.h"
#include "server/tensors/tensor_store.h"

/* Two heads of 3 keys' and 5 values' elements of f16 take 2 * (16 + 16) bytes with their padding: a
 * page is one unit. */
enum { HEADS = 2, D = 3, DV = 5, UNIT = ARENA_ALIGNMENT, UNITS = 40 };
enum { PAGE = SEQUENCE_PAGE_POSITIONS, MOST = 8 * PAGE };
_Static_assert(HEADS * 2 * 16 * PAGE == UNIT, "a page is one unit");

static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
static const struct tensor_condition always;
static unsigned char *memory;
static struct tensor_store *store;
static struct fault fault;

static void set_up(void)
{
    memory = aligned_alloc(UNIT, UNITS * UNIT);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xee, UNITS * UNIT);
    store = tensor_store_create(&(struct device_span){memory, UNITS * UNIT}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(store);
    memset(&fault, 0, sizeof fault);
}

static void tear_down(void)
{
    ck_assert_uint_eq(tensor_store_state(store).sequences, 0);
    ck_assert_uint_eq(tensor_store_state(store).used_bytes, 0);
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 0);
    tensor_store_destroy(store);
    free(memory);
}

static struct sequence_offer offer_of(const char *name)
{
    return (struct sequence_offer){
        .name = name,
        .tenant = "t",
        .shape = {.dtype = GEMMD_F16, .kv_heads = HEADS, .d = D, .dv = DV, .layers = 2}};
}

static struct resident *create(const struct sequence_offer *offer)
{
    struct resident *sequence;
    bool replaced;
    ck_assert_msg(sequence_create(store, offer, &always, &sequence, &replaced, &fault) == GEMMD_OK,
                  "%s", fault.detail);
    return sequence;
}

/* Removes the name of a sequence, and ends the test's own use. */
static void destroy(struct resident *sequence)
{
    char name[GEMM_TENSOR_NAME_MAX + 1];
    snprintf(name, sizeof name, "%s", resident_name(sequence));
    ck_assert(sequence_remove(store, name, "t", &always, &fault) == GEMMD_OK);
    tensor_store_release(store, sequence);
}

static void make_copies(const struct work_copy *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t row = 0; row < list[i].rows; row++)
            memcpy((char *)list[i].to + row * list[i].to_pitch,
                   (const char *)list[i].from + row * list[i].from_pitch, list[i].row_bytes);
}

/* The element of a key (value) of a position that was appended in writing number `writing`. */
static uint16_t element(uint32_t writing, uint64_t position, uint64_t head, uint64_t column,
                        bool value)
{
    return (uint16_t)(writing * 7919 + position * 31 + head * 13 + column * 3 + value * 17);
}

struct arrays {
    uint16_t k[HEADS * MOST * D], v[HEADS * MOST * DV];
};

static uint64_t index_of(bool heads_first, uint64_t count, uint64_t i, uint64_t head)
{
    return heads_first ? head * count + i : i * HEADS + head;
}

static void fill(struct arrays *arrays, uint32_t writing, uint64_t position, uint64_t count,
                 bool heads_first)
{
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t head = 0; head < HEADS; head++) {
            const uint64_t at = index_of(heads_first, count, i, head);
            for (uint64_t c = 0; c < D; c++)
                arrays->k[at * D + c] = element(writing, position + i, head, c, false);
            for (uint64_t c = 0; c < DV; c++)
                arrays->v[at * DV + c] = element(writing, position + i, head, c, true);
        }
}

static void copy_for(const struct resident *sequence, const struct sequence_use *use,
                     struct arrays *arrays, bool heads_first)
{
    struct sequence_arrays of = {.heads_first = heads_first};
    if (arrays != NULL) {
        of.k = arrays->k;
        of.v = arrays->v;
    }
    struct work_copy *list;
    uint32_t count;
    ck_assert(sequence_use_copies(sequence, use, arrays != NULL ? &of : NULL, &list, &count));
    make_copies(list, count);
    free(list);
}

/* What a sequence should hold: which writing each position of a layer comes from. */
struct model {
    struct resident *sequence;
    uint32_t writings[MOST];
    uint64_t length;
};

static enum gemmd_error begin(struct resident *sequence, uint32_t layer, uint64_t position,
                              uint64_t count, struct sequence_use *use)
{
    const struct sequence_want want = {
        .appends = true, .layer = layer, .position = position, .count = count, .in_one = true};
    return sequence_use_begin(store, sequence, &want, use, &fault);
}

static void append(struct model *model, uint32_t writing, uint64_t count, bool heads_first)
{
    static struct arrays arrays;
    struct sequence_use use;
    fill(&arrays, writing, model->length, count, heads_first);
    ck_assert_msg(begin(model->sequence, 0, model->length, count, &use) == GEMMD_OK, "%s",
                  fault.detail);
    ck_assert_int_eq(use.kind, SEQUENCE_APPEND);
    copy_for(model->sequence, &use, &arrays, heads_first);
    sequence_use_commit(store, model->sequence, &use);
    sequence_use_end(store, model->sequence, &use);
    for (uint64_t i = 0; i < count; i++)
        model->writings[model->length++] = writing;
}

/* Compares rows, which lie as the device sees them, with the model. (An assertion for each element
 * would take seconds.) */
static void check_rows(const struct model *model, const struct sequence_use *use)
{
    const uint64_t leading = sequence_leading(model->sequence);
    const uint64_t values = sequence_values_offset(model->sequence);
    uint64_t wrong = 0;
    for (uint64_t p = 0; p < use->position + use->count; p++)
        for (uint64_t head = 0; head < HEADS; head++)
            for (uint64_t c = 0; c < D + DV; c++) {
                const bool value = c >= D;
                const uint64_t column = value ? c - D : c;
                const uint64_t at = p * leading + (value ? values : 0) +
                                    head * sequence_head_leading(model->sequence, value ? DV : D) +
                                    column;
                uint16_t got;
                memcpy(&got, use->rows + at * sizeof got, sizeof got);
                wrong += got != element(model->writings[p], p, head, column, value);
            }
    ck_assert_uint_eq(wrong, 0);
}

/* Reads the positions from `first` on back, and all rows in one. */
static void check(const struct model *model, uint64_t first, bool heads_first)
{
    static struct arrays arrays;
    struct sequence_use use;
    const uint64_t count = model->length - first;
    const struct sequence_want want = {.position = first, .count = count, .in_one = true};
    uint64_t wrong = 0;
    if (count == 0)
        return;
    ck_assert_msg(sequence_use_begin(store, model->sequence, &want, &use, &fault) == GEMMD_OK, "%s",
                  fault.detail);
    memset(&arrays, 0, sizeof arrays);
    copy_for(model->sequence, &use, &arrays, heads_first);
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t head = 0; head < HEADS; head++) {
            const uint64_t at = index_of(heads_first, count, i, head);
            const uint32_t writing = model->writings[first + i];
            for (uint64_t c = 0; c < D; c++)
                wrong += arrays.k[at * D + c] != element(writing, first + i, head, c, false);
            for (uint64_t c = 0; c < DV; c++)
                wrong += arrays.v[at * DV + c] != element(writing, first + i, head, c, true);
        }
    ck_assert_uint_eq(wrong, 0);
    check_rows(model, &use);
    sequence_use_end(store, model->sequence, &use);
}

/* The pages that are in use; the record of a sequence takes one unit. */
static uint64_t used(void)
{
    const struct tensor_store_state state = tensor_store_state(store);
    return state.used_bytes / UNIT - state.sequences;
}

static void fork_to(const struct model *from, struct model *to, const char *name, uint64_t length)
{
    struct sequence_offer offer = offer_of(name);
    offer.origin = from->sequence;
    offer.has_length = false;
    *to = *from;
    to->sequence = create(&offer);
    if (length < from->length) {
        ck_assert(sequence_truncate(store, to->sequence, length, &always, &fault) == GEMMD_OK);
        to->length = length;
    }
}

START_TEST(positions_of_any_steps_are_read_back)
{
    static struct model model;
    const struct sequence_offer offer = offer_of("s");
    const uint64_t steps[] = {1, 1, 62, 1, 64, 65, 1, 3, 128};
    model = (struct model){.sequence = create(&offer)};
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        append(&model, i + 1, steps[i], i % 2 == 0);
        check(&model, 0, i % 3 == 0);
        check(&model, model.length / 2, i % 3 != 0);
    }
    ck_assert_uint_eq(used(), (model.length + PAGE - 1) / PAGE);
    destroy(model.sequence);
}
END_TEST

START_TEST(forks_share_pages_until_they_append)
{
    static struct model model, one, other;
    const struct sequence_offer offer = offer_of("s");
    model = (struct model){.sequence = create(&offer)};
    append(&model, 1, 2 * PAGE + 10, true);
    fork_to(&model, &one, "one", model.length);
    fork_to(&one, &other, "other", PAGE + 5);
    ck_assert_uint_eq(used(), 3);
    append(&one, 2, 1, true);
    ck_assert_uint_eq(used(), 4); /* its last page */
    append(&other, 3, 1, true);
    ck_assert_uint_eq(used(), 5);
    append(&model, 4, 100, false);
    ck_assert_uint_eq(used(), 6); /* the page that model alone has now is not copied */
    check(&model, 0, true);
    check(&one, 0, true);
    check(&other, 0, true);
    destroy(model.sequence);
    check(&one, 0, true);
    check(&other, 0, true);
    destroy(one.sequence);
    check(&other, 0, true);
    destroy(other.sequence);
}
END_TEST

START_TEST(an_append_without_commit_leaves_nothing)
{
    static struct model model;
    static struct arrays arrays;
    const struct sequence_offer offer = offer_of("s");
    struct sequence_use use;
    struct sequence_state before, after;
    model = (struct model){.sequence = create(&offer)};
    append(&model, 1, 70, true);
    sequence_state_of(store, model.sequence, &before);
    fill(&arrays, 2, 70, 200, true);
    ck_assert(begin(model.sequence, 0, 70, 200, &use) == GEMMD_OK);
    copy_for(model.sequence, &use, &arrays, true);
    check(&model, 0, true); /* while the append is being made */
    sequence_use_end(store, model.sequence, &use);
    sequence_state_of(store, model.sequence, &after);
    ck_assert_str_eq(before.etag, after.etag);
    ck_assert_uint_eq(after.lengths[0], 70);
    ck_assert_uint_eq(after.length, 0); /* the other layer is empty */
    ck_assert_uint_eq(used(), 2);
    append(&model, 3, 5, true);
    check(&model, 0, true);
    destroy(model.sequence);
}
END_TEST

START_TEST(positions_decide_about_an_append)
{
    static struct model model;
    const struct sequence_offer offer = offer_of("s");
    struct sequence_use use, second;
    model = (struct model){.sequence = create(&offer)};
    append(&model, 1, 10, true);
    ck_assert_int_eq(begin(model.sequence, 0, 11, 1, &use), GEMMD_ERR_PRECONDITION); /* a gap */
    ck_assert_ptr_nonnull(strstr(fault.detail, "has 10 positions"));
    ck_assert_int_eq(begin(model.sequence, 0, 9, 2, &use), GEMMD_ERR_PRECONDITION);
    ck_assert_int_eq(begin(model.sequence, 2, 0, 1, &use), GEMMD_ERR_MALFORMED);
    ck_assert_int_eq(begin(model.sequence, 0, 10, GEMM_DIM_MAX, &use), GEMMD_ERR_TOO_LARGE);
    ck_assert(begin(model.sequence, 0, 4, 6, &use) == GEMMD_OK);
    ck_assert_int_eq(use.kind, SEQUENCE_REPEAT);
    sequence_use_end(store, model.sequence, &use);
    ck_assert(begin(model.sequence, 0, 10, 1, &use) == GEMMD_OK);
    ck_assert_int_eq(begin(model.sequence, 0, 10, 1, &second), GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(sequence_truncate(store, model.sequence, 2, &always, &fault),
                     GEMMD_ERR_CONFLICT);
    ck_assert(begin(model.sequence, 1, 0, 1, &second) == GEMMD_OK); /* another layer */
    sequence_use_end(store, model.sequence, &second);
    sequence_use_end(store, model.sequence, &use);
    ck_assert_int_eq(sequence_truncate(store, model.sequence, 11, &always, &fault),
                     GEMMD_ERR_PRECONDITION);
    destroy(model.sequence);
}
END_TEST

/* What a use has begun with stays as it was, whatever becomes of the sequence. */
START_TEST(a_use_outlives_truncation_and_deletion)
{
    static struct model model, old;
    const struct sequence_offer offer = offer_of("s");
    const struct sequence_want want = {.count = 100, .in_one = true};
    struct sequence_use use;
    model = (struct model){.sequence = create(&offer)};
    append(&model, 1, 100, true);
    old = model;
    ck_assert(sequence_use_begin(store, model.sequence, &want, &use, &fault) == GEMMD_OK);
    ck_assert(sequence_truncate(store, model.sequence, 70, &always, &fault) == GEMMD_OK);
    model.length = 70;
    append(&model, 2, 100, true);
    check(&model, 0, true);
    copy_for(old.sequence, &use, NULL, true);
    check_rows(&old, &use);
    ck_assert(sequence_remove(store, "s", "t", &always, &fault) == GEMMD_OK);
    check_rows(&old, &use);
    sequence_use_end(store, model.sequence, &use);
    tensor_store_release(store, model.sequence);
}
END_TEST

START_TEST(a_full_memory_refuses_before_anything_is_appended)
{
    static struct model model, fork;
    const struct sequence_offer offer = offer_of("s");
    struct sequence_use use;
    const struct sequence_want all = {.appends = true, .count = 41 * PAGE};
    model = (struct model){.sequence = create(&offer)};
    ck_assert_int_eq(sequence_use_begin(store, model.sequence, &all, &use, &fault),
                     GEMMD_ERR_NO_ROOM);
    ck_assert_uint_eq(used(), 0);
    tensor_store_set_tenant_bytes(store, 4 * UNIT);
    append(&model, 1, 3 * PAGE - 1, true);
    ck_assert_int_eq(begin(model.sequence, 0, 3 * PAGE - 1, 2, &use), GEMMD_ERR_NO_ROOM);
    ck_assert_ptr_nonnull(strstr(fault.detail, "--tenant-tensor-bytes"));
    append(&model, 2, 1, true);
    tensor_store_set_tenant_bytes(store, 5 * UNIT);
    fork_to(&model, &fork, "fork", 3 * PAGE); /* shared pages count once */
    ck_assert_uint_eq(tensor_store_used_by(store, "t"), 5 * UNIT);
    check(&fork, 0, true);
    destroy(model.sequence);
    destroy(fork.sequence);
    tensor_store_set_tenant_bytes(store, 0);
}
END_TEST

START_TEST(names_belong_to_tenants_and_conditions_hold)
{
    struct sequence_offer offer = offer_of("s");
    struct resident *first = create(&offer), *second, *found;
    bool replaced;
    const struct tensor_condition only_new = {.if_none_match = "*"};
    ck_assert_int_eq(sequence_create(store, &offer, &only_new, &second, &replaced, &fault),
                     GEMMD_ERR_PRECONDITION);
    offer.tenant = "other";
    ck_assert_int_eq(sequence_create(store, &offer, &always, &second, &replaced, &fault),
                     GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(sequence_acquire(store, "s", "other", &found, &fault), GEMMD_ERR_FORBIDDEN);
    ck_assert_int_eq(sequence_acquire(store, "r", "t", &found, &fault), GEMMD_ERR_NOT_FOUND);
    ck_assert_int_eq(tensor_store_acquire(store, "s", "t", &found, &fault), GEMMD_ERR_NOT_FOUND);
    offer.tenant = "t";
    ck_assert(sequence_create(store, &offer, &always, &second, &replaced, &fault) == GEMMD_OK);
    ck_assert(replaced);
    tensor_store_release(store, first);
    ck_assert_int_eq(
        sequence_remove(store, "s", "t", &(struct tensor_condition){.if_match = "\"x\""}, &fault),
        GEMMD_ERR_PRECONDITION);
    destroy(second);
}
END_TEST

START_TEST(sequences_of_a_lost_device_are_gone)
{
    const struct sequence_offer offer = offer_of("s");
    struct resident *sequence = create(&offer), *found;
    struct sequence_use use;
    ck_assert(begin(sequence, 0, 0, 1, &use) == GEMMD_OK);
    tensor_store_lose_device(store, 0);
    ck_assert_int_eq(sequence_acquire(store, "s", "t", &found, &fault), GEMMD_ERR_NOT_FOUND);
    sequence_use_commit(store, sequence, &use);
    sequence_use_end(store, sequence, &use);
    ck_assert_int_eq(begin(sequence, 0, 1, 1, &use), GEMMD_ERR_DEVICE_LOST);
    tensor_store_release(store, sequence);
}
END_TEST

/* Forks, appends, cuts and removals in a random order. Memory is small enough to be full at times,
 * and pages of all sequences lie among each other. */
START_TEST(any_order_of_changes_keeps_the_contents)
{
    enum { SEQUENCES = 5, STEPS = 400 };
    static struct model models[SEQUENCES];
    uint64_t state = 88172645463325252u;
    memset(models, 0, sizeof models);
    for (uint32_t step = 1; step <= STEPS; step++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        struct model *model = &models[state % SEQUENCES];
        struct model *other = &models[state / 8 % SEQUENCES];
        char name[8];
        snprintf(name, sizeof name, "s%u", (unsigned)(model - models));
        const uint64_t amount = 1 + state / 64 % 90;
        if (model->sequence == NULL) {
            struct sequence_offer offer = offer_of(name);
            if (other->sequence != NULL) {
                fork_to(other, model, name, state / 512 % (other->length + 1));
            } else {
                *model = (struct model){.sequence = create(&offer)};
            }
        } else if (state / 4096 % 16 == 0) {
            destroy(model->sequence);
            *model = (struct model){.sequence = NULL};
        } else if (state / 4096 % 16 == 1) {
            const uint64_t length = state / 512 % (model->length + 1);
            ck_assert(sequence_truncate(store, model->sequence, length, &always, &fault) ==
                      GEMMD_OK);
            model->length = length;
        } else if (model->length + amount <= MOST && used() + 17 < UNITS) {
            append(model, step, amount, step % 2 == 0);
        }
        if (model->sequence != NULL && used() + 13 < UNITS)
            check(model, 0, step % 2 == 0);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        if (models[i].sequence != NULL)
            destroy(models[i].sequence);
}
END_TEST

/* Appends one position at a time to a fork of its own, while others do the same. */
static void *grow(void *argument)
{
    struct resident *origin = argument;
    struct fault own;
    char name[32];
    uint16_t k[HEADS * D] = {1}, v[HEADS * DV] = {2};
    const struct sequence_arrays arrays = {k, v, true};
    snprintf(name, sizeof name, "%lx", (unsigned long)pthread_self());
    struct sequence_offer offer = offer_of(name);
    struct resident *sequence;
    struct sequence_state state;
    bool replaced;
    offer.origin = origin;
    ck_assert(sequence_create(store, &offer, &always, &sequence, &replaced, &own) == GEMMD_OK);
    sequence_state_of(store, sequence, &state);
    for (uint64_t i = 0; i < PAGE + 3; i++) {
        struct sequence_use use;
        const struct sequence_want want = {
            .appends = true, .position = state.lengths[0] + i, .count = 1};
        ck_assert_msg(sequence_use_begin(store, sequence, &want, &use, &own) == GEMMD_OK, "%s",
                      own.detail);
        struct work_copy *list;
        uint32_t count;
        ck_assert(sequence_use_copies(sequence, &use, &arrays, &list, &count));
        make_copies(list, count);
        free(list);
        sequence_use_commit(store, sequence, &use);
        sequence_use_end(store, sequence, &use);
    }
    ck_assert(sequence_remove(store, name, "t", &always, &own) == GEMMD_OK);
    tensor_store_release(store, sequence);
    return NULL;
}

START_TEST(forks_grow_at_the_same_time)
{
    enum { THREADS = 4 };
    static struct model model;
    const struct sequence_offer offer = offer_of("s");
    pthread_t threads[THREADS];
    model = (struct model){.sequence = create(&offer)};
    append(&model, 1, 2 * PAGE + 20, true);
    for (int i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, grow, model.sequence) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(&model, 0, true);
    destroy(model.sequence);
}
END_TEST

/* Appends pages without contents. */
static enum gemmd_error append_pages(struct resident *sequence, uint32_t layer, uint64_t pages)
{
    struct sequence_state state;
    struct sequence_use use;
    sequence_state_of(store, sequence, &state);
    const struct sequence_want want = {
        .appends = true, .layer = layer, .position = state.lengths[layer], .count = pages * PAGE};
    const enum gemmd_error code = sequence_use_begin(store, sequence, &want, &use, &fault);
    if (code == GEMMD_OK)
        sequence_use_commit(store, sequence, &use);
    sequence_use_end(store, sequence, &use);
    return code;
}

/* In memory that nothing touches. */
START_TEST(pages_and_positions_have_a_most)
{
    enum { EACH = SEQUENCE_POSITIONS_MAX / PAGE, LAYERS = SEQUENCE_PAGES_MAX / EACH };
    const size_t bytes = (size_t)(SEQUENCE_PAGES_MAX + EACH) * UNIT;
    struct sequence_offer offer = offer_of("s");
    unsigned char *span = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(span, MAP_FAILED);
    store = tensor_store_create(&(struct device_span){span, bytes}, 1, &cpu, 0);
    ck_assert_ptr_nonnull(store);
    offer.shape.layers = LAYERS + 1;
    struct resident *sequence = create(&offer);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        ck_assert_int_eq(append_pages(sequence, layer, EACH), GEMMD_OK);
    ck_assert_int_eq(append_pages(sequence, 0, 1), GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "it can have 4194304"));
    ck_assert_int_eq(append_pages(sequence, LAYERS, 1), GEMMD_ERR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "more than 1048576 pages"));
    ck_assert_int_eq(
        sequence_truncate(store, sequence, SEQUENCE_POSITIONS_MAX - PAGE, &always, &fault),
        GEMMD_OK);
    ck_assert_int_eq(append_pages(sequence, LAYERS, LAYERS), GEMMD_OK);
    ck_assert_int_eq(append_pages(sequence, LAYERS, 1), GEMMD_ERR_TOO_LARGE);
    destroy(sequence);
    tensor_store_destroy(store);
    munmap(span, bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sequence");
    TCase *tcase = tcase_create("sequence");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, positions_of_any_steps_are_read_back);
    tcase_add_test(tcase, forks_share_pages_until_they_append);
    tcase_add_test(tcase, an_append_without_commit_leaves_nothing);
    tcase_add_test(tcase, positions_decide_about_an_append);
    tcase_add_test(tcase, a_use_outlives_truncation_and_deletion);
    tcase_add_test(tcase, a_full_memory_refuses_before_anything_is_appended);
    tcase_add_test(tcase, names_belong_to_tenants_and_conditions_hold);
    tcase_add_test(tcase, sequences_of_a_lost_device_are_gone);
    tcase_add_test(tcase, any_order_of_changes_keeps_the_contents);
    tcase_add_test(tcase, forks_grow_at_the_same_time);
    TCase *most = tcase_create("most");
    tcase_add_test(most, pages_and_positions_have_a_most);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, most);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
