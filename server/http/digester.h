/*
 * digester.h - the thread that hashes the long payloads of answers (digests.h), and the hashes
 * themselves.
 *
 * The digester hashes in pieces of DIGESTER_PIECE_BYTES, fairly between tenants by the bytes that
 * were hashed for each, and in turns within a tenant (sfq.h). A long payload therefore holds
 * up neither another tenant nor a short payload of its own tenant for longer than a piece takes.
 */
#ifndef SERVER_HTTP_DIGESTER_H
#define SERVER_HTTP_DIGESTER_H

#include <gnutls/crypto.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/sfq.h"
#include "server/http/digest_fields.h"
#include "server/http/respond.h"

enum { DIGESTER_PIECE_BYTES = 1 << 20 };

struct request;

/* Hashes of the same bytes by several algorithms. Zeroed: by none. */
struct digest_hashes {
    gnutls_hash_hd_t of[DIGEST_ALGORITHMS]; /* NULL: not wanted */
};
/* Begins a hash by an algorithm. False: out of memory. */
bool digest_hashes_begin(struct digest_hashes *hashes, enum digest_algorithm algorithm);
void digest_hashes_add(const struct digest_hashes *hashes, const void *bytes, uint64_t length);
/* Ends all hashes, and sets `values` (NULL: the values are not wanted). May be called again. */
void digest_hashes_end(struct digest_hashes *hashes,
                       unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX]);

/* A run of the digester: a payload that it hashes. The owner has zeroed the struct, set the first
 * group of fields and begun the hashes. The struct and the payload stay until the run has ended or
 * was withdrawn.
 */
struct digest_run {
    struct request *request; /* for the hooks; borrowed */
    const struct payload *payload;
    struct digest_hashes hashes;

    /* Set when the run ends. GEMMD_ERR_DRAINING: the digester has stopped. GEMMD_ERR_CANCELLED:
     * the run was withdrawn. */
    enum gemmd_error status;
    unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX];

    /* Only the digester uses these fields. */
    struct fair_item item;
    uint32_t part; /* the next byte to hash is at `offset` of this part of the payload */
    uint64_t offset;
    bool unwanted; /* withdrawn while a piece was being hashed */
};

struct digester;

/* How the digester takes a request and gives it back: request_hand_over_again and request_wake. */
struct digester_hooks {
    void (*hand_over)(struct request *request);
    void (*wake)(struct request *request);
};

/* Starts the thread, for tenants 0 ... tenants - 1. NULL: the thread cannot start, or there is no
 * memory. */
struct digester *digester_start(struct digester_hooks hooks, uint32_t tenants);
/* Whether the digester has made progress since the last call. Wakes the digester for the next call.
 * Always called by the same thread. */
bool digester_alive(struct digester *digester);
/* Ends the thread after at most one more piece. The runs that wait, and those that are pushed
 * later, end with GEMMD_ERR_DRAINING. Called once, by any thread. NULL is allowed. */
void digester_stop(struct digester *digester);
/* Frees the digester. Called after digester_stop, when no I/O thread runs. NULL is allowed. */
void digester_destroy(struct digester *digester);

/* Hands a run of a tenant, and its request, to the digester. A push never fails: the request is
 * woken when the run has ended, which may be at once. */
void digester_push(struct digester *digester, struct digest_run *run, uint32_t tenant);
/* Takes back a run. True: the run's request will not be woken. False: the run has ended, or ends
 * after the piece that is being hashed. */
bool digester_withdraw(struct digester *digester, struct digest_run *run);

#endif
