/*
 * share.h - requests whose operands and result lie in memory that the daemon shares (memory.h), so
 * that nothing of them goes through the socket.
 *
 * Over a Unix socket, to a daemon that takes it. What lies in gemmd_memory_alloc's memory is used
 * there; the rest is copied into a block of it, the result out of it. Connections that carry such
 * requests are others than those that do not: they begin with the memory's descriptor. All that is
 * here belongs to the thread that is in a call with the client.
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

/* A client's. */
struct share_client {
    struct memory *memory;   /* NULL: none yet */
    struct memory *worn[16]; /* with blocks that are out still */
    uint32_t worn_count, made_count;
    bool refused; /* the daemon takes none, or the system gives none */
};

/* A request's. */
struct share {
    const char *result;    /* what the result is called; NULL: it goes elsewhere */
    bool possible;         /* it is a product or an attention that is waited for */
    bool used;             /* by the attempt at hand, or the last one */
    struct memory *memory; /* that `block` is of */
    unsigned char *block;  /* NULL: nothing had to be copied */
    unsigned char *copied; /* the result, if it has to be copied from there */
    bool lost;             /* an attempt ended that may still be writing */
    struct memory_places places;
    struct body rest; /* what goes through the socket all the same */
};

/* Before an attempt: uses shared memory if it can be used. GEMMD_ERR_OUT_OF_MEMORY, _UNSUPPORTED:
 * it cannot, and has to be. */
enum gemmd_error share_begin(struct gemmd_request *request);
/* The body of the attempt. */
struct body *share_body(struct gemmd_request *request);
/* The answer is there: the result to where it is wanted. */
void share_collect(struct gemmd_request *request);
/* The attempt is over with the answer's status, 0: without one. True if the daemon takes no memory,
 * and the request is to be sent without, at once. */
bool share_end(struct gemmd_request *request, int status);
/* The request is done. */
void share_release(struct gemmd_request *request);

/* CURLOPT_OPENSOCKETFUNCTION and CURLOPT_PREREQFUNCTION of attempts that use it; `user` is the
 * transfer. A connection that was opened for the attempt gets its first line before the request. */
curl_socket_t share_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address);
int share_before_request(void *user, char *peer, char *own, int peer_port, int own_port);
/* Of the host in the URL, which keeps these connections apart from the others. */
enum { SHARE_BASE_MAX = 48 };
void share_base(const struct gemmd_request *request, char out[SHARE_BASE_MAX]);

/* With the client. */
void share_close(struct gemmd_client *client);

#endif
