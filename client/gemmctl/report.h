/*
 * report.h - what gemmctl says about results.
 *
 * With --json an object on standard output, whose `version` changes when a member changes its
 * meaning or goes.
 */
#ifndef GEMMCTL_REPORT_H
#define GEMMCTL_REPORT_H

#include "client/gemmctl/command.h"

/* A line on standard error, the stages too with --timing; with --json an object on standard
 * output instead. */
void report_result(const struct context *context, const struct gemmd_result *result,
                   const char *path);
/* What became of a tensor that was put or stored: a line on standard output. Both return the exit
 * code. */
int report_stored(const struct context *context, const struct gemmd_result *result,
                  const char *name);
/* The id of a job, alone on a line of standard output. */
int report_job_taken(const struct context *context, const struct gemmd_result *result);

/* "2x3" */
enum { REPORT_SHAPE_ROOM = 8 * 21 };
const char *report_shape(uint32_t rank, const uint64_t *dims, char out[REPORT_SHAPE_ROOM]);

#endif
