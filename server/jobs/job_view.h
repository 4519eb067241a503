/* job_view.h - a job's description as clients see it. Pure. */
#ifndef SERVER_JOBS_JOB_VIEW_H
#define SERVER_JOBS_JOB_VIEW_H

#include <stdint.h>

#include "server/jobs/jobs.h"

enum { JOB_VIEW_TEXT_MAX = 1024 };

/* Writes a JSON object with a line's end, terminated; returns its length. Always fits. */
uint64_t job_view_json(const struct job_view *view, char text[JOB_VIEW_TEXT_MAX]);

#endif
