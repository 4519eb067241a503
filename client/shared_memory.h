/*
 * shared_memory.h - requests whose operands and result are passed through memory that the client
 * shares with the daemon (mapping.h), and not through the socket.
 *
 * Sharing needs a Unix socket and a daemon that accepts shared memory. Operands in memory from
 * gemmd_memory_alloc are used where they lie. Other operands are copied to a block of the shared
 * memory, and the result is copied from that block. A connection for a request with shared memory
 * begins with the mapping's descriptor, and carries only requests that use the same mapping. The
 * structures belong to the thread that is calling a function with the client.
 */
#ifndef CLIENT_SHARED_MEMORY_H
#define CLIENT_SHARED_MEMORY_H

#include <curl/curl.h>
#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/body.h"
#include "proto/memory_header.h"

struct gemmd_client;
struct gemmd_request;
struct mapping;
struct transfer;

/* A client's shared memory. */
struct shared_memory_client {
    struct mapping *mapping;      /* the mapping that new requests use; NULL: there is none yet */
    struct mapping *replaced[16]; /* earlier mappings, of which blocks are still in use */
    uint32_t replaced_count;
    uint32_t made_count; /* number of mappings that the client has made */
    bool refused;        /* the daemon accepts no shared memory, or the system has none */
};

/* A request's use of shared memory. */
struct shared_memory {
    const char *result; /* name of the result in the header Gemmd-Memory; NULL: the result comes in
                           the answer */
    bool possible;      /* the request computes a result that its answer brings: it is no job */
    bool used;          /* the current attempt, or the last one, uses shared memory */
    struct mapping *mapping; /* the mapping that holds `block` */
    unsigned char *block;    /* block for copies; NULL: nothing has to be copied */
    unsigned char *copied; /* the result in `block`, to be copied to the caller's buffer; or NULL */
    bool lost; /* the daemon may still write to the block, for an attempt that has ended */
    struct memory_locations locations; /* of the operands and the result in the mapping */
    struct body rest;                  /* the parts of the body that go through the socket */
};

/* Prepares an attempt: decides whether the attempt uses shared memory, and copies operands.
 * GEMMD_ERR_OUT_OF_MEMORY, GEMMD_ERR_UNSUPPORTED: shared memory cannot be used, although the
 * client's options demand shared memory. */
enum gemmd_error shared_memory_begin(struct gemmd_request *request);
/* Returns the body that the attempt sends through the socket. */
struct body *shared_memory_body(struct gemmd_request *request);
/* Copies the result to the caller's buffer, after the answer has arrived. */
void shared_memory_collect(struct gemmd_request *request);
/* Ends an attempt. `status` is the answer's HTTP status; 0: the attempt ended without an answer.
 * Returns true if the daemon accepts no shared memory and the request has to be sent again at once
 * without shared memory. */
bool shared_memory_end(struct gemmd_request *request, int status);
/* Releases the block of a request that is done. */
void shared_memory_release(struct gemmd_request *request);

/* CURLOPT_OPENSOCKETFUNCTION and CURLOPT_PREREQFUNCTION of attempts that use shared memory; `user`
 * is the struct transfer. On a new connection the mapping's descriptor is sent before the request.
 */
curl_socket_t shared_memory_open_socket(void *user, curlsocktype purpose,
                                        struct curl_sockaddr *address);
int shared_memory_before_request(void *user, char *peer, char *own, int peer_port, int own_port);
/* Writes the base of the attempt's URL. The host of the base names the mapping, so that libcurl
 * uses a connection for one mapping only. */
enum { SHARED_MEMORY_BASE_MAX = 48 };
void shared_memory_base(const struct gemmd_request *request, char out[SHARED_MEMORY_BASE_MAX]);

/* gemmd_memory_alloc and gemmd_memory_free; `block` is not NULL. */
void *shared_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                          struct gemmd_error_info *error);
void shared_memory_free(struct gemmd_client *client, void *block);

/* In the child of a fork, in which no request is in flight: keeps the memory that the caller has
 * from gemmd_memory_alloc() as private memory. Later requests use a mapping of the child's own. */
void shared_memory_disown(struct gemmd_client *client);
/* Releases all mappings of a client that is released. */
void shared_memory_close(struct gemmd_client *client);

#endif
