/*
 * work.h - one product, one attention, or one tensor's bytes, on its way: queued, run on a device,
 * done.
 *
 * Owned by the request that made it. Handed over by queue: from the I/O thread that pushes
 * it until `done` is called it belongs to the queue and the dispatch thread, and nobody
 * else touches it.
 */
#ifndef SERVER_DEVICE_WORK_H
#define SERVER_DEVICE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "proto/error.h"
#include "server/base/heap.h"

/* Rows of bytes to move between the pool's host memory and the device's tensor memory, whichever
 * way. */
struct work_copy {
    const void *from;
    void *to;
    uint64_t rows, row_bytes;
    uint64_t from_pitch, to_pitch; /* bytes from one row's start to the next's */
};
enum { WORK_COPIES_MAX = 3 };

struct copy_in;

struct work {
    struct work *next, *previous; /* the queue's; then `next` chains those that share a launch */
    struct heap_node node;        /* the queue's, like the next three */
    uint64_t order;               /* of its arrival */
    bool in_order;                /* in the edf's list, not its heap */
    bool waiting;                 /* pushed and neither popped nor ended */
    struct heap_node bucket_node; /* the stacks', like the next one */
    struct stack_bucket *bucket;  /* where it waits for others of its stack; NULL: nowhere */
    struct gemm_problem problem;  /* pointers into pinned host memory or tensor memory */
    const struct gemm_kernel *kernel;   /* NULL: no product */
    struct attention_problem attention; /* likewise */
    const struct attention_kernel
        *attention_kernel; /* NULL: no attention. With neither, only the copies */
    struct work_copy copies[WORK_COPIES_MAX]; /* after the product, in this order */
    uint32_t copy_count;
    struct copy_in *copy_in; /* its operands' copies, begun while they were received (early_copy.h);
                                NULL: none were */
    /* For the check, where the host cannot read what the problem points to: copies of it. */
    const void *host_a, *host_b;
    void *host_c;
    bool shared_launch; /* goes to the streams for launches that are shared (device_plan) */
    /* 0: cannot be stacked. Else only works with the same key may be in its stack, and of them
     * those that work_same_stack allows: products on one B (kernels/stacked.h), or attentions of
     * one kind (kernels/attention_grouped.h). */
    uint64_t stack_key;
    uint32_t stack_rows;    /* at most so many in a stack of its kind, as work_stack_rows counts */
    bool verify;            /* run Freivalds' check on the result before `done` */
    bool uncounted;         /* the daemon's own: metrics do not know of it */
    uint32_t tenant;        /* whose it is: 0 ... the queue's tenants - 1 */
    uint32_t priority;      /* 0 ... GEMM_PRIORITY_MAX, higher first */
    uint64_t bytes;         /* operands and result; what the queue's byte limits count */
    uint64_t outside_bytes; /* what counts besides for tenants' shares: operands and results that
                               are resident, or in the client's memory */
    uint64_t device_offset,
        device_bytes;     /* reserved device memory; bytes 0 where the backend needs none */
    uint64_t deadline_ns; /* monotonic; 0 for none */

    /* Filled in before `done` is called. */
    enum gemmd_error status; /* GEMMD_OK, or why there is no result */
    struct fault fault;
    uint32_t launch_works;                   /* how many requests shared the launch */
    double residual;                         /* of the check, if `verify` */
    uint64_t queued_ns, started_ns, done_ns; /* monotonic clock */
    uint64_t h2d_ns, kernel_ns, d2h_ns;      /* durations */

    /* May be NULL. Called by the dispatch thread before it gives the work to the device. Must not
     * block. */
    void (*started)(struct work *work);
    /* Called exactly once, from the dispatch or the verifier's thread, or by the caller of
     * queue_expire, queue_fail_all or (after the latter) queue_push. Must not block. */
    void (*done)(struct work *work);
};

/* Whether nothing is computed: a tensor's bytes move. */
bool work_is_copy(const struct work *work);

/* Whether two works with the same stack_key, not 0, may be in one stack. */
bool work_same_stack(const struct work *one, const struct work *other);
/* What it takes of its stack's stack_rows: a product its rows, an attention the units of its
 * work. */
uint32_t work_stack_rows(const struct work *work);

/* The name of the kernel that runs it; NULL for a copy, or if none was chosen yet. */
const char *work_kernel_name(const struct work *work);
/* Multiplications and additions that its result takes, for metrics. */
double work_flops(const struct work *work);

/* Calls `done`; done_ns is set. A result that comes after the deadline is dropped: the work fails
 * with GEMMD_ERR_DEADLINE. */
void work_end(struct work *work);

#endif
