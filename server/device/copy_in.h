/*
 * copy_in.h - the copies of a work's operands from the host to the work's range of device memory,
 * in pieces, so that pieces can be copied while the rest of the body is still being received.
 *
 * A plan says where each operand is copied from and to. An operand in the body of the request can
 * be copied early, as its bytes are received. An operand outside of the body, or whose location is
 * not known yet, cannot. copy_in_next hands out pieces that have been received and were not handed
 * out before. When the whole body has been received, copy_in_settle adds the operands whose
 * location was not known.
 *
 * If the kernel wants gaps between the rows of an operand (operation->arrange), the rows are
 * first copied to a staging area without gaps, and are then moved apart on the device, whole rows
 * at a time.
 *
 * Pure functions. A plan is used by one thread at a time.
 */
#ifndef SERVER_DEVICE_COPY_IN_H
#define SERVER_DEVICE_COPY_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device_layout.h"

enum { COPY_IN_OPERANDS = OPERATION_OPERANDS_MAX, COPY_IN_NO_STREAM = -1 };
/* `begin` of an operand that is not in the body. */
#define COPY_IN_NEVER UINT64_MAX

/* One operand. `from` is an address of the host, `to` and `staging` are addresses of the device. */
struct copy_in_operand {
    const unsigned char *from;
    unsigned char *to;
    uint64_t bytes; /* on the host, without gaps between rows */
    /* 0: the operand is copied as it is. Otherwise rows of this many bytes are copied to `staging`
     * and then moved to `to`. */
    uint64_t row_bytes;
    uint64_t to_pitch;      /* bytes from the start of one row at `to` to the start of the next */
    uint32_t element_bytes; /* of an element of a row */
    unsigned char *staging; /* `bytes` bytes */
    uint64_t begin;         /* offset in the body; COPY_IN_NEVER: the operand is not copied early */
    uint64_t taken;         /* bytes that were handed out */
};

struct copy_in {
    struct copy_in_operand operands[COPY_IN_OPERANDS];
    uint32_t count;

    /* Used by device_copy.c. */
    int32_t copy_stream; /* of the body's early copies; COPY_IN_NO_STREAM: none are in flight */
    bool failed;         /* an early copy has failed: all operands are copied when the work runs */
    bool over;           /* the work has left the device: no copy is in flight or will be */
};

/* A part of an operand that is copied at once. */
struct copy_in_piece {
    const struct copy_in_operand *operand;
    uint64_t first, bytes; /* offset and length in the operand on the host; whole rows, if row_bytes
                              is not 0 */
};

/* Plans the copies of all operands of a task that are not in tensor memory, to a range of device
 * memory that begins at `range` and has the given layout. Operands that the problem points to in
 * `body` are copied early; the others are not. If body.start is NULL, all operands are received
 * already. */
void copy_in_plan(struct copy_in *plan, const struct task *task, const struct device_layout *layout,
                  unsigned char *range, struct device_span body);
/* Whether any operand can be copied before the whole body has been received. */
bool copy_in_has_early(const struct copy_in *plan);

/* Replaces the plan that was made early by `all`, a plan of the complete work of which nothing was
 * handed out. Pieces that were handed out are not handed out again if both plans copy the operand
 * from the same address to the same address. */
void copy_in_settle(struct copy_in *plan, const struct copy_in *all);

/* Hands out the next piece. `received` bytes of the body have been received; UINT64_MAX: the whole
 * body has, and the plan is a plan of the complete work. False: there is no piece, or none yet. */
bool copy_in_next(struct copy_in *plan, uint64_t received, struct copy_in_piece *piece);
/* Starts again: all pieces will be handed out once more. */
void copy_in_restart(struct copy_in *plan);

#endif
