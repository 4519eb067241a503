/* job_view.h - the descriptions of jobs in JSON, as clients get them. Pure. */
#ifndef SERVER_JOBS_JOB_VIEW_H
#define SERVER_JOBS_JOB_VIEW_H

#include <stdint.h>

#include "server/jobs/job.h"

enum { JOB_VIEW_TEXT_MAX = 1024 };

/* Writes a JSON object, a newline and a terminating null byte, which always fit. Returns the length
 * of the text. */
uint64_t job_view_json(const struct job_view *view, char text[JOB_VIEW_TEXT_MAX]);
/* Describes a page of jobs: {"jobs": [...], "next"}. "next" is where the next page begins, as text,
 * or null if `next` is 0. `with_ids`: the descriptions have the jobs' ids. Returns a new string,
 * which the caller frees; NULL: out of memory. */
char *job_view_page(const struct job_view views[], uint32_t count, uint64_t next, bool with_ids);

#endif
