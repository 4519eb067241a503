/*
 * answer_digest.h - compares the content of an answer with the digest that the daemon sends with it
 * (RFC 9530, sha-256), if gemmd_options.check_digests is set.
 *
 * The content is hashed as it arrives. Used by the thread that uses the client.
 */
#ifndef CLIENT_ANSWER_DIGEST_H
#define CLIENT_ANSWER_DIGEST_H

#include <gemmd/gemmd.h>
#include <nettle/sha2.h>
#include <stddef.h>

struct transfer;

/* The header line that asks for the digest. */
#define ANSWER_DIGEST_WISH "Want-Content-Digest: sha-256=1"

struct answer_digest {
    struct sha256_ctx hash;
    uint64_t bytes; /* hashed so far */
};

/* Begins the content of an answer. */
void answer_digest_begin(struct answer_digest *digest);
/* Adds bytes of the content. */
void answer_digest_add(struct answer_digest *digest, const void *data, size_t bytes);
/* Compares the digest of the complete content of an answer that is not a failure. An answer without
 * content has no digest. GEMMD_ERR_CONNECTION, which is retriable: the content was changed on its
 * way. GEMMD_ERR_PROTOCOL: the daemon sent no digest. Fills in the request's error. */
enum gemmd_error answer_digest_check(struct transfer *transfer);

#endif
