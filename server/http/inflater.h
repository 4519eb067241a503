/*
 * inflater.h - decompresses a request's body, piece by piece as it is received.
 *
 * An inflater keeps no decompressed bytes but zlib's window of 32 KiB. Each decompressed piece is
 * handed to a sink at once, and the sink can refuse the body at any piece. One thread at a time may
 * use an inflater.
 */
#ifndef SERVER_HTTP_INFLATER_H
#define SERVER_HTTP_INFLATER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/negotiation.h"

/* The limit on the ratio does not apply to the first bytes of a decompressed body.
 *
 * A compressed body may be longer than the decompressed body, but at most INFLATER_GROWTH times as
 * long and INFLATER_FREE_BYTES longer. Deflate's worst block, of literals with fixed codes, is 9/8
 * as long as its contents; a body that grows by more has blocks, members or headers without
 * contents. */
enum { INFLATER_FREE_BYTES = 1 << 20, INFLATER_GROWTH = 2 };

struct inflater;

/* Takes a decompressed piece of the body. Returns false to refuse the rest of the body. */
typedef bool inflater_sink(void *context, const void *bytes, uint64_t length);

/* Creates an inflater for a body in `coding`, which is gzip or deflate. A decompressed body that is
 * longer than INFLATER_FREE_BYTES may be at most `max_ratio` times as long as the compressed body;
 * 0 means no limit. Returns NULL if memory ran out. */
struct inflater *inflater_create(enum coding coding, uint32_t max_ratio);
void inflater_destroy(struct inflater *inflater); /* NULL is allowed */

/* Decompresses the next `length` bytes of the body and hands the result to `sink`. Errors:
 * GEMMD_ERR_MALFORMED if the bytes are not in the coding's format or continue after its end,
 * GEMMD_ERR_TOO_LARGE if the ratio exceeds the limit or the compressed body is too long for what it
 * contains, GEMMD_ERR_OUT_OF_MEMORY, and
 * GEMMD_ERR_CANCELLED, without a fault, if the sink returned false. */
enum gemmd_error inflater_add(struct inflater *inflater, const void *bytes, uint64_t length,
                              inflater_sink *sink, void *context, struct fault *fault);
/* Checks, after the last byte of the body, that the body is complete. GEMMD_ERR_MALFORMED if it
 * ends before the end of the coding's format. */
enum gemmd_error inflater_end(const struct inflater *inflater, struct fault *fault);

/* The longest compressed body that is taken for a body of `bytes`. UINT64_MAX: no limit that fits.
 */
uint64_t inflater_longest_bytes(uint64_t bytes);
/* The number of decompressed bytes so far. */
uint64_t inflater_total_bytes(const struct inflater *inflater);

#endif
