/*
 * error.h - the properties of the errors that <gemmd/errors.h> lists, and the fault, which reports
 * one error to a caller.
 *
 * The function that detects an error fills in the fault that its caller passed by pointer. A fault
 * owns no memory. All functions may be called from any thread; one thread at a time may use a
 * fault.
 */
#ifndef PROTO_ERROR_H
#define PROTO_ERROR_H

#include <gemmd/errors.h>
#include <stdbool.h>
#include <stdint.h>

/* One error. `detail` is a sentence that says what was wrong and what is allowed. `field` is the
 * name of the parameter that caused the error, or empty. Both texts are terminated. */
struct fault {
    enum gemmd_error code;
    char field[32];
    char detail[256];
};

/* The properties of an error. The returned strings are static. A code outside the list has the
 * properties of GEMMD_ERR_INTERNAL. */
const char *error_name(enum gemmd_error code);  /* "QUEUE_FULL" */
const char *error_slug(enum gemmd_error code);  /* "queue-full" */
const char *error_title(enum gemmd_error code); /* "The queue is full" */
int error_status(enum gemmd_error code);        /* HTTP status, 429; 0: never in a response */
/* Returns whether the same request may succeed later. */
bool error_retriable(enum gemmd_error code);
/* Returns the error with the slug `slug` ("queue-full"), or GEMMD_ERR_PROTOCOL if no error has this
 * slug. */
enum gemmd_error error_from_slug(const char *slug);

/* Fills in `fault`, with a printf format for `detail`, and returns `code`, so that a caller can
 * write `return fault_set(...)`. `fault` and `field` may be NULL. A text that is longer than its
 * array is truncated. */
enum gemmd_error fault_set(struct fault *fault, enum gemmd_error code, const char *field,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The size in bytes of a buffer that holds every problem document, whose request id is at most 128
 * bytes long. */
enum { FAULT_JSON_BYTES = 2560 };

/* Writes the fault as an RFC 9457 problem document into `out`, which is `capacity` bytes long. The
 * members are `type`, `title`, `status`, `detail`, `field` (unless empty), `request_id` (unless
 * `request_id` is NULL or empty) and `error`. The text ends in a line feed, and is terminated if
 * `capacity` is not 0. Returns the length of the text in bytes, without the terminator, or 0 if
 * `capacity` is too small. */
uint64_t fault_to_json(const struct fault *fault, const char *request_id, char *out,
                       uint64_t capacity);

#endif
