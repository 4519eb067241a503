/*
 * otlp_http.h - sends one body to a collector by libcurl. Used by otlp.c only.
 *
 * libcurl is loaded when an exporter is opened, and the daemon is not linked with libcurl: libcurl
 * depends on twenty other libraries, and most daemons export no spans. One thread at a time.
 */
#ifndef SERVER_OBSERVE_OTLP_HTTP_H
#define SERVER_OBSERVE_OTLP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct otlp_http;
struct otlp_collector;

/* Loads libcurl. The faults of the collector's files name the option, the file and the line, not
 * the text. Errors: those of option_file_read. GEMMD_ERR_USAGE: a line of the header file is no
 * header, or the file of authorities has no certificate. GEMMD_ERR_INTERNAL: libcurl cannot be
 * loaded or cannot use the URL. `give_up_ns` is a time on the monotonic clock that another thread
 * may set: a transfer ends soon after it. `give_up_ns` and the name of the file of authorities are
 * borrowed until otlp_http_close. Main thread. */
enum gemmd_error otlp_http_open(const struct otlp_collector *collector,
                                const _Atomic uint64_t *give_up_ns, struct otlp_http **http,
                                struct fault *fault);
/* NULL is allowed. */
void otlp_http_close(struct otlp_http *http);

struct otlp_answer {
    int status;             /* 0: there is no answer */
    uint64_t retry_after_s; /* 0: the answer does not say */
    char error[160];        /* why there is no answer */
    char body[1024];        /* of the answer, cut */
};
void otlp_http_post(struct otlp_http *http, const char *text, struct otlp_answer *answer);

#endif
