/*
 * error.h - what each entry of <gemmd/errors.h> says, and the fault that carries one.
 *
 * A fault is filled in by whoever notices that something is wrong and travels up by
 * pointer; it owns nothing. All functions may be called from any thread.
 */
#ifndef PROTO_ERROR_H
#define PROTO_ERROR_H

#include <gemmd/errors.h>
#include <stdbool.h>
#include <stdint.h>

/* One failure. `detail` is one sentence that says what was wrong and what is allowed;
 * `field` names the parameter at fault, or is empty. */
struct fault {
    enum gemmd_error code;
    char field[32];
    char detail[256];
};

const char *error_name(enum gemmd_error code);  /* "QUEUE_FULL" */
const char *error_slug(enum gemmd_error code);  /* "queue-full" */
const char *error_title(enum gemmd_error code); /* "The queue is full" */
int error_status(enum gemmd_error code);        /* 429; 0 for a client's own fault */
bool error_retriable(enum gemmd_error code);
/* The code of a slug ("queue-full"), or GEMMD_ERR_PROTOCOL if no entry has it. */
enum gemmd_error error_from_slug(const char *slug);

/* Fills in `fault` (which may be NULL) and returns `code`, so that a caller can write
 * `return fault_set(...)`. `field` may be NULL. Long text is cut, never overrun. */
enum gemmd_error fault_set(struct fault *fault, enum gemmd_error code, const char *field,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Writes the fault as an RFC 9457 problem document (`type`, `title`, `status`, `detail`,
 * `field` if any, and `error`) into `out`, always terminated. Returns the length written
 * without the terminator, or 0 if `capacity` is too small; 2048 bytes always suffice. */
uint64_t fault_to_json(const struct fault *fault, char *out, uint64_t capacity);

#endif
