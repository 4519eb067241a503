/*
 * call_sequence.h - what a compute call does with the sequence that it names (sequence.h): its
 * memory, the copies that its work makes, and the end of an append.
 *
 * The sequence is call->residents.sequence, and its use call->residents.use. One thread at a time,
 * as for struct compute_call.
 */
#ifndef SERVER_API_COMPUTE_CALL_SEQUENCE_H
#define SERVER_API_COMPUTE_CALL_SEQUENCE_H

#include "server/api/compute/compute_call.h"

struct services;

/* Begins the use of the sequence, with the memory of what is appended, and tells the work whether
 * it has copies of the sequence. `request` has all shapes. Errors are those of sequence_use_begin.
 */
enum gemmd_error call_sequence_begin(struct compute_call *call, struct services *services,
                                     const union call_request *request, struct fault *fault);
/* Adds the copies to the work, and takes the keys and values that are appended out of `operands`.
 * GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error call_sequence_bind(struct compute_call *call, union call_operands *operands,
                                    struct fault *fault);
/* Ends an append whose work is done: what was appended becomes part of the sequence if the work has
 * succeeded. Sets work.status and work.fault if a repeated append is not the one of the sequence.
 * Called before compute_call_finish, if the request is still wanted; without this call nothing was
 * appended. */
void call_sequence_commit(struct compute_call *call, struct services *services);
/* Frees the list of copies and the positions that were read back. */
void call_sequence_end(struct compute_call *call);

#endif
