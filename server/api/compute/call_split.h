/*
 * call_split.h - one call computed by several devices at the same time.
 *
 * A large product is divided by rows of C, or by the problems of its batch. Another operation says
 * itself how it can be divided (operation->units): an attention by the entries of its batch, or by
 * heads. Each device computes one subproblem, as a work of its own, and gets the operands
 * that the subproblem needs: rows of A and all of B from the body, for example, and copies of
 * resident operands.
 *
 * A call is divided only if the results of the subproblems have the same bits as the undivided
 * result (kernels/subproblem.h), and if all devices are of one model. Besides, the division must be
 * expected to be faster, or the call must be too large for the memory of one device.
 *
 * The subproblems belong to the call. The thread that uses the call calls these functions. Between
 * call_split_push and the call's `done`, the queues and dispatch threads use the subproblems;
 * `done` is called once, by the thread that ends the last subproblem, with the status and the times
 * of all subproblems in call->work.
 */
#ifndef SERVER_API_COMPUTE_CALL_SPLIT_H
#define SERVER_API_COMPUTE_CALL_SPLIT_H

#include <stdbool.h>

struct call_split;
struct compute_call;
struct services;

/* The bytes of a call's operands and results that lie on the host, which are copied to and from the
 * device that computes. Operands in the body and in shared memory count the same. Resident
 * operands, stored results and memory of a GPU that the client shares do not count. */
struct call_host_bytes {
    /* Of operands that every subproblem of a divided call needs whole (call_split.h), such as the B
     * of a single product. */
    double whole;
    double divided; /* of operands and results that are divided over the subproblems */
};
/* The bytes of a call whose shapes are known and whose kernel is chosen. */
struct call_host_bytes call_host_bytes(const struct compute_call *call);

/* Divides a call whose kernel is chosen, and takes the device memory of its subproblems. Sets
 * call->split and call->devices if the call is divided; else the call is unchanged. */
void call_split_open(struct compute_call *call, struct services *services);
/* Points the subproblems at their operands and results, and describes them for the queue, when the
 * call's own work has been pointed and described. */
void call_split_point(struct compute_call *call);
/* Pushes the subproblems to the queues of their devices. The call may be done, and gone, at once.
 */
void call_split_push(struct compute_call *call);
/* Takes the subproblems back, as queue_cancel does: returns true if no subproblem runs any more, so
 * that `done` is not called. Otherwise the subproblems that run are told to stop, and `done` is
 * called. */
bool call_split_cancel(struct compute_call *call);
/* Frees the subproblems with their device memory, after the call is done or was taken back. */
void call_split_finish(struct compute_call *call, struct services *services);
#endif
