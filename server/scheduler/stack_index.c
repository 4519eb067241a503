#include "server/scheduler/stack_index.h"

#include <stdlib.h>

#include "server/scheduler/edf_queue.h"

struct stack_index {
    struct stack_bucket *chains[STACK_BUCKETS]; /* lists of the buckets in use, by hash_of */
    struct stack_bucket *free;
    struct stack_bucket all[STACK_BUCKETS];
};

static bool node_before(const struct heap_node *one, const struct heap_node *other)
{
    const struct work *a = OWNER_OF(one, const struct work, bucket_node);
    const struct work *b = OWNER_OF(other, const struct work, bucket_node);
    return a->priority != b->priority ? a->priority > b->priority : edf_queue_before(a, b);
}

struct stack_index *stack_index_create(void)
{
    struct stack_index *index = calloc(1, sizeof *index);
    for (uint32_t i = 0; index != NULL && i < STACK_BUCKETS; i++) {
        index->all[i].next = index->free;
        index->free = &index->all[i];
    }
    return index;
}

void stack_index_destroy(struct stack_index *index)
{
    free(index);
}

/* The high bits of a stack_key are spread more evenly than the low bits. */
static uint32_t hash_of(const struct work *work)
{
    return (uint32_t)(work->stack_key >> 32) % STACK_BUCKETS;
}

/* The first bucket from `bucket` on in a hash chain that holds works of the same stack as `work`.
 */
static struct stack_bucket *first_match(struct stack_bucket *bucket, const struct work *work)
{
    for (; bucket != NULL; bucket = bucket->next) {
        const struct work *other = stack_bucket_first(bucket);
        if (other->stack_key == work->stack_key && work_same_stack(other, work))
            return bucket;
    }
    return NULL;
}

struct stack_bucket *stack_index_find(const struct stack_index *index, const struct work *work)
{
    return first_match(index->chains[hash_of(work)], work);
}

struct stack_bucket *stack_index_find_next(const struct stack_bucket *bucket,
                                           const struct work *work)
{
    return first_match(bucket->next, work);
}

void stack_index_add(struct stack_index *index, struct work *work, struct flow *flow)
{
    struct stack_bucket *bucket = stack_index_find(index, work);
    while (bucket != NULL && bucket->flow != flow)
        bucket = stack_index_find_next(bucket, work);
    if (bucket == NULL && index->free != NULL) {
        struct stack_bucket **chain = &index->chains[hash_of(work)];
        bucket = index->free;
        index->free = bucket->next;
        *bucket = (struct stack_bucket){.next = *chain, .flow = flow};
        *chain = bucket;
    }
    work->bucket = bucket;
    if (bucket != NULL)
        heap_add(&bucket->works, &work->bucket_node, node_before);
}

void stack_index_remove(struct stack_index *index, struct work *work)
{
    struct stack_bucket *bucket = work->bucket, **link = &index->chains[hash_of(work)];
    heap_remove(&bucket->works, &work->bucket_node, node_before);
    work->bucket = NULL;
    if (bucket->works != NULL)
        return;
    while (*link != bucket)
        link = &(*link)->next;
    *link = bucket->next;
    bucket->next = index->free;
    index->free = bucket;
}

struct work *stack_bucket_first(const struct stack_bucket *bucket)
{
    return OWNER_OF(bucket->works, struct work, bucket_node);
}

bool stack_bucket_has_one(const struct stack_bucket *bucket)
{
    return bucket->works->left == NULL && bucket->works->right == NULL;
}
