/* job_view.h - the description of a job in JSON, as clients get it. Pure. */
#ifndef SERVER_JOBS_JOB_VIEW_H
#define SERVER_JOBS_JOB_VIEW_H

#include <stdint.h>

#include "server/jobs/jobs.h"

enum { JOB_VIEW_TEXT_MAX = 1024 };

/* Writes a JSON object, a newline and a terminating null byte, which always fit. Returns the length
 * of the text. */
uint64_t job_view_json(const struct job_view *view, char text[JOB_VIEW_TEXT_MAX]);

#endif
