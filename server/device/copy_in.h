/*
 * copy_in.h - how a work's operands get from the host into its range of device memory, piece by
 * piece, so that pieces can go while the rest is still being received.
 *
 * Operands lie one after another in a request's body; what of it has landed is a prefix. A plan
 * says where each operand goes; copy_in_next hands out what has landed and was not handed out
 * before, in this order. Rows that the kernel wants further apart than they came
 * (device_layout_padded) land beside each other and are moved apart there, whole rows at a time.
 * Pure functions; a plan is one thread's at a time.
 */
#ifndef SERVER_DEVICE_COPY_IN_H
#define SERVER_DEVICE_COPY_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device_layout.h"

enum { COPY_IN_OPERANDS = 4, COPY_IN_NO_LANE = -1 };

/* One operand. Addresses are the device's but for `from`. */
struct copy_in_operand {
    const unsigned char *from;
    unsigned char *to;
    uint64_t bytes;         /* on the host, without gaps */
    uint64_t row_bytes;     /* 0: goes as it is. Else rows of so many bytes, */
    uint64_t to_pitch;      /* so many bytes apart where they go, */
    uint32_t element_bytes; /* of elements of so many, */
    unsigned char *landing; /* land here first, all `bytes` of them */
    uint64_t begin;         /* where it begins in the body */
    uint64_t taken;         /* bytes handed out */
};

struct copy_in {
    struct copy_in_operand operands[COPY_IN_OPERANDS];
    uint32_t count;

    /* device_copy.h's. */
    int32_t lane; /* what its early copies are known by; COPY_IN_NO_LANE: none are under way */
    bool failed;  /* no more early copies: the work copies all of it */
    bool over;    /* the work has left the device: nothing is under way, or will be */
};

/* A part of an operand that goes at once. */
struct copy_in_piece {
    const struct copy_in_operand *operand;
    uint64_t first, bytes; /* of `bytes` on the host; whole rows, if it has rows */
};

/* All operands of a problem that lie on the host, into a range of device memory that begins at
 * `range` and has that layout. `body` is where the body begins that they are in, or NULL if all of
 * them are there already. */
void copy_in_plan(struct copy_in *plan, const struct gemm_problem *problem,
                  const struct device_layout *layout, struct device_span there,
                  unsigned char *range, const unsigned char *body);

/* The next piece, if `landed` bytes of the body are there; UINT64_MAX: all is. False: there is none
 * (yet). */
bool copy_in_next(struct copy_in *plan, uint64_t landed, struct copy_in_piece *piece);
/* From the start again: what was handed out is as if it had not been. */
void copy_in_restart(struct copy_in *plan);

#endif
