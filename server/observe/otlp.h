/*
 * otlp.h - sends the spans of traced requests to a collector, by OTLP/HTTP in its JSON encoding
 * (https://opentelemetry.io/docs/specs/otlp/).
 *
 * A request is one span of kind SERVER with a child for each stage: receive, queue, copy in,
 * kernel, copy out and send. A job is a span with the same children, and its parent is the span of
 * the request that made the job.
 *
 * Requests put records into a bounded queue and never wait for the collector. The exporter's thread
 * sends several records together. Records that the collector refuses for the moment (429, 502, 503,
 * 504, or no connection) are sent again after Retry-After or a growing pause, and are given up
 * after OTLP_TRIES attempts. Spans that find the queue full, and spans that are given up, are
 * dropped and counted.
 */
#ifndef SERVER_OBSERVE_OTLP_H
#define SERVER_OBSERVE_OTLP_H

#include <stdint.h>

#include "proto/error.h"
#include "server/base/trace_context.h"
#include "server/observe/log.h"

/* Length of a tracestate that is passed on. The specification asks for at least 512 characters. */
enum { OTLP_STATE_MAX = 512 };

struct otlp;

/* The collector, as the options give it. The strings are borrowed until otlp_start returns. */
struct otlp_collector {
    const char *endpoint;    /* URL, with or without /v1/traces */
    const char *header_file; /* headers to send, one a line; NULL: none */
    const char *ca_file; /* authorities in PEM that its certificate is verified with; NULL: those
                            of the system */
};

/* Starts the exporter's thread. `log` is borrowed until otlp_stop. Fails with the errors of
 * otlp_http_open. GEMMD_ERR_INTERNAL: the thread does not start. GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error otlp_start(const struct otlp_collector *collector, const char *version,
                            struct log *log, struct otlp **otlp, struct fault *fault);
/* Finds out whether otlp_start could use the collector's URL and files. Fails with the errors of
 * otlp_http_open. Sends nothing. */
enum gemmd_error otlp_check(const struct otlp_collector *collector, struct fault *fault);
/* Sends the queued spans, for at most two seconds, and frees the exporter. A thread that a transfer
 * still blocks after that time is left behind. NULL is allowed. */
void otlp_stop(struct otlp *otlp);

/* Puts a request that has ended, or a job, into the queue. `trace` is sampled. Everything is copied
 * except op, dtype, kernel and error, which are static strings. Any thread. */
void otlp_request(struct otlp *otlp, const struct trace_context *trace, const char *state,
                  const struct log_access *entry);
void otlp_job(struct otlp *otlp, const struct trace_context *trace, const struct log_access *entry);

struct otlp_counts {
    uint64_t sent, dropped; /* spans */
};
struct otlp_counts otlp_counts(struct otlp *otlp);

#endif
