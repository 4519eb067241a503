/*
 * failure.h - fills in the caller's struct gemmd_error_info.
 *
 * In every function `error` may be NULL; otherwise all fields of `error` are written. No function
 * leaves memory allocated. Every function but failure_clear returns the code, so that a caller can
 * write `return failure_set(...)`. Any thread.
 */
#ifndef CLIENT_FAILURE_H
#define CLIENT_FAILURE_H

#include <gemmd/gemmd.h>
#include <stddef.h>

#include "proto/error.h"

void failure_clear(struct gemmd_error_info *error);
/* Describes a failure that the library found. `field` may be NULL. A message that is too long is
 * cut off. */
enum gemmd_error failure_set(struct gemmd_error_info *error, enum gemmd_error code,
                             const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Describes a fault that proto/ found in the caller's parameters, with the fault's field and
 * sentence: as GEMMD_ERR_UNSUPPORTED, which the daemon would say too, if gemmd does not offer the
 * parameters together, else as GEMMD_ERR_USAGE. */
enum gemmd_error failure_from_fault(struct gemmd_error_info *error, const struct fault *fault);
/* Describes an answer with a status of 400 or more. If `body` is a problem document (RFC 9457), the
 * code comes from the last part of the document's `type`, and the message is the document's
 * `detail`. Otherwise, for example if a proxy answered, the code is that of the status, and 502 and
 * 503 mean that the daemon cannot be reached. */
enum gemmd_error failure_from_answer(struct gemmd_error_info *error, int status, const char *body,
                                     size_t bytes);

#endif
