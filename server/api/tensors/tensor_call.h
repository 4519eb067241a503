/*
 * tensor_call.h - the state of a request for /tensors/{name}, which request->call points to.
 *
 * A tensor's bytes go through pinned memory and the queue, like the operands of a product: a work
 * that only copies moves the bytes to the device or from the device.
 *
 * An upload is hashed while it is received. Bytes that have to be transposed first, or that were
 * never on the host, are hashed later, one piece in each iteration of the I/O thread's loop, so
 * that other requests do not wait.
 *
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_API_TENSORS_TENSOR_CALL_H
#define SERVER_API_TENSORS_TENSOR_CALL_H

#include "proto/tensor_request.h"
#include "server/device/work.h"
#include "server/http/request.h"
#include "server/scheduler/admission.h"
#include "server/tensors/resident_copy.h"
#include "server/tensors/tensor_store.h"

/* A tensor on a GPU of so many bytes or more is sent in pieces while the rest of it is copied. */
enum { TENSOR_MEANWHILE_BYTES = 8 << 20 };

struct headers;

struct tensor_call {
    struct request *request; /* borrowed; NULL until tensor_call_open */
    struct tensor_condition condition;
    struct resident *resident; /* a reference; the tensor of a PUT has no name yet */

    unsigned char *block; /* pinned; owned: the body, or the answer with its format's header */
    uint64_t block_bytes;
    uint64_t queue_bytes; /* that the request reserves */
    struct reservation reservation;
    uint64_t deadline_ns;              /* monotonic clock; 0: none */
    struct work work;                  /* the copy to the device or from the device */
    struct queue *queue;               /* the queue that has the work; borrowed */
    uint64_t queue_ns, copy_ns;        /* of the copies before the one that is `work` */
    struct work_copy *sequence_copies; /* that the work makes before others; owned */
    uint32_t sequence_copy_count;

    struct tensor_hash hash;
    const unsigned char *hashed; /* the tensor's bytes, row by row; NULL: location not known yet */
    uint64_t hashed_bytes;
    uint32_t hashed_entries; /* of packed weights; hashed and hashed_bytes are of the next one */

    enum format format; /* PUT: of the body; GET: of the answer */

    /* Pinned; owned: row-major copies of column-major arrays, or the arrangement of packed weights.
     */
    unsigned char *scratch;
    uint64_t scratch_bytes;
    struct packed_file packed; /* the file in the body or of the answer; count is 0: it is none */
    uint64_t stripes;          /* that have been arranged or restored */

    /* Only for bodies. */
    bool length_known; /* total_bytes is the length of the complete body */
    uint64_t total_bytes;
    uint64_t received_bytes;

    /* Only for PUT. */
    struct tensor_request offer;
    struct tensor tensor; /* the tensor in the body; rank 0 until it is found */
    struct tensor scale;  /* its scales in the body; rank 0: it has none */
    bool published, replaced;
    uint32_t next_device;  /* the next device to get a copy */
    struct resident *copy; /* of the tensor, which is being made; a reference */

    /* Only for GET. */
    uint64_t first_row;    /* the first element of the first dimension that is sent */
    struct tensor rows;    /* the rows that are sent, as a tensor; rank 0: all, with the scales */
    uint64_t header_bytes; /* of the answer's format */
    /* The answer is sent while the rest of it is copied. */
    bool sends_meanwhile;
    uint64_t copied_bytes; /* of the block: the header, and what has been copied */
    struct work_copy rest[RESIDENT_COPIES];
    uint32_t rest_count;
};

/* Opens the state of a request whose headers have arrived, and checks the tensor's name and the
 * conditions. Returns NULL if they are malformed; request->fault then says why. */
struct tensor_call *tensor_call_open(struct request *request);
/* Frees everything that the call still owns, and releases its references. */
void tensor_call_close(struct tensor_call *call);

/* Makes the call's reservation of `bytes` bytes. To be called once. Errors are in request->fault.
 */
enum gemmd_error tensor_call_admit(struct tensor_call *call, uint64_t bytes);
/* Enlarges the reservation to `bytes` bytes. */
enum gemmd_error tensor_call_admit_more(struct tensor_call *call, uint64_t bytes);
/* Takes the memory of the body: call->block_bytes. */
enum gemmd_error tensor_call_take_block(struct tensor_call *call);
/* The first memory of a body of unknown length, which doubles when it is full. */
enum { TENSOR_FIRST_BYTES = 64 * 1024 };
/* Appends bytes to the body, whose memory grows if its length is not known. */
enum gemmd_error tensor_call_receive(struct tensor_call *call, const void *bytes, uint64_t length);
/* Sends the block, and gives it back to the pool when it was sent. */
void tensor_call_send_block(struct tensor_call *call, const struct headers *headers);

/* Answers a request that has made or changed the call's resident: with 200 or 201, its description
 * `text`, which the answer takes over, and its entity tag. 201 names the location
 * /{folder}/{name}. A request whose bytes were copied gets their times in Server-Timing. If `text`
 * is NULL, memory has run out, and the client gets 503. */
void tensor_call_describe(struct tensor_call *call, int status, char *text, const char *etag,
                          const char *folder);

/* Hands the request over to the queue of a device, with a work that only copies: first the call's
 * sequence_copies. The endpoint's
 * `answer` is called when the copy is done, and may call tensor_call_copy again. */
void tensor_call_copy(struct tensor_call *call, const struct work_copy *copies, uint32_t count,
                      uint32_t device);
/* The same for a copy that completes an answer which is sent meanwhile. `answer` is not called; the
 * answer's reader waits for the copy (request_await_rest). */
void tensor_call_copy_rest(struct tensor_call *call, const struct work_copy *copies, uint32_t count,
                           uint32_t device);
/* Ends the making of a copy on a further device, if there is one. The copy is kept if its work has
 * succeeded. */
void tensor_call_end_copy(struct tensor_call *call);
/* Takes the copy back. Returns false if the copy has begun. */
bool tensor_call_withdraw(struct tensor_call *call);
/* Gives the reservation back after the copy is done, and returns the copy's error. */
enum gemmd_error tensor_call_copied(struct tensor_call *call);

/* The endpoints' function `copied`: the times of the call's copies, as h2d_ns of an upload and
 * d2h_ns of other requests. */
void tensor_call_times(const struct request *request, struct log_access *entry);

/* Starts the hash of a tensor whose bytes begin at `bytes`, and may still be arriving there. */
void tensor_call_hash_from(struct tensor_call *call, const struct tensor *tensor,
                           const void *bytes);
/* Hashes the next piece of a file of packed weights, and returns whether all of it is hashed. */
bool tensor_call_hash_packed(struct tensor_call *call);
/* Hashes up to the tensor's byte `limit`. With `piece`, hashes at most as much as one iteration of
 * the I/O thread's loop may. */
void tensor_call_hash_to(struct tensor_call *call, uint64_t limit, bool piece);

/* The endpoint's functions for PUT (tensor_put.c). They refuse or answer the request. */
void tensor_put_begin(struct request *request);
bool tensor_put_chunk(struct request *request, const void *bytes, uint64_t length);
void tensor_put_submit(struct request *request);
void tensor_put_answer(struct request *request);
/* The endpoint's functions for GET and HEAD (tensor_get.c). */
void tensor_get_begin(struct request *request);
void tensor_get_answer(struct request *request);

#endif
