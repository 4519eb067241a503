#include "tests/unit/admitted_queue.h"

#include <check.h>

struct queue *queue_with_limits(const struct admission_limits *limits)
{
    struct admission *admission = admission_create(limits);
    ck_assert_ptr_nonnull(admission);
    struct queue *queue = queue_create(admission, limits->tenants);
    ck_assert_ptr_nonnull(queue);
    return queue;
}

void queue_free(struct queue *queue)
{
    struct admission *admission = queue != NULL ? queue_admission(queue) : NULL;
    queue_destroy(queue);
    admission_destroy(admission);
}
