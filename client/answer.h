/*
 * answer.h - parses the header lines of the daemon's answer.
 *
 * struct answer owns no memory. The functions allocate no memory, and may be called from any thread
 * with different answers. A malformed header line counts as missing.
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
    uint64_t length; /* Content-Length in bytes, if has_length */
    bool encoded;    /* the answer has a Content-Encoding, which the client never asks for */
    bool tensors;    /* the Content-Type is that of a safetensors file */
    bool has_dtype;
    enum gemmd_dtype
        dtype;     /* GEMMD_DTYPE_COUNT: Gemmd-Dtype names a type that is not in the enum */
    char type[16]; /* Gemmd-Dtype, or "" */
    uint32_t rank; /* number of dimensions in Gemmd-Shape; 0: missing or malformed */
    uint64_t dims[ANSWER_MAX_RANK];
    char kernel[32];
    uint32_t batch;
    char request_id[64];
    struct gemmd_timing timing;
    bool verify_pass, verify_fail; /* Gemmd-Verify says "pass", or "fail" */
    double residual;
    bool has_digest;             /* Content-Digest has a sha-256 */
    unsigned char digest[32];    /* that one */
    char etag[ANSWER_ETAG_ROOM]; /* ETag, with the quotes, or "" */
    char job[ANSWER_JOB_ROOM];   /* the id in "Location: /jobs/ID", or "" */
    enum gemmd_put put;          /* set by the operation, not by a header line */
};

/* Resets the structure to an answer without a status line. */
void answer_init(struct answer *answer);
/* Parses one header line of `length` bytes, with or without the line end. A status line resets the
 * structure, so that the headers of a 100 Continue do not remain in the final answer. */
void answer_line(struct answer *answer, const char *line, size_t length);

#endif
