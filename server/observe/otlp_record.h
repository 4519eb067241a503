/* otlp_record.h - one traced request or job, and its spans as OTLP's JSON. Used by otlp*.c only. */
#ifndef SERVER_OBSERVE_OTLP_RECORD_H
#define SERVER_OBSERVE_OTLP_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/observe/otlp.h"

enum { OTLP_STAGES_MAX = 6 };

struct otlp_record {
    struct trace_context trace;
    char state[OTLP_STATE_MAX + 1];
    bool is_job;
    int64_t epoch_ns; /* of the wall clock minus the monotonic clock */
    char method[16], path[256], request_id[129], peer[64], client[46], job[40], reason[96];
    /* The strings of the entry other than op, dtype, kernel and error are not valid. */
    struct log_access entry;
};

void otlp_record_fill(struct otlp_record *record, const struct trace_context *trace,
                      const char *state, const struct log_access *entry, bool is_job);
/* Number of spans of a record: itself and its stages. */
uint32_t otlp_record_spans(const struct otlp_record *record);
/* The body of a request to the collector: the spans of `count` records. `state` is that of the
 * generator of ids. The text belongs to the caller; NULL: out of memory. */
char *otlp_records_json(const struct otlp_record *records, uint32_t count, const char *version,
                        uint64_t *state);

#endif
