/*
 * guard.h - refuses requests that a proxy and libmicrohttpd could frame differently (request
 * smuggling). The guard runs before anything else looks at a request, on its I/O thread.
 *
 * libmicrohttpd 0.9 accepts lines and chunks that RFC 9112 forbids, so the guard checks the lines
 * of each head where libmicrohttpd has left them in its buffer. Where libmicrohttpd leaves lines is
 * not part of its interface. At the start the daemon therefore gives libmicrohttpd a request of its
 * own, and serves only if the lines are left where the guard expects them. libmicrohttpd 1.0 and
 * later refuse such requests themselves, and the guard does not look at their buffers.
 *
 * libmicrohttpd 0.9 itself refuses a request whose Content-Length is not a number, or whose cookies
 * do not fit in the connection's buffer. It finds both faults when the headers are complete, before
 * it calls request_handle. It prepares an answer, but then goes on with the request as if it had
 * not answered, and so writes the head of the answer a second time in front of the answer's body.
 * The daemon therefore answers such a request first, and shuts the socket down before libmicrohttpd
 * writes to it. The only callback that runs between the two steps is the one for libmicrohttpd's
 * messages. That callback does not name the connection. But only one connection at a time is
 * between the two steps, and MHD_get_connection_info tells which: the one that has a size of
 * headers and no status yet. So an I/O thread lists the requests whose headers are being read, but
 * not those of libmicrohttpd 1.0, which answers correctly.
 */
#ifndef SERVER_HTTP_GUARD_H
#define SERVER_HTTP_GUARD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/error.h"

struct request;

/* The request line, as libmicrohttpd gives it to its handler. Borrowed. */
struct request_line {
    const char *url, *method, *version;
};

/* Whether the target of a request line has at least one byte, no space and no control character. To
 * be called before libmicrohttpd decodes the target in place. Pure. */
bool guard_target(const char *target, size_t bytes);

/* Reads the headers of a request: sets request->id and request->trace, checks the framing, opens
 * the digests that the request sends or wants, and fills in the fields of `request` that describe
 * its body. Requires that the request line is a method, a target and a version with one space
 * between each, that each line ends with CR LF, holds no other CR and no zero byte and does not
 * continue on the next line, and that header names are tokens. Requires exactly one Host (HTTP/1.0:
 * at most one); allows a Content-Length of digits; allows Transfer-Encoding from HTTP/1.1 on, as a
 * single "chunked" and without Content-Length; allows at most one Content-Encoding, of a supported
 * coding. Allows one header each of the fields that the daemon reads as a single value, such as
 * Authorization. A violation sets request->fault and returns its code: GEMMD_ERR_MALFORMED,
 * GEMMD_ERR_TOO_LARGE for a Content-Length over 64 bits or a compressed body that is longer than
 * --max-body, or GEMMD_ERR_MEDIA_TYPE for the coding. */
enum gemmd_error guard_headers(struct request *request, const struct request_line *line);

/* The callback for libmicrohttpd's messages (MHD_LogCallback). `thread` is the I/O thread. Refuses
 * the request that libmicrohttpd is about to refuse. Nothing is logged. */
void guard_on_message(void *thread, const char *format, va_list arguments);

/* Finds out how libmicrohttpd parses requests. Sets `*is_lenient` to whether the guard has to check
 * the lines of each head. Main thread, at the start. GEMMD_ERR_UNSUPPORTED: the version of
 * libmicrohttpd is not known to be safe, or the version is lenient and leaves the head of a request
 * in another way. GEMMD_ERR_INTERNAL: libmicrohttpd could not be tried. */
enum gemmd_error guard_parser_find(bool *is_lenient, struct fault *fault);

#endif
