/* server/scheduler/early_copy.c: bodies that are copied to a simulated device while they are
 * received, and the end of their memory. First without, then with a dispatch thread. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/device/copy_in.h"
#include "server/device/device_copy.h"
#include "server/scheduler/dispatch.h"
#include "simulated_device.h"
#include "tests/unit/admitted_queue.h"
#include "tests/unit/reservations.h"

/* A is SIDE x SIDE of f32, and B is one column. Two steps of the body can be copied early. */
enum { SIDE = 1200, BODY_BYTES = SIDE * SIDE * 4 + SIDE * 4, STEP = EARLY_COPY_STEP_BYTES };
_Static_assert((int)BODY_BYTES >= (int)EARLY_COPY_BODY_BYTES, "the body goes early");
enum { MEMORY_BYTES = 64 << 20 };

static struct {
    struct simulated_device *device;
    struct queue *queue;
    struct pool *pool;
    struct early_copy *early_copy;
    void *pinned;
} stage; /* each test runs in a process of its own */
static _Thread_local struct pool_cache *cache;

static bool no_workspace(const void *problem, uint64_t *out)
{
    (void)problem;
    *out = 0;
    return true;
}
static const struct operation_kernel kernel = {.name = "simulated",
                                               .workspace_bytes = no_workspace};

/* The kernel would otherwise move the rows of A apart itself. */
static bool workspace_for_a(const void *of, uint64_t *out)
{
    const struct gemm_problem *problem = of;
    *out = problem->lda % 64 == 0 ? 0 : problem->m * problem->k * 4;
    return true;
}
static const struct operation_kernel wants_a_apart = {
    .name = "simulated", .any_leading = true, .workspace_bytes = workspace_for_a};

static void start(void)
{
    const struct admission_limits limits = {.requests = 1000, .bytes = UINT64_MAX, .tenants = 1};
    stage.device = simulated_device_open_copying(2, MEMORY_BYTES, NULL);
    stage.queue = queue_with_limits(&limits);
    stage.pinned = aligned_alloc(ARENA_ALIGNMENT, MEMORY_BYTES);
    stage.pool = pool_create(stage.pinned, MEMORY_BYTES);
    cache = pool_cache_create(stage.pool);
    stage.early_copy = early_copy_create(&stage.device->base, stage.queue, stage.pool);
    ck_assert_ptr_nonnull(stage.early_copy);
}

static void assert_all_given_back(void)
{
    ck_assert_uint_eq(pool_used_bytes(stage.pool), 0);
    ck_assert_uint_eq(arena_used_bytes(device_arena(&stage.device->base)), 0);
}

static void stop(void)
{
    assert_all_given_back();
    early_copy_destroy(stage.early_copy);
    pool_cache_destroy(cache);
    pool_destroy(stage.pool);
    free(stage.pinned);
    queue_free(stage.queue);
    device_close(&stage.device->base);
}

/* A request: its body, its work, its block and its device memory. */
struct sender {
    struct simulated_work scripted; /* first */
    unsigned char *body;
    struct early_copy_body *early_copy;
    unsigned char seed;
    atomic_bool done;
};

/* The byte at an offset of a sender's body. No two rows and no two senders have the same bytes. */
static const unsigned char *bytes_of(const struct sender *sender, uint64_t at)
{
    static unsigned char pattern[BODY_BYTES + 256];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; pattern[1] == 0 && i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i * 13 + i / 4099);
    pthread_mutex_unlock(&lock);
    return pattern + sender->seed + at;
}

static void open_body_for(struct sender *sender, const struct operation_kernel *runs,
                          unsigned char seed)
{
    struct work *work = &sender->scripted.work;
    struct device *device = &stage.device->base;
    *sender = (struct sender){.seed = seed};
    atomic_store(&sender->scripted.at_end, SIMULATED_DONE);
    sender->body = pool_alloc(cache, BODY_BYTES, NULL);
    ck_assert_ptr_nonnull(sender->body);
    work->task.operation = &operation_gemm;
    work->task.kernel = runs;
    work->task.problem.gemm = (struct gemm_problem){
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = SIDE, .n = 1, .k = SIDE, .batch = 1};
    work->task.problem.gemm.a = sender->body;
    work->task.problem.gemm.b = sender->body + SIDE * SIDE * 4;
    gemm_problem_contiguous(&work->task.problem.gemm);
    ck_assert(device_plan(device, work));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
    sender->early_copy = early_copy_open(stage.early_copy, work, sender->body, BODY_BYTES);
    ck_assert_ptr_nonnull(sender->early_copy);
    work->copy_in = early_copy_copies(sender->early_copy);
}

static void open_body(struct sender *sender, unsigned char seed)
{
    open_body_for(sender, &kernel, seed);
}

static void write_body(struct sender *sender, uint64_t from, uint64_t to)
{
    memcpy(sender->body + from, bytes_of(sender, from), to - from);
}

/* Receives the body up to `to`. */
static void land(struct sender *sender, uint64_t from, uint64_t to)
{
    write_body(sender, from, to);
    early_copy_received(sender->early_copy, to);
}

/* Whether the device memory of the work holds A, with the given pitch of rows. */
static void assert_a_there(const struct sender *sender, uint64_t pitch)
{
    const unsigned char *range = stage.device->memory + sender->scripted.work.device_offset;
    for (uint64_t row = 0; row < SIDE; row++)
        ck_assert_msg(memcmp(range + row * pitch, bytes_of(sender, row * SIDE * 4), SIDE * 4) == 0,
                      "row %lu is not the body's", (unsigned long)row);
}

/* Whether the device memory of the work holds A and B. */
static void assert_there(const struct sender *sender)
{
    const uint64_t a_bytes = SIDE * SIDE * 4, b_offset = (a_bytes + 255) / 256 * 256;
    assert_a_there(sender, SIDE * 4);
    ck_assert_mem_eq(stage.device->memory + sender->scripted.work.device_offset + b_offset,
                     bytes_of(sender, a_bytes), SIDE * 4);
}

/* Frees the memory of a sender, as a request does. False: the early copy frees it. */
static bool close_body(struct sender *sender)
{
    if (!early_copy_close(sender->early_copy))
        return false;
    arena_free(device_arena(&stage.device->base), sender->scripted.work.device_offset);
    pool_free(cache, sender->body, BODY_BYTES);
    return true;
}

static void run_work(struct sender *sender)
{
    struct device *device = &stage.device->base;
    device_submit(device, &sender->scripted.work);
    ck_assert_ptr_eq(device_poll(device), &sender->scripted.work);
}

static uint64_t early(void)
{
    return atomic_load(&stage.device->early_bytes);
}

START_TEST(received_bytes_are_copied_step_by_step)
{
    struct sender sender;
    start();
    open_body(&sender, 1);
    land(&sender, 0, STEP - 1);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), 0); /* too little to say */
    land(&sender, STEP - 1, STEP);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), STEP);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), 0);
    land(&sender, STEP, BODY_BYTES);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), BODY_BYTES - STEP);
    run_work(&sender);
    ck_assert_int_eq(sender.scripted.work.status, GEMMD_OK);
    assert_there(&sender);
    ck_assert_uint_eq(atomic_load(&stage.device->late_bytes), 0);
    ck_assert(close_body(&sender));
    stop();
}
END_TEST

START_TEST(a_work_copies_what_its_body_left)
{
    struct sender sender;
    start();
    open_body(&sender, 2);
    land(&sender, 0, STEP);
    early_copy_feed(stage.early_copy);
    write_body(&sender, STEP, BODY_BYTES);
    run_work(&sender);
    assert_there(&sender);
    ck_assert_uint_eq(early(), STEP);
    ck_assert_uint_eq(atomic_load(&stage.device->late_bytes), BODY_BYTES - STEP);
    ck_assert(close_body(&sender));
    stop();
}
END_TEST

START_TEST(rows_come_further_apart_where_the_kernel_wants_them_so)
{
    enum { SOME = STEP / 2 + 1 };
    struct sender sender;
    uint64_t at = 0;
    start();
    open_body_for(&sender, &wants_a_apart, 12);
    for (; at + SOME < BODY_BYTES; at += SOME) {
        land(&sender, at, at + SOME);
        early_copy_feed(stage.early_copy);
    }
    ck_assert_uint_gt(early(), 0);
    write_body(&sender, at, BODY_BYTES);
    run_work(&sender);
    assert_a_there(&sender, SIMULATED_LEADING(SIDE) * 4);
    ck_assert_uint_eq(early() + atomic_load(&stage.device->late_bytes), BODY_BYTES);
    ck_assert(close_body(&sender));
    stop();
}
END_TEST

START_TEST(what_is_small_or_needs_no_memory_does_not_go_early)
{
    struct sender sender;
    start();
    open_body(&sender, 3);
    struct work work = sender.scripted.work;
    ck_assert_ptr_null(early_copy_open(NULL, &work, sender.body, BODY_BYTES));
    ck_assert_ptr_null(
        early_copy_open(stage.early_copy, &work, sender.body, EARLY_COPY_BODY_BYTES - 1));
    work.device_bytes = 0;
    ck_assert_ptr_null(early_copy_open(stage.early_copy, &work, sender.body, BODY_BYTES));
    early_copy_received(NULL, STEP);
    ck_assert(early_copy_close(NULL));
    ck_assert(close_body(&sender));
    stop();
}
END_TEST

START_TEST(an_aborted_body_keeps_its_memory_while_it_is_copied)
{
    struct sender sender;
    start();
    open_body(&sender, 4);
    atomic_store(&stage.device->copies, SIMULATED_RUNNING);
    land(&sender, 0, STEP);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), STEP);
    ck_assert(!close_body(&sender));
    early_copy_feed(stage.early_copy);
    ck_assert(early_copy_is_closing(stage.early_copy));
    ck_assert_uint_gt(pool_used_bytes(stage.pool), 0);
    ck_assert_uint_gt(arena_used_bytes(device_arena(&stage.device->base)), 0);
    atomic_store(&stage.device->copies, SIMULATED_DONE);
    early_copy_feed(stage.early_copy);
    ck_assert(!early_copy_is_closing(stage.early_copy));
    stop();
}
END_TEST

START_TEST(a_body_of_which_nothing_was_copied_is_its_owners)
{
    struct sender sender;
    start();
    open_body(&sender, 5);
    land(&sender, 0, STEP - 1);
    ck_assert(close_body(&sender));
    open_body(&sender, 6);
    land(&sender, 0, STEP); /* said, and closed before anyone looked */
    ck_assert(!close_body(&sender));
    early_copy_feed(stage.early_copy);
    ck_assert_uint_eq(early(), 0);
    stop();
}
END_TEST

START_TEST(after_a_failed_copy_the_work_copies_all)
{
    struct sender sender;
    start();
    open_body(&sender, 7);
    land(&sender, 0, STEP);
    early_copy_feed(stage.early_copy);
    atomic_store(&stage.device->copies, SIMULATED_FAILED);
    land(&sender, STEP, 2 * STEP);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), 0);
    atomic_store(&stage.device->copies, SIMULATED_DONE);
    land(&sender, 2 * STEP, BODY_BYTES);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), 0);
    run_work(&sender);
    ck_assert_int_eq(sender.scripted.work.status, GEMMD_OK);
    assert_there(&sender);
    ck_assert_uint_eq(atomic_load(&stage.device->late_bytes), BODY_BYTES);
    ck_assert(close_body(&sender));
    stop();
}
END_TEST

START_TEST(a_device_that_is_lost_holds_no_memory)
{
    struct sender senders[2];
    start();
    for (int i = 0; i < 2; i++) {
        open_body(&senders[i], (unsigned char)i);
        atomic_store(&stage.device->copies, SIMULATED_RUNNING);
        land(&senders[i], 0, STEP);
        early_copy_feed(stage.early_copy);
    }
    ck_assert(!close_body(&senders[0]));
    atomic_store(&stage.device->copies, SIMULATED_LOST);
    land(&senders[1], STEP, 2 * STEP);
    early_copy_feed(stage.early_copy);
    ck_assert(device_lost(&stage.device->base));
    ck_assert(!early_copy_is_closing(stage.early_copy));
    /* Its work ends as all do then. */
    run_work(&senders[1]);
    ck_assert_int_eq(senders[1].scripted.work.status, GEMMD_ERR_DEVICE_LOST);
    ck_assert(close_body(&senders[1]));
    stop();
}
END_TEST

START_TEST(who_gets_no_lane_is_copied_with_his_work)
{
    struct sender sender, waiting;
    start();
    open_body(&sender, 8);
    open_body(&waiting, 9);
    for (int i = 1; i < DEVICE_COPY_STREAMS; i++)
        stage.device->base.copy_streams[i] = true;
    land(&sender, 0, BODY_BYTES);
    land(&waiting, 0, BODY_BYTES);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), BODY_BYTES);
    run_work(&waiting);
    assert_there(&waiting);
    ck_assert_uint_eq(atomic_load(&stage.device->late_bytes), BODY_BYTES);
    run_work(&sender);
    ck_assert(!stage.device->base.copy_streams[0]);
    ck_assert(close_body(&sender) && close_body(&waiting));
    memset(stage.device->base.copy_streams, 0, sizeof stage.device->base.copy_streams);
    stop();
}
END_TEST

/* Once somebody has waited for them. */
static void *let_copies_end(void *argument)
{
    while (atomic_load(&stage.device->asked) < 2)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    atomic_store(&stage.device->copies, SIMULATED_DONE);
    return argument;
}

START_TEST(stopping_waits_for_copies_and_then_none_begins)
{
    struct sender open, closed;
    pthread_t thread;
    start();
    open_body(&open, 10);
    open_body(&closed, 11);
    atomic_store(&stage.device->copies, SIMULATED_RUNNING);
    land(&open, 0, STEP);
    land(&closed, 0, STEP);
    early_copy_feed(stage.early_copy);
    ck_assert(!close_body(&closed));
    ck_assert_int_eq(pthread_create(&thread, NULL, let_copies_end, NULL), 0);
    early_copy_stop(stage.early_copy);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(stage.device->under_way_count, 0);
    land(&open, STEP, 2 * STEP);
    ck_assert_uint_eq(early_copy_feed(stage.early_copy), 0);
    ck_assert(close_body(&open));
    stop();
}
END_TEST

/* --- With the dispatch thread: clients that stay, that disconnect while they send, and that
 * disconnect while their work waits; copies that are slow. --- */

enum { THREADS = 3, EACH = 6 };

static void work_done(struct work *work)
{
    atomic_store(&((struct sender *)work)->done, true);
}

static void send_one(uint32_t number)
{
    struct sender sender;
    open_body(&sender, (unsigned char)number);
    const bool leaves = number % 3 == 1, is_withdrawn = number % 3 == 2;
    const uint64_t end = leaves ? 2 * STEP + 4321 : BODY_BYTES;
    for (uint64_t at = 0; at < end; at += 100000)
        land(&sender, at, at + 100000 < end ? at + 100000 : end);
    if (!leaves) {
        struct work *work = &sender.scripted.work;
        ck_assert_int_eq(take_reservation_in_queue(stage.queue, 0, 0, NULL), GEMMD_OK);
        work->done = work_done;
        work->queued_ns = clock_now_ns();
        queue_push(stage.queue, work);
        if (!is_withdrawn || !queue_cancel(stage.queue, work)) {
            while (!atomic_load(&sender.done))
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
            ck_assert_int_eq(work->status, GEMMD_OK);
            assert_there(&sender);
        }
        give_reservation(queue_admission(stage.queue), 0, 0);
    }
    (void)close_body(&sender);
}

static void *send_some(void *argument)
{
    const uint32_t *first = argument;
    cache = pool_cache_create(stage.pool);
    ck_assert_ptr_nonnull(cache);
    for (uint32_t i = 0; i < EACH; i++)
        send_one(*first + i);
    pool_cache_destroy(cache);
    return NULL;
}

START_TEST(bodies_come_and_leave_while_others_are_computed)
{
    struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    pthread_t threads[THREADS];
    uint32_t firsts[THREADS];
    start();
    stage.device->slowness = 3;
    struct metrics *metrics = metrics_create(1, &identity);
    struct dispatch *dispatch = dispatch_start(&stage.device->base, stage.queue, stage.early_copy,
                                               metrics_shard(metrics, 0), 4, 0);
    ck_assert_ptr_nonnull(dispatch);
    for (uint32_t i = 0; i < THREADS; i++) {
        firsts[i] = i * EACH;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_some, &firsts[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    queue_close(stage.queue);
    ck_assert(dispatch_stop(dispatch, UINT64_MAX));
    ck_assert_uint_gt(early(), 0);
    metrics_destroy(metrics);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("early_copy");
    TCase *tcase = tcase_create("early_copy");
    tcase_add_test(tcase, received_bytes_are_copied_step_by_step);
    tcase_add_test(tcase, a_work_copies_what_its_body_left);
    tcase_add_test(tcase, rows_come_further_apart_where_the_kernel_wants_them_so);
    tcase_add_test(tcase, what_is_small_or_needs_no_memory_does_not_go_early);
    tcase_add_test(tcase, an_aborted_body_keeps_its_memory_while_it_is_copied);
    tcase_add_test(tcase, a_body_of_which_nothing_was_copied_is_its_owners);
    tcase_add_test(tcase, after_a_failed_copy_the_work_copies_all);
    tcase_add_test(tcase, a_device_that_is_lost_holds_no_memory);
    tcase_add_test(tcase, who_gets_no_lane_is_copied_with_his_work);
    tcase_add_test(tcase, stopping_waits_for_copies_and_then_none_begins);
    tcase_add_test(tcase, bodies_come_and_leave_while_others_are_computed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
