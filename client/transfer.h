/*
 * transfer.h - one attempt at a request: a libcurl easy handle and the handle's buffers.
 *
 * A transfer belongs to one client, and is used by the thread that uses the client. A transfer that
 * is not in use waits in one of the client's lists of idle transfers. Every function but
 * transfer_start and transfer_free_idle needs a request that has a transfer.
 *
 * There are two sizes of transfers. libcurl's large buffers make large bodies up to twice as fast,
 * and cost time and memory with small bodies. A client keeps up to TRANSFER_SMALL_MAX idle
 * transfers of about 140 KiB and TRANSFER_BULK_MAX of 2.5 MiB, 29 MiB in all. A burst of more
 * requests makes transfers that are released when their requests end; their connections stay.
 */
#ifndef CLIENT_TRANSFER_H
#define CLIENT_TRANSFER_H

#include <nettle/sha2.h>

#include "client/client.h"

enum { HEADER_LINES_MAX = 5 };

/* The digest of the content of an answer (RFC 9530, sha-256), which is computed as the content
 * arrives if gemmd_options.check_digests is set. ANSWER_DIGEST_WISH is the header line that asks
 * for the digest. */
#define ANSWER_DIGEST_WISH "Want-Content-Digest: sha-256=1"

struct answer_digest {
    struct sha256_ctx hash;
    uint64_t bytes; /* hashed so far */
};

/* A header line of one attempt, in a list in front of the client's own header lines. */
struct header_line {
    struct curl_slist node;
    char text[MEMORY_HEADER_MAX + 32];
};

struct transfer {
    struct transfer *next; /* in the client's list of idle transfers */
    CURL *easy;
    bool bulk;       /* the handle has large buffers, for large bodies */
    uint32_t issued; /* number of times that libcurl sent the request in the attempt; counted only
                        for a request that uses shared memory */
    int opened; /* socket of a new connection, on which the descriptor of the shared memory has yet
                   to be sent; -1: none */
    struct gemmd_request *request; /* the request that uses the transfer; NULL while idle */
    struct answer answer;
    struct answer_digest digest; /* of the content, if options.check_digests is set */
    bool accepted;               /* the operation's `accept` returned GEMMD_OK */
    enum gemmd_error refused;    /* the error that `accept` returned; GEMMD_OK: none */
    struct header_line own[HEADER_LINES_MAX];
    uint32_t own_count;
    char url[ADDRESS_URL_MAX + REQUEST_TARGET_MAX + 64];
    char *joined; /* buffer in which a small body is joined, or NULL */
    char curl_error[CURL_ERROR_SIZE];
    char document[4096]; /* the first bytes of an answer that is a document, not a payload */
    size_t document_bytes;
};

enum { TRANSFER_SMALL_MAX = 64, TRANSFER_BULK_MAX = 8 };

/* Starts an attempt in the client's loop and sets request->transfer. `now_us` is the current time
 * of loop_now_us. If the function fails, request->error is filled in. */
enum gemmd_error transfer_start(struct gemmd_request *request, uint64_t now_us);
/* Returns the request whose attempt uses the handle. */
struct gemmd_request *transfer_request(CURL *easy);
/* Takes a transfer that ended with `result` out of the loop. Returns GEMMD_OK with request->answer
 * filled in, or an error code with request->error filled in. */
enum gemmd_error transfer_finish(struct gemmd_request *request, CURLcode result);
/* Aborts the attempt and closes the attempt's connection. */
void transfer_abort(struct gemmd_request *request);
/* Returns the number of bytes of body and payload that the attempt has sent and received so far,
 * without headers. */
uint64_t transfer_moved(const struct gemmd_request *request);
/* Returns whether bytes are expected to move, that is, whether the daemon is not computing. */
bool transfer_should_move(const struct gemmd_request *request);
/* Releases all idle transfers of a client. */
void transfer_free_idle(struct gemmd_client *client);

#endif
