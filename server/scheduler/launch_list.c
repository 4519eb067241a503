#include "server/scheduler/launch_list.h"

/* Whether the first work of one lane goes before that of the other lane. A tenant's priorities do
 * not pass the works of other tenants. */
static bool is_more_urgent(const struct work *one, const struct work *other)
{
    return one->tenant == other->tenant && one->priority != other->priority
               ? one->priority > other->priority
               : one->order < other->order;
}

/* A launch list that is being made. */
struct launch {
    struct work_list works;
    uint32_t count;
    uint64_t bytes, rows;
    bool is_verified; /* one of the works is */
};

/* Whether one more work fits in the launch. The first work fits whatever its size. */
static bool launch_fits(const struct launch *launch, struct queue_room room,
                        const struct work *work)
{
    const uint32_t most = work->shared_launch ? room.shared : room.exclusive;
    return launch->count < most &&
           (launch->count == 0 || (launch->bytes <= room.shared_bytes &&
                                   work->bytes <= room.shared_bytes - launch->bytes));
}

/* The bytes that the device moves for the next work of a launch. A check reads the operands and the
 * result once more. The works of a stack have one B, which is charged to the first of them, and for
 * the check to the first that is verified. */
static uint64_t charged_bytes(struct launch *launch, const struct work *work)
{
    const bool shares_b = work_is_stacked(work);
    uint64_t bytes = work->bytes;
    if (launch->count == 0 || !shares_b)
        bytes += work->outside_bytes;
    if (work->verify == WORK_UNVERIFIED)
        return bytes;
    bytes += work->bytes;
    if (!launch->is_verified || !shares_b)
        bytes += work->outside_bytes;
    launch->is_verified = true;
    return bytes;
}

static void launch_add(struct launch *launch, struct fair_queue *queue, struct work *work)
{
    const uint64_t bytes = charged_bytes(launch, work);
    launch->count++;
    launch->bytes += work->bytes;
    if (work->stack_key != 0)
        launch->rows += work_stack_rows(work);
    fair_queue_serve(queue, work, bytes);
    work_list_append(&launch->works, work);
}

/* Takes the works at the front of the shared lane, up to the next work that can be stacked, which
 * starts a launch list of its own. */
static struct work *take_shared(struct fair_queue *queue, struct queue_room room, uint64_t now_ns,
                                struct work_list *expired)
{
    struct launch launch = {.count = 0};
    struct work *work = fair_queue_front(queue, LANE_SHARED, now_ns, expired);
    while (work != NULL && work->stack_key == 0 && launch_fits(&launch, room, work)) {
        launch_add(&launch, queue, work);
        work = fair_queue_front(queue, LANE_SHARED, now_ns, expired);
    }
    return launch.works.first;
}

/* The order of the queue: by the tags of the flows. */
static bool bucket_before(const struct heap_node *one, const struct heap_node *other)
{
    return sfq_before(&OWNER_OF(one, const struct stack_bucket, node)->flow->turn,
                      &OWNER_OF(other, const struct stack_bucket, node)->flow->turn);
}

/* Takes `first` and the waiting works of the same stack, in the queue's order. */
static struct work *take_stack(struct fair_queue *queue, struct queue_room room, struct work *first,
                               uint64_t now_ns, struct work_list *expired)
{
    struct launch launch = {.count = 0};
    struct heap_node *buckets = NULL;
    struct stack_bucket *bucket = stack_index_find(queue->stacks, first);
    if (first->bucket == NULL)
        launch_add(&launch, queue, first);
    for (; bucket != NULL; bucket = stack_index_find_next(bucket, first))
        heap_add(&buckets, &bucket->node, bucket_before);
    while (buckets != NULL) {
        bucket = OWNER_OF(buckets, struct stack_bucket, node);
        struct work *work = stack_bucket_first(bucket);
        const bool last = stack_bucket_has_one(bucket), is_late = work_has_expired(work, now_ns);
        if (!is_late &&
            (!launch_fits(&launch, room, work) ||
             (launch.count > 0 && launch.rows + work_stack_rows(work) > work->stack_rows)))
            break;
        heap_remove(&buckets, &bucket->node, bucket_before);
        if (is_late) {
            fair_queue_drop(queue, work);
            work_list_append(expired, work);
        } else {
            launch_add(&launch, queue, work);
        }
        if (!last)
            heap_add(&buckets, &bucket->node, bucket_before);
    }
    return launch.works.first;
}

struct work *launch_list_take(struct fair_queue *queue, struct queue_room room, uint64_t now_ns,
                              struct work_list *expired)
{
    struct work *exclusive =
        room.exclusive > 0 ? fair_queue_front(queue, LANE_EXCLUSIVE, now_ns, expired) : NULL;
    struct work *shared =
        room.shared > 0 ? fair_queue_front(queue, LANE_SHARED, now_ns, expired) : NULL;
    const bool from_shared =
        shared != NULL && (exclusive == NULL || is_more_urgent(shared, exclusive));
    struct work *first = from_shared ? shared : exclusive;
    if (first == NULL)
        return NULL;
    if (first->stack_key != 0)
        return take_stack(queue, room, first, now_ns, expired);
    if (from_shared)
        return take_shared(queue, room, now_ns, expired);
    struct launch alone = {.count = 0};
    launch_add(&alone, queue, first);
    return first;
}
