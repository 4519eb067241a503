/* request_trace.h - the trace that a request belongs to (W3C Trace Context). On the I/O thread. */
#ifndef SERVER_HTTP_REQUEST_TRACE_H
#define SERVER_HTTP_REQUEST_TRACE_H

#include <stddef.h>

struct request;

/* Sets request->trace when the headers have arrived: from the header traceparent if the request has
 * exactly one and its value is valid, else to a new trace for --otlp-sample of the requests if
 * spans are exported. If the request's span will be exported, span_id is new. Otherwise span_id is
 * the span of the client, which the log and the exemplars then name. */
void request_trace_begin(struct request *request);
/* Writes the request's tracestate; "" if the request has none, or if the tracestate is invalid or
 * longer than `capacity` allows. To be called before libmicrohttpd frees the headers. */
void request_trace_state(const struct request *request, char *out, size_t capacity);

#endif
