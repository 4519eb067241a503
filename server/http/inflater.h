/*
 * inflater.h - makes a compressed body whole again, piece by piece as it arrives.
 *
 * Nothing of it is kept but zlib's window of 32 KiB: each piece is handed on at once, so that who
 * takes it (a body's memory) sees every byte in time to refuse it. One thread at a time.
 */
#ifndef SERVER_HTTP_INFLATER_H
#define SERVER_HTTP_INFLATER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/coding.h"

enum { INFLATER_FREE_BYTES = 1 << 20 }; /* so much may come of any body */

struct inflater;

/* Takes a piece of the body; false: the rest is of no use. */
typedef bool inflater_sink(void *context, const void *bytes, uint64_t length);

/* `coding` is gzip or deflate. What comes of a body may be at most `max_ratio` times as long as
 * what it came of (0: any), once it is longer than INFLATER_FREE_BYTES. NULL: out of memory. */
struct inflater *inflater_create(enum coding coding, uint32_t max_ratio);
void inflater_destroy(struct inflater *inflater); /* NULL is allowed */

/* Hands what comes of the next compressed bytes to `sink`. GEMMD_ERR_MALFORMED if they are not in
 * the format or go on after its end, GEMMD_ERR_TOO_LARGE for the ratio, GEMMD_ERR_OUT_OF_MEMORY;
 * GEMMD_ERR_CANCELLED, without a fault, if the sink returned false. */
enum gemmd_error inflater_add(struct inflater *inflater, const void *bytes, uint64_t length,
                              inflater_sink *sink, void *context, struct fault *fault);
/* All has been added: GEMMD_ERR_MALFORMED if the format's end was not there. */
enum gemmd_error inflater_end(const struct inflater *inflater, struct fault *fault);

/* What came of it so far. */
uint64_t inflater_total_bytes(const struct inflater *inflater);

#endif
