/*
 * reservations.h - reservations by tenant and bytes, for tests that make many of them and need no
 * struct reservation.
 */
#ifndef TESTS_UNIT_RESERVATIONS_H
#define TESTS_UNIT_RESERVATIONS_H

#include "server/scheduler/admission.h"
#include "server/scheduler/queue.h"

static inline enum gemmd_error take_reservation(struct admission *admission, uint32_t tenant,
                                                uint64_t bytes, struct fault *fault)
{
    struct reservation reservation;
    return admission_take(admission, tenant, bytes, &reservation, fault);
}

static inline enum gemmd_error grow_reservation(struct admission *admission, uint32_t tenant,
                                                uint64_t bytes, uint64_t more, struct fault *fault)
{
    struct reservation reservation = {admission, tenant, bytes};
    return admission_grow(&reservation, bytes + more, fault);
}

static inline void give_reservation(struct admission *admission, uint32_t tenant, uint64_t bytes)
{
    struct reservation reservation = {admission, tenant, bytes};
    admission_give(&reservation);
}

static inline enum gemmd_error take_reservation_in_queue(struct queue *queue, uint32_t tenant,
                                                         uint64_t bytes, struct fault *fault)
{
    struct reservation reservation;
    return queue_admit(queue, tenant, bytes, &reservation, fault);
}

#endif
