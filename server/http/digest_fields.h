/*
 * digest_fields.h - reads the digest fields of HTTP (RFC 9530): Content-Digest and Repr-Digest of a
 * body, and the digests that the client wants of the answer (Want-Content-Digest,
 * Want-Repr-Digest).
 *
 * The fields are dictionaries of structured fields (RFC 8941). Pure functions, any thread.
 */
#ifndef SERVER_HTTP_DIGEST_FIELDS_H
#define SERVER_HTTP_DIGEST_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

enum digest_algorithm {
    DIGEST_SHA256,
    DIGEST_SHA512,
    DIGEST_ALGORITHMS,
    DIGEST_NONE = DIGEST_ALGORITHMS
};
enum { DIGEST_BYTES_MAX = 64, DIGEST_TEXT_MAX = 128 };

/* The digests that one field gives, of the algorithms that the daemon knows. */
struct digest_values {
    bool given[DIGEST_ALGORITHMS];
    unsigned char value[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX];
};

uint32_t digest_bytes(enum digest_algorithm algorithm);   /* 32 or 64 */
const char *digest_name(enum digest_algorithm algorithm); /* "sha-256" */

/* Adds the digests of one line of a field. Unknown algorithms are ignored; of two digests by one
 * algorithm the last counts. Returns false if the line is not a dictionary, or if the value of a
 * known algorithm does not have the length of its digests. */
bool digest_read_values(const char *line, struct digest_values *values);

/* How much a client wants each algorithm: 0 (not at all) ... 10; -1: not mentioned. */
struct digest_wishes {
    int32_t weight[DIGEST_ALGORITHMS];
};
/* Adds the wishes of one line of a field. A line that is malformed is ignored. */
void digest_read_wishes(const char *line, struct digest_wishes *wishes);
/* The algorithm that the client wants most; sha-256 if the client wants both equally. DIGEST_NONE:
 * the client wants no known algorithm. */
enum digest_algorithm digest_wanted(const struct digest_wishes *wishes);

/* Writes a member as a field has it, "sha-256=:...:", with its terminator. */
void digest_write(enum digest_algorithm algorithm, const unsigned char *value,
                  char out[DIGEST_TEXT_MAX]);

#endif
