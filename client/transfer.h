/*
 * transfer.h - one attempt at a request: a libcurl easy handle and its buffers.
 */
#ifndef CLIENT_TRANSFER_H
#define CLIENT_TRANSFER_H

#include "client/client.h"

enum { HEADER_LINES_MAX = 4 };

/* One in front of the client's. */
struct header_line {
    struct curl_slist node;
    char text[MEMORY_HEADER_MAX + 32];
};

struct transfer {
    struct transfer *next; /* in a list of idle ones */
    CURL *easy;
    bool bulk;
    uint32_t issued; /* how often it was sent in this attempt; of those that share memory */
    int opened;      /* a connection for shared memory that has no first line yet; -1: none */
    struct gemmd_request *request; /* NULL while idle */
    struct answer answer;
    bool accepted;            /* the operation's accept agreed */
    enum gemmd_error refused; /* or this is what it said */
    struct header_line own[HEADER_LINES_MAX];
    uint32_t own_count;
    char url[ENDPOINT_URL_MAX + REQUEST_TARGET_MAX + 64];
    char *joined; /* room for a small body, or NULL */
    char curl_error[CURL_ERROR_SIZE];
    char document[4096]; /* the front of the body of an answer that has no payload */
    size_t document_bytes;
};

/* Starts an attempt in the client's loop and makes it request->transfer. On failure
 * request->error says why. */
enum gemmd_error transfer_start(struct gemmd_request *request, uint64_t now_us);
/* The request that a handle works for. */
struct gemmd_request *transfer_request(CURL *easy);
/* Takes a transfer that ended with `result` out of the loop and judges it: GEMMD_OK with
 * request->answer, or the code with request->error. */
enum gemmd_error transfer_finish(struct gemmd_request *request, CURLcode result);
/* Breaks the attempt off; its connection is closed. */
void transfer_abort(struct gemmd_request *request);
/* Bytes that have gone out and come in so far, headers not counted. */
uint64_t transfer_moved(const struct gemmd_request *request);
/* Whether bytes ought to be moving, rather than the daemon computing. */
bool transfer_should_move(const struct gemmd_request *request);

#endif
