/* request_record.h - what stays of a request: its line in the access log and its place in the
 * metrics. */
#ifndef SERVER_HTTP_REQUEST_RECORD_H
#define SERVER_HTTP_REQUEST_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct request;

/* Once a request, at its end, on its I/O thread. `work_ended`: nobody else has its work any more,
 * so that its times can be read. */
void request_record(const struct request *request, bool work_ended, uint64_t now_ns);

#endif
