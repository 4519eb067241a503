/* request_record.h - records a request that has ended, in the access log and in the metrics. */
#ifndef SERVER_HTTP_REQUEST_RECORD_H
#define SERVER_HTTP_REQUEST_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct request;

/* Records a request. To be called once for each request, at its end, on its I/O thread.
 * `work_ended`: no other thread has the request's work, so the work's times may be read. */
void request_record(const struct request *request, bool work_ended, uint64_t now_ns);

#endif
