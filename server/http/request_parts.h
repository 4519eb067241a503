/*
 * request_parts.h - the functions that the files of a request share, besides those of request.h:
 *
 *   request.c         the way of a request, and libmicrohttpd's callbacks
 *   request_fields.c  the headers and the query
 *   route.c           the endpoint of the path, and the credential
 *   request_body.c    the body: decompressed, handed to the endpoint, or dropped
 *   request_record.c  the access log, the metrics and the spans
 *
 * Internal to server/http. All functions run on the request's I/O thread, unless they are pure.
 *
 * An I/O thread reads and drops a few bodies of refused requests at a time, so that their clients
 * keep their connections, and suspends the connections of the others. If the thread read all of
 * them at once, the bodies of accepted requests would get a small part of the thread's time under
 * overload: the few accepted requests would hold their places for as long as the many refused ones
 * send, and the device would have nothing to compute. A body whose client sends slowly does not
 * hold the others up for longer than an interval.
 */
#ifndef SERVER_HTTP_REQUEST_PARTS_H
#define SERVER_HTTP_REQUEST_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/request.h"

struct tokens;

/* --- request_fields.c --- */

/* Writes the id of a request to `id`: the client's own id `given` if it is printable and at most
 * REQUEST_ID_MAX characters long, else a new id. `given` may be NULL. `*state` is the state of the
 * generator of new ids, which may start with any value. Pure. */
void request_id_choose(char id[REQUEST_ID_MAX + 1], const char *given, uint64_t *state);
/* Sets request->id: the client's X-Request-Id if it is usable, else a new id. For requests that are
 * refused before the guard (guard.h) has read their headers. */
void request_choose_id(struct request *request);

/* Whether the name or the value of a parameter of a query, both decoded, has a token of the daemon
 * (`tokens` may be NULL) or another credential in it. `value` may be NULL. */
bool query_has_secret(struct tokens *tokens, const char *name, const char *value);
/* Copies a path and its query to `out`, as the client sent them, cut to fit, and with *** in place
 * of the secrets in the query: credentials in any parameter, and the value of a parameter whose
 * name says that it is secret, such as access_token. `tokens` may be NULL. Returns false if
 * query_has_secret is false for every parameter of the query. */
bool request_path_copy(struct tokens *tokens, const char *path, char out[REQUEST_PATH_MAX]);

/* Adds the preferences of one Prefer header. A request may have several Prefer headers; of two
 * preferences with one name the first counts. Preferences that are unknown or malformed are
 * skipped. `preferences` must be zeroed before the first header. Pure. */
void prefer_read(struct preferences *preferences, const char *value);

/* Sets request->trace when the headers have arrived: from the value `traceparent` of the request's
 * only header of that name (NULL: there is none) if the value is valid, else to a new trace for
 * --otlp-sample of the requests if spans are exported. If the request's span will be exported,
 * span_id is new. Otherwise span_id is the span of the client, which the log and the exemplars then
 * name. */
void request_trace_begin(struct request *request, const char *traceparent);
/* Writes the request's tracestate; "" if the request has none, or if the tracestate is invalid or
 * longer than `capacity` allows. To be called before libmicrohttpd frees the headers. */
void request_trace_state(const struct request *request, char *out, size_t capacity);

/* --- route.c --- */

/* The path and query of a request's target. Clients of a proxy send the absolute form (RFC 9112,
 * 3.2.2), which has a scheme and an authority before the path. The result points into `target`,
 * or to a static "/". Pure. */
const char *route_path(const char *target);

/* Sets request->endpoint, request->name, request->rest, and what the request's credential gives:
 * tenant, tenant_number, scopes, max_priority, and `challenge` if the credential does not suffice.
 * Errors are set in request->fault: GEMMD_ERR_UNAUTHORIZED without a valid credential,
 * GEMMD_ERR_FORBIDDEN for a credential that lacks the endpoint's scope, GEMMD_ERR_NOT_FOUND for an
 * unknown path, GEMMD_ERR_METHOD_NOT_ALLOWED for a method that the path does not allow. The token
 * is checked first, so that a client without a token does not learn which paths exist. */
enum gemmd_error route_find(struct request *request, const char *url, const char *method);

/* --- request_body.c --- */

/* Takes more bytes of the body. Returns false if the connection must be closed. */
bool request_body_take(struct request *request, const char *bytes, size_t length);
/* Ends the body: submits the request, or answers it if it is refused. Returns false if
 * a check (checks.h) has already ended the connection. */
bool request_body_end(struct request *request);

/* Whether the endpoint's next call takes long and has to wait, because the thread has made such a
 * call in this iteration, or has to make other ones before. libmicrohttpd asks again in the next
 * iteration. */
bool request_waits_for_turn(struct request *request);

/* Records that no more of the request's body will be read, whether the body was accepted or is
 * dropped. Does nothing for a request whose body is not being read. */
void request_body_forget(struct request *request);
/* Resumes the connections whose dropped bodies are the next to be read. To be called in each
 * iteration of the loop. */
void dropped_bodies_advance(struct io_thread *thread, uint64_t now_ns);
/* When dropped_bodies_advance has something to do; UINT64_MAX: nothing is suspended. */
uint64_t dropped_bodies_due_ns(const struct io_thread *thread);
/* Resumes all connections, before the thread ends. */
void dropped_bodies_stop(struct io_thread *thread);

/* --- request_record.c --- */

/* Records a request in the access log and in the metrics. To be called once for each request, at
 * its end. `work_ended`: no other thread has the request's work, so the work's times may be read.
 */
void request_record(const struct request *request, bool work_ended, uint64_t now_ns);

#endif
