/*
 * places.h - reservations by tenant and bytes, for tests that make many of them and need no struct
 * admission_place.
 */
#ifndef TESTS_UNIT_PLACES_H
#define TESTS_UNIT_PLACES_H

#include "server/scheduler/admission.h"
#include "server/scheduler/queue.h"

static inline enum gemmd_error take_place(struct admission *admission, uint32_t tenant,
                                          uint64_t bytes, struct fault *fault)
{
    struct admission_place place;
    return admission_take(admission, tenant, bytes, &place, fault);
}

static inline enum gemmd_error grow_place(struct admission *admission, uint32_t tenant,
                                          uint64_t bytes, uint64_t more, struct fault *fault)
{
    struct admission_place place = {admission, tenant, bytes};
    return admission_grow(&place, bytes + more, fault);
}

static inline void give_place(struct admission *admission, uint32_t tenant, uint64_t bytes)
{
    struct admission_place place = {admission, tenant, bytes};
    admission_give(&place);
}

static inline enum gemmd_error take_place_in_queue(struct queue *queue, uint32_t tenant,
                                                   uint64_t bytes, struct fault *fault)
{
    struct admission_place place;
    return queue_admit(queue, tenant, bytes, &place, fault);
}

#endif
