/*
 * errors.h - the errors of gemmd and of libgemmd, as one list.
 *
 * The enum, the names, the HTTP statuses, the titles of problem documents and the labels of metrics
 * are all generated from this list, so that they always agree.
 *
 * GEMMD_ERROR_MAP(X) expands to X(NAME, slug, http_status, retriable, title) for each error:
 *   NAME         the error's constant is GEMMD_ERR_NAME
 *   slug         the last part of the URI in the problem document's `type`, and the metric's label
 *   http_status  the HTTP status of the response; 0 for an error that no response reports
 *   retriable    1 if the same request may succeed later. Every operation is safe to repeat
 *   title        the `title` of the problem document
 *
 * The values of the enum are part of libgemmd's ABI. A new error is added at the end of the list.
 */
#ifndef GEMMD_ERRORS_H
#define GEMMD_ERRORS_H

#ifdef __cplusplus
extern "C" {
#endif

#define GEMMD_ERROR_MAP(X)                                                                         \
    X(OK, "ok", 200, 0, "OK")                                                                      \
    X(MALFORMED, "malformed", 400, 0, "Malformed request")                                         \
    X(UNAUTHORIZED, "unauthorized", 401, 0, "No valid token")                                      \
    X(FORBIDDEN, "forbidden", 403, 0, "Not allowed")                                               \
    X(NOT_FOUND, "not-found", 404, 0, "Not found")                                                 \
    X(METHOD_NOT_ALLOWED, "method-not-allowed", 405, 0, "Method not allowed")                      \
    X(NOT_ACCEPTABLE, "not-acceptable", 406, 0, "No acceptable format")                            \
    X(SLOW_CLIENT, "slow-client", 408, 1, "The request did not arrive in time")                    \
    X(CONFLICT, "conflict", 409, 1, "Not ready")                                                   \
    X(GONE, "gone", 410, 0, "Gone")                                                                \
    X(PRECONDITION, "precondition-failed", 412, 0, "Precondition failed")                          \
    X(TOO_LARGE, "too-large", 413, 0, "Larger than the limit")                                     \
    X(MEDIA_TYPE, "media-type", 415, 0, "Unsupported media type")                                  \
    X(UNSUPPORTED, "unsupported", 422, 0, "Well-formed but not offered")                           \
    X(QUEUE_FULL, "queue-full", 429, 1, "The queue is full")                                       \
    X(INTERNAL, "internal", 500, 0, "A fault of the daemon")                                       \
    X(NOT_IMPLEMENTED, "not-implemented", 501, 0, "Not implemented")                               \
    X(DRAINING, "draining", 503, 1, "Shutting down")                                               \
    X(DEVICE_LOST, "device-lost", 503, 1, "The device is lost")                                    \
    X(OUT_OF_MEMORY, "out-of-memory", 503, 1, "Out of pinned or device memory")                    \
    X(DEADLINE, "deadline", 504, 0, "The deadline passed")                                         \
    X(NO_ROOM, "no-room", 507, 0, "No room for the tensor")                                        \
    X(USAGE, "usage", 0, 0, "The call's arguments are wrong")                                      \
    X(CONNECTION, "connection", 0, 1, "The daemon cannot be reached")                              \
    X(TIMEOUT, "timeout", 0, 0, "The client's own time ran out")                                   \
    X(PROTOCOL, "protocol", 0, 0, "The answer is not what the protocol promises")                  \
    X(IO, "io", 0, 0, "A file could not be read or written")                                       \
    X(CANCELLED, "cancelled", 0, 0, "Cancelled by the caller")                                     \
    X(URI_TOO_LONG, "uri-too-long", 414, 0, "The request line is too long")                        \
    X(HEADERS_TOO_LARGE, "headers-too-large", 431, 0, "The headers are too large")                 \
    X(HTTP_VERSION, "http-version", 505, 0, "Unknown version of HTTP")                             \
    X(VERIFICATION, "verification-failed", 500, 1, "The result failed verification")

enum gemmd_error {
#define X(name, slug, status, retriable, title) GEMMD_ERR_##name,
    GEMMD_ERROR_MAP(X)
#undef X
        GEMMD_ERR_COUNT,
    GEMMD_OK = GEMMD_ERR_OK
};

#ifdef __cplusplus
}
#endif
#endif
