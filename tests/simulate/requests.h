/*
 * requests.h - the requests of simulated clients, and what the daemon's I/O threads do for them.
 *
 * A request goes the way that server/api/compute/compute_endpoints.c and
 * server/api/tensors/tensor_put.c go, from its headers to the last byte of the answer. Each answer
 * is compared with a result that reference.h computes from the operands.
 */
#ifndef TESTS_SIMULATE_REQUESTS_H
#define TESTS_SIMULATE_REQUESTS_H

#include "server/api/compute/compute_call.h"
#include "tests/simulate/daemon.h"

enum request_kind { REQUEST_PRODUCT, REQUEST_JOB, REQUEST_PUT, REQUEST_DELETE };

/* What a client asks for. */
struct request_traits {
    enum request_kind kind;
    enum operation_number operation; /* OPERATION_GEMM for kinds that compute nothing */
    uint32_t tenant, priority;
    uint32_t owner; /* number in the name of the owner of tensors and jobs */
    /* Of a product. A sum of rows and a softmax have m rows of length n, an attention n heads with
     * m queries and keys of length k, and a convolution k filters and images of height m and width
     * n.
     */
    uint64_t m, n, k, batch;
    int32_t b; /* number of the resident B; -1: B is in the body, or there is none */
    bool tiled, verified, replicates;
    uint64_t timeout_ms;            /* 0: none */
    bool is_watched;                /* the I/O thread gives the request up at its deadline */
    uint64_t chunk_bytes, pause_ns; /* of the body */
    uint64_t leaves_ns;             /* when the client disconnects; 0: it does not */
    uint64_t send_ns;               /* how long the answer takes to be sent */
    uint64_t hash_ns;               /* how long the hash of an upload takes after its copy */
};

/* The shape of a tenant's resident tensors. */
enum { RESIDENT_K = 24, RESIDENT_N = 16 };

/* Of a convolution: channels of an image, and height and width of a filter. */
enum { CONV_CHANNELS = 2, CONV_SIDE = 3 };

struct totals {
    uint64_t sent, answered, refused, failed, expired, left, jobs, tensors, divided;
};

/* Sends a request to one of the daemon's I/O threads. */
void request_send(struct daemon *daemon, const struct request_traits *traits,
                  struct totals *totals);
/* Does what is due for the requests of an I/O thread. Returns the time of the next call. */
uint64_t requests_advance(struct io_thread *io);

#endif
