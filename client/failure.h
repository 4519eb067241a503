/*
 * failure.h - filling in the caller's struct gemmd_error_info.
 *
 * Every function takes NULL for `error`, writes all of its fields, allocates nothing that it keeps,
 * and returns the code, so that a caller can write `return failure_set(...)`. Any thread.
 */
#ifndef CLIENT_FAILURE_H
#define CLIENT_FAILURE_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/error.h"

void failure_clear(struct gemmd_error_info *error);
/* A failure on this side of the wire. `field` may be NULL. Long text is cut. */
enum gemmd_error failure_set(struct gemmd_error_info *error, enum gemmd_error code,
                             const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A fault that proto/ found in the caller's parameters: GEMMD_ERR_USAGE, with its sentence. */
enum gemmd_error failure_from_fault(struct gemmd_error_info *error, const struct fault *fault);
/* What an answer of status 400 or more says: the code from the slug of a problem document's `type`
 * (RFC 9457) and its `detail`. Without such a document, as a proxy's answer would be, the code is
 * the one of that status, and 502 and 503 mean that the daemon cannot be reached. */
enum gemmd_error failure_from_answer(struct gemmd_error_info *error, int status, const char *body,
                                     size_t bytes);

#endif
