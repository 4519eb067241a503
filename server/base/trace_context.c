#include "server/base/trace_context.h"

#include <string.h>

/* "00-" trace-id "-" parent-id "-" flags */
enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LENGTH = 55 };

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hex(const char *text, int length)
{
    for (int i = 0; i < length; i++)
        if (digit(text[i]) < 0)
            return false;
    return true;
}

/* Whether the text is an id, which has at least one digit that is not 0. */
static bool is_id(const char *text, int length)
{
    return is_hex(text, length) && strspn(text, "0") < (size_t)length;
}

bool trace_context_read(struct trace_context *trace, const char *traceparent)
{
    const size_t length = strlen(traceparent);
    if (length < LENGTH || !is_hex(traceparent, 2) || memcmp(traceparent, "ff", 2) == 0 ||
        traceparent[TRACE_AT - 1] != '-' || !is_id(traceparent + TRACE_AT, TRACE_ID_TEXT) ||
        traceparent[PARENT_AT - 1] != '-' || !is_id(traceparent + PARENT_AT, SPAN_ID_TEXT) ||
        traceparent[FLAGS_AT - 1] != '-' || !is_hex(traceparent + FLAGS_AT, 2))
        return false;
    if (length > LENGTH && (memcmp(traceparent, "00", 2) == 0 || traceparent[LENGTH] != '-'))
        return false;
    memcpy(trace->trace_id, traceparent + TRACE_AT, TRACE_ID_TEXT);
    memcpy(trace->parent_id, traceparent + PARENT_AT, SPAN_ID_TEXT);
    trace->trace_id[TRACE_ID_TEXT] = trace->parent_id[SPAN_ID_TEXT] = '\0';
    trace->sampled = (digit(traceparent[FLAGS_AT + 1]) & 1) != 0;
    return true;
}

void trace_context_begin(struct trace_context *trace, uint64_t *state)
{
    random_id(trace->trace_id, state);
    random_id(trace->trace_id + SPAN_ID_TEXT, state);
    trace->parent_id[0] = '\0';
}
