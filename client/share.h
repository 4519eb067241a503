/*
 * share.h - requests whose operands and result lie in memory that the client shares with the daemon
 * (memory.h), so that they do not go through the socket.
 *
 * Sharing needs a Unix socket and a daemon that accepts shared memory. Operands in memory from
 * gemmd_memory_alloc are used where they lie; other operands are copied into a block of the shared
 * memory, and the result is copied out of it. A connection for such requests begins with the
 * memory's descriptor, and carries no other requests. The structures belong to the thread that is
 * calling a function with the client.
 */
#ifndef CLIENT_SHARE_H
#define CLIENT_SHARE_H

#include <curl/curl.h>
#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/body.h"
#include "proto/memory_header.h"

struct gemmd_client;
struct gemmd_request;
struct memory;
struct transfer;

/* The part of a client. */
struct share_client {
    struct memory *memory;   /* the memory that new requests use; NULL: none yet */
    struct memory *worn[16]; /* memories that were replaced, with blocks that are still in use */
    uint32_t worn_count, made_count;
    bool refused; /* the daemon accepts no shared memory, or the system has none */
};

/* The part of a request. */
struct share {
    const char *result; /* name of the result in the header; NULL: the result comes in the answer */
    bool possible;      /* the request is a product or an attention, and not a job */
    bool used;          /* the current attempt, or the last one, uses shared memory */
    struct memory *memory; /* the memory that holds `block` */
    unsigned char *block;  /* block for copies; NULL: nothing has to be copied */
    unsigned char *copied; /* the result in `block`, to be copied to the caller's buffer; or NULL */
    bool lost; /* the daemon may still write to the block, for an attempt that has ended */
    struct memory_places places;
    struct body rest; /* the parts of the body that go through the socket */
};

/* Prepares an attempt: decides whether the attempt uses shared memory, and copies operands.
 * GEMMD_ERR_OUT_OF_MEMORY, _UNSUPPORTED: shared memory cannot be used, and the client's options
 * demand it. */
enum gemmd_error share_begin(struct gemmd_request *request);
/* The body that the attempt sends through the socket. */
struct body *share_body(struct gemmd_request *request);
/* Copies the result to the caller's buffer, after the answer has arrived. */
void share_collect(struct gemmd_request *request);
/* Ends an attempt. `status` is that of the answer; 0: there was none. True if the daemon accepts no
 * shared memory, and the request has to be sent again at once without. */
bool share_end(struct gemmd_request *request, int status);
/* Releases the block of a request that is done. */
void share_release(struct gemmd_request *request);

/* CURLOPT_OPENSOCKETFUNCTION and CURLOPT_PREREQFUNCTION of attempts that use shared memory; `user`
 * is the transfer. On a new connection the memory's descriptor is sent before the request. */
curl_socket_t share_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address);
int share_before_request(void *user, char *peer, char *own, int peer_port, int own_port);
/* Writes the base of the attempt's URL. The base names the memory as its host, so that libcurl
 * keeps connections of different memories apart. */
enum { SHARE_BASE_MAX = 48 };
void share_base(const struct gemmd_request *request, char out[SHARE_BASE_MAX]);

/* Releases all memories of a client that is released. */
void share_close(struct gemmd_client *client);

#endif
