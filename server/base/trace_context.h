/*
 * trace_context.h - the position of a request in a distributed trace, as the header traceparent
 * gives it (W3C Trace Context, level 1, https://www.w3.org/TR/trace-context-1/).
 *
 * Ids are lowercase hexadecimal text, as in the header, in logs, in exemplars and in OTLP's JSON.
 * Pure functions.
 */
#ifndef SERVER_BASE_TRACE_CONTEXT_H
#define SERVER_BASE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/random_id.h"

enum { TRACE_ID_TEXT = 32, SPAN_ID_TEXT = RANDOM_ID_TEXT };

struct trace_context {
    bool sampled;                     /* the span is to be exported */
    char trace_id[TRACE_ID_TEXT + 1]; /* "": the request belongs to no trace */
    char parent_id[SPAN_ID_TEXT + 1]; /* the client's span; "": the request's span is the root */
    char span_id[SPAN_ID_TEXT + 1];   /* the request's own span */
};

/* Reads the value of a traceparent header. Returns false, and changes nothing, if the value is not
 * valid. Versions above 00 are read as version 00, as the specification demands. Does not set
 * span_id. */
bool trace_context_read(struct trace_context *trace, const char *traceparent);
/* Sets trace_id to a new id, with no parent. `state` is that of the generator of ids. */
void trace_context_begin(struct trace_context *trace, uint64_t *state);

#endif
