#include "server/http/request_trace.h"

#include <string.h>
#include <strings.h>

#include "server/base/random_id.h"
#include "server/base/trace_context.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"
#include "server/http/server_state.h"

static enum MHD_Result count_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    (void)value;
    *(uint32_t *)cls += strcasecmp(name, "traceparent") == 0;
    return MHD_YES;
}

/* Whether the client's traceparent is valid, and then read. */
static bool read_traceparent(struct request *request)
{
    const char *value = request_header(request, "traceparent");
    uint32_t fields = 0;
    if (value == NULL)
        return false;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, count_field, &fields);
    return fields == 1 && trace_context_read(&request->trace, value);
}

void request_trace_begin(struct request *request)
{
    struct trace_context *trace = &request->trace;
    uint64_t *state = &request->thread->id_state;
    const bool exports = request->server->otlp != NULL;
    const bool given = read_traceparent(request);
    if (!given && !exports)
        return;
    if (!given) {
        trace->sampled = random_number(state) % 100 < request->config->otlp_sample;
        if (trace->sampled)
            trace_context_begin(trace, state);
    }
    if (exports && trace->sampled)
        trace_context_span_id(trace->span_id, state);
    else if (given)
        memcpy(trace->span_id, trace->parent_id, sizeof trace->span_id);
}

/* The fields of tracestate, combined into one list as the specification says. */
struct state_list {
    char *out;
    size_t capacity, length;
    bool invalid;
};

static enum MHD_Result add_state(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct state_list *list = cls;
    (void)kind;
    if (strcasecmp(name, "tracestate") != 0 || value == NULL || value[0] == '\0')
        return MHD_YES;
    const size_t length = strlen(value), comma = list->length > 0;
    for (size_t i = 0; i < length; i++)
        list->invalid |= value[i] < ' ' || value[i] > '~';
    list->invalid |= list->length + comma + length >= list->capacity;
    if (list->invalid)
        return MHD_NO;
    if (comma)
        list->out[list->length++] = ',';
    memcpy(list->out + list->length, value, length);
    list->length += length;
    return MHD_YES;
}

void request_trace_state(const struct request *request, char *out, size_t capacity)
{
    struct state_list list = {.out = out, .capacity = capacity};
    if (request->trace.parent_id[0] != '\0')
        MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, add_state, &list);
    out[list.invalid ? 0 : list.length] = '\0';
}
