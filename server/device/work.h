/*
 * work.h - a work: one task or one copy of a tensor, which a device is given to do. A task is a
 * problem of an operation, with the kernel that computes it (kernels/operations.h).
 *
 * A work is part of the request that made it, and belongs to that request. From queue_push until
 * `done` is called, the work belongs to the queue and the dispatch thread. No other thread touches
 * it, except that queue_cancel sets `stop`, and that the threads of a CPU backend read `stop` and
 * the deadline while they compute.
 */
#ifndef SERVER_DEVICE_WORK_H
#define SERVER_DEVICE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "kernels/operations.h"
#include "proto/error.h"
#include "server/base/heap.h"

/* A copy of rows of bytes from the pool's host memory to the device's tensor memory, or back, or
 * from the tensor memory of one device to that of another. */
struct work_copy {
    const void *from;
    void *to;
    uint64_t rows, row_bytes;
    /* Bytes from the start of one row to the start of the next; at least row_bytes, also if there
     * is one row. */
    uint64_t from_pitch, to_pitch;
};
enum { WORK_COPIES_MAX = 3, WORK_FIRST_COPIES_MAX = 4 };

struct copy_in;

/* Whether and why a result is checked: because the client asks for the check, or because the work
 * belongs to the sample of --verify-share. */
enum work_verify { WORK_UNVERIFIED, WORK_VERIFY_ASKED, WORK_VERIFY_SAMPLED, WORK_VERIFY_COUNT };

struct work {
    /* Used by the queue (fair_queue.h). Afterwards `next` links the works of a launch
     * list. */
    struct work *next, *previous;
    struct heap_node node;
    uint64_t order; /* the work's number in the order of arrival */
    bool in_order;  /* in the list of its edf_queue; false: in the heap */
    bool waiting;   /* pushed, and neither popped nor ended */
    struct heap_node bucket_node;
    struct join_bucket *bucket; /* where the works of its stack or group wait; NULL: in none */

    /* What to compute; task.kernel is NULL for a copy. The problem points into pinned host memory
     * or into the device's tensor memory. */
    struct task task;

    /* Copies that the device makes before it computes, of operands in the tensor memory of another
     * device. */
    struct work_copy first_copies[WORK_FIRST_COPIES_MAX];
    uint32_t first_copy_count;
    /* Copies that the device makes before it computes, in this order, of the keys and values of a
     * sequence (sequence_use_copies). Borrowed; NULL if the count is 0. */
    const struct work_copy *sequence_copies;
    uint32_t sequence_copy_count;
    /* The work has copies of a sequence, which only a launch of its own and the launch of a group
     * make. Set before device_plan. */
    bool copies_sequence;
    /* The work must have a launch of its own, because the work has first copies or is a part of a
     * divided call, or because operands or results lie in shared memory
     * of another device. Set before device_plan. */
    bool own_launch;

    /* Copies that the device makes after it has computed, in this order. */
    struct work_copy copies[WORK_COPIES_MAX];
    uint32_t copy_count;

    /* The early copies of the operands (early_copy.h); NULL: no copy was started early. Borrowed.
     */
    struct copy_in *copy_in;

    /* How the work is launched (device_plan). */
    /* The work goes in a launch that reads operands in host memory, on a stream for such launches.
     * False for the works of a group, which has copies. */
    bool shared_launch;
    /* Which works may join the work in a launch list as a stack (problems that share a resident
     * operand, operation->stack) or as a group (problems of one kind, operation->group_traits):
     * those with the same join_key that work_can_join accepts. 0: none. */
    uint64_t join_key;
    uint32_t join_rows; /* most rows in its stack or group, as work_join_rows counts */

    /* Whether the device checks the result after it has computed: in a launch of its own and in a
     * stack with operation->check, in a shared launch with operation->check_small. */
    enum work_verify verify;
    uint64_t check_offset; /* of the check's workspace in the work's range (device_plan) */
    uint64_t verify_seed;  /* which vector the check multiplies with; secret (verify_draw.h) */
    bool uncounted;        /* the daemon's own work, which metrics do not count */
    uint32_t tenant;       /* 0 ... the number of the queue's tenants - 1 */
    uint32_t priority;     /* 0 ... GEMM_PRIORITY_MAX; within a tenant a higher one runs first */
    uint64_t bytes;        /* of operands and result in the daemon's memory: what limits count */
    /* Bytes of operands and results that are resident or in the client's shared memory. They count
     * for the tenant's fair share besides `bytes`. */
    uint64_t outside_bytes;
    double flops; /* work_flops when the kernel was chosen */
    /* work_share_flops when the kernel was chosen. These floating-point operations count for the
     * tenant's fair share besides the bytes. */
    double share_flops;
    uint64_t device_offset, device_bytes; /* the work's range of device memory; 0 bytes: none */
    uint64_t deadline_ns;                 /* on the monotonic clock; 0: no deadline */

    /* Nobody waits for the result any more. Set by queue_cancel for a work that has begun; the
     * device then ends the work as soon as it can. Any thread. */
    atomic_bool stop;

    /* Set before `done` is called. */
    enum gemmd_error status; /* GEMMD_OK, or why there is no result */
    struct fault fault;
    uint32_t launch_works; /* number of works in the launch */
    double residual;       /* of the check, if `verify` is not WORK_UNVERIFIED; up to 1 passes */
    uint64_t queued_ns, started_ns, done_ns; /* on the monotonic clock */
    uint64_t h2d_ns, kernel_ns, d2h_ns; /* durations of the copies in, the kernel, the copies out */

    /* Called by the dispatch thread before the device gets the work. Must not block. May be NULL.
     */
    void (*started)(struct work *work);
    /* Called exactly once: by the dispatch thread, or by the caller of queue_expire, of
     * queue_fail_all or, after queue_fail_all, of queue_push. Must not block. */
    void (*done)(struct work *work);
};

/* Whether the work computes nothing and only copies a tensor. */
bool work_is_copy(const struct work *work);
/* Whether the work runs in a stack, with the rows of other works. A work with a join_key that is
 * not stacked runs in a group. */
static inline bool work_is_stacked(const struct work *work)
{
    return work->join_key != 0 && work->task.operation->stack != NULL;
}

/* Whether two works with the same join_key, which is not 0, may be in one stack or group. */
bool work_can_join(const struct work *one, const struct work *other);
/* How many of the join_rows of its stack or group a work takes: its rows (operation->stack), or in
 * a group its units (operation_group_units). */
uint32_t work_join_rows(const struct work *work);

/* The name of the work's kernel; NULL: the work is a copy, or no kernel has been chosen yet. */
const char *work_kernel_name(const struct work *work);
/* Number of floating-point operations that the result takes, for metrics. */
double work_flops(const struct work *work);
/* The floating-point operations that count for the fair share: more than work_flops if lengths are
 * short (operation_length) or the kernel is slow (operation_kernel.share_factor). */
double work_share_flops(const struct work *work);

/* Whether the result of a work that has begun is no longer wanted, because `stop` is set or the
 * deadline has passed. Any thread. */
bool work_is_useless(const struct work *work, uint64_t now_ns);
/* Sets the status of a work whose computation was ended early because work_is_useless. */
void work_set_stopped(struct work *work);

/* Ends a work whose done_ns is set: calls `done`. If the result comes after the deadline, the work
 * fails with GEMMD_ERR_DEADLINE. */
void work_end(struct work *work);

#endif
