/*
 * answer.h - what the header lines of an answer say. Owns nothing, allocates nothing.
 */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_MAX_RANK = 8, ANSWER_ETAG_ROOM = 72, ANSWER_JOB_ROOM = 64 };

struct answer {
    int status;    /* 0 before the status line */
    bool complete; /* the empty line after the last header of a final answer was seen */
    bool has_length;
    uint64_t length; /* Content-Length */
    bool encoded;    /* a Content-Encoding that nobody asked for */
    bool tensors;    /* a safetensors file, by its Content-Type */
    bool has_dtype;
    enum gemmd_dtype dtype;
    uint32_t rank; /* 0: no Gemmd-Shape that can be read */
    uint64_t dims[ANSWER_MAX_RANK];
    char kernel[32];
    uint32_t batch;
    char request_id[64];
    struct gemmd_timing timing;
    bool verify_pass, verify_fail; /* what Gemmd-Verify says */
    double residual;
    char etag[ANSWER_ETAG_ROOM]; /* ETag, with its quotes, or "" */
    char job[ANSWER_JOB_ROOM];   /* the id in a Location: /jobs/ID, or "" */
    enum gemmd_put put;          /* no header line, but what an operation makes of the answer */
};

void answer_init(struct answer *answer);
/* Takes one line as it came, with or without its line end. A status line starts anew, so that
 * what is left at the end is the final answer and not a 100 before it. */
void answer_line(struct answer *answer, const char *line, size_t length);

#endif
