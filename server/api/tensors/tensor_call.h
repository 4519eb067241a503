/*
 * tensor_call.h - a PUT, GET or HEAD of /tensors/{name} on its way: what of it outlives one call.
 *
 * The bytes go through pinned memory and the queue, like a product: a work that only copies brings
 * them to the device or from it. Hashing goes along with what arrives; what is left of it then
 * (bytes that had to be transposed, or have never been on the host) is done a piece in each turn of
 * the I/O thread's loop, so that nobody waits for it. On the request's I/O thread.
 */
#ifndef SERVER_API_TENSORS_TENSOR_CALL_H
#define SERVER_API_TENSORS_TENSOR_CALL_H

#include "proto/tensor_request.h"
#include "server/device/work.h"
#include "server/http/request.h"
#include "server/tensors/tensor_store.h"

struct tensor_call {
    struct request *request; /* whose it is */
    struct tensor_condition condition;
    struct resident *resident; /* in use; PUT: without a name yet */

    unsigned char *block; /* pinned: the body, or the answer with its header */
    uint64_t block_bytes;
    uint64_t queue_bytes; /* what the place in the queue counts */
    bool has_place;
    uint64_t deadline_ns;
    struct work work;

    struct tensor_hash hash;
    const unsigned char *hashed; /* where the tensor's bytes are, row by row; NULL: not known yet */
    uint64_t hashed_bytes;

    /* PUT */
    struct tensor_request offer;
    enum format format;   /* of the body; GET: of the answer */
    bool length_known;    /* of the body, before it is there */
    uint64_t total_bytes; /* ... which is this */
    uint64_t received_bytes;
    unsigned char *scratch; /* pinned: a tensor that came column by column */
    uint64_t scratch_bytes;
    struct tensor tensor; /* in the body; rank 0 while that is not known */

    uint64_t header_bytes; /* GET: of the answer's format */
};

/* For a request whose headers are in: name and conditions are looked at. NULL: request->fault says
 * why. */
struct tensor_call *tensor_call_open(struct request *request);
/* Gives back everything that is still held. */
void tensor_call_close(struct tensor_call *call);

/* A place in the queue for `bytes`, once. */
enum gemmd_error tensor_call_admit(struct tensor_call *call, uint64_t bytes);
/* Makes it one for `bytes`, which are more. */
enum gemmd_error tensor_call_admit_more(struct tensor_call *call, uint64_t bytes);
/* Hands a copy over to the queue; the endpoint's `answer` comes when it is done. */
void tensor_call_copy(struct tensor_call *call, const struct work_copy *copy);
/* Takes the copy back, if it has not begun; else false. */
bool tensor_call_withdraw(struct tensor_call *call);
/* The copy is done: gives back the place in the queue, and says what became of it. */
enum gemmd_error tensor_call_copied(struct tensor_call *call);

/* The tensor's bytes begin at `bytes`, where they are or will be. */
void tensor_call_hash_from(struct tensor_call *call, const struct tensor *tensor,
                           const void *bytes);
/* Hashes up to the tensor's byte `limit`, the most of one turn if `piece`. */
void tensor_call_hash_to(struct tensor_call *call, uint64_t limit, bool piece);

/* PUT (tensor_put.c), as the endpoint's functions; they refuse or answer themselves. */
void tensor_put_begin(struct request *request);
bool tensor_put_chunk(struct request *request, const void *bytes, uint64_t length);
void tensor_put_submit(struct request *request);
void tensor_put_answer(struct request *request);
/* GET and HEAD (tensor_get.c). */
void tensor_get_begin(struct request *request);
void tensor_get_answer(struct request *request);

#endif
