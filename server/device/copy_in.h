/*
 * copy_in.h - how a work's operands get from the host into its range of device memory, piece by
 * piece, so that pieces can go while the rest is still being received.
 *
 * Operands lie in a request's body, of which a prefix has landed; some may be elsewhere, or it is
 * not known yet where they will be. A plan says where each operand goes; copy_in_next hands out
 * what has landed and was not handed out before. When the work is complete copy_in_settle adds what
 * was not known. Rows that the kernel wants further apart than they came (device_layout_padded)
 * land beside each other and are moved apart there, whole rows at a time. Pure functions; a plan is
 * one thread's at a time.
 */
#ifndef SERVER_DEVICE_COPY_IN_H
#define SERVER_DEVICE_COPY_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/attention_parts.h"
#include "server/device/device_layout.h"

enum { COPY_IN_OPERANDS = 5, COPY_IN_NO_STREAM = -1 };
/* Of an operand that is not in the body. */
#define COPY_IN_NEVER UINT64_MAX

/* One operand. Addresses are the device's but for `from`. */
struct copy_in_operand {
    const unsigned char *from;
    unsigned char *to;
    uint64_t bytes;         /* on the host, without gaps */
    uint64_t row_bytes;     /* 0: goes as it is. Else rows of so many bytes, */
    uint64_t to_pitch;      /* so many bytes apart where they go, */
    uint32_t element_bytes; /* of elements of so many, */
    unsigned char *staging; /* land here first, all `bytes` of them */
    uint64_t begin;         /* where it begins in the body; COPY_IN_NEVER: it goes late */
    uint64_t taken;         /* bytes handed out */
};

struct copy_in {
    struct copy_in_operand operands[COPY_IN_OPERANDS];
    uint32_t count;

    /* device_copy.h's. */
    int32_t
        copy_stream; /* what its early copies are known by; COPY_IN_NO_STREAM: none are under way */
    bool failed;     /* no more early copies: the work copies all of it */
    bool over;       /* the work has left the device: nothing is under way, or will be */
};

/* A part of an operand that goes at once. */
struct copy_in_piece {
    const struct copy_in_operand *operand;
    uint64_t first, bytes; /* of `bytes` on the host; whole rows, if it has rows */
};

/* All operands of a problem that are not in `there`, into a range of device memory that begins at
 * `range` and has that layout. `body` is the body that they arrive in: those that the problem
 * points to elsewhere are not copied early. At NULL: all are there already. */
void copy_in_plan(struct copy_in *plan, const struct gemm_problem *problem,
                  const struct device_layout *layout, struct device_span there,
                  unsigned char *range, struct device_span body);
/* The same of an attention. */
void copy_in_plan_attention(struct copy_in *plan, const struct attention_problem *problem,
                            const struct attention_parts *parts, struct device_span there,
                            unsigned char *range, struct device_span body);
/* Whether any of it can go before all of the body is there. */
bool copy_in_has_early(const struct copy_in *plan);

/* The work is complete: `all`, a plan made of it with nothing on its way, takes the place of the
 * plan that was made early. What was handed out is not handed out again, as far as both say that it
 * comes from the same place and goes to the same. */
void copy_in_settle(struct copy_in *plan, const struct copy_in *all);

/* The next piece, if `landed` bytes of the body are there; UINT64_MAX: all is, and the plan is
 * settled or was made then. False: there is none (yet). */
bool copy_in_next(struct copy_in *plan, uint64_t landed, struct copy_in_piece *piece);
/* From the start again: what was handed out is as if it had not been. */
void copy_in_restart(struct copy_in *plan);

#endif
