/*
 * answer.h - parses the header lines of the daemon's answer. The structure owns no memory.
 */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_MAX_RANK = 8, ANSWER_ETAG_ROOM = 72, ANSWER_JOB_ROOM = 64 };

struct answer {
    int status;    /* 0 before the status line */
    bool complete; /* the empty line after the headers of a final answer (not 100) has arrived */
    bool has_length;
    uint64_t length; /* Content-Length */
    bool encoded;    /* there is a Content-Encoding, which the client never asks for */
    bool tensors;    /* the Content-Type is that of a safetensors file */
    bool has_dtype;
    enum gemmd_dtype dtype;
    uint32_t rank; /* of Gemmd-Shape; 0: the header is missing or malformed */
    uint64_t dims[ANSWER_MAX_RANK];
    char kernel[32];
    uint32_t batch;
    char request_id[64];
    struct gemmd_timing timing;
    bool verify_pass, verify_fail; /* Gemmd-Verify says "pass", or "fail" */
    double residual;
    char etag[ANSWER_ETAG_ROOM]; /* ETag, with its quotes, or "" */
    char job[ANSWER_JOB_ROOM];   /* the id in "Location: /jobs/ID", or "" */
    enum gemmd_put put;          /* set by the operation, not by a header line */
};

void answer_init(struct answer *answer);
/* Parses one header line, with or without its line end. A status line resets the structure, so that
 * a 100 Continue before the final answer leaves nothing behind. */
void answer_line(struct answer *answer, const char *line, size_t length);

#endif
