/*
 * report.h - prints the descriptions of results, and tables.
 *
 * With --json a description is a JSON object on standard output (print.h).
 */
#ifndef GEMMCTL_REPORT_H
#define GEMMCTL_REPORT_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/table.h"

/* What gemmctl knows of a result and the daemon's answer does not have. */
struct report_work {
    const char *name;          /* of the result: "C" */
    double flops;              /* floating-point operations of the request; 0: see `bytes` */
    double bytes;              /* bytes of operands and result, if `flops` is 0 */
    const struct check *check; /* of --check; NULL: the result was not checked */
    const char *scale_path;    /* the file with the scales of the result; NULL: they were not
                                  written, or there are none */
};

/* Describes a result that was written to `path`, NULL if it was dropped: a line on standard error,
 * or with --json an object on standard output. With --timing prints the stages on standard error
 * too. */
void report_result(const struct context *context, const struct gemmd_result *result,
                   const char *path, const struct report_work *work);
/* Describes a tensor that was put or stored, on standard output. Returns the exit code. */
int report_stored(const struct context *context, const struct gemmd_result *result,
                  const char *name);
/* Prints the id of a job that was handed in, alone on a line of standard output. Returns the exit
 * code. */
int report_job_taken(const struct context *context, const struct gemmd_result *result);

/* Prints a table on standard output. If the table has no rows, prints the sentence `empty` on
 * standard error, unless
 * --quiet is given. Returns the exit code. */
int report_table(const struct context *context, const struct table *table, const char *empty);

/* Writes a shape to `out`, for example "2x3", and returns `out`. */
enum { REPORT_SHAPE_ROOM = 8 * 21 };
const char *report_shape(uint32_t rank, const uint64_t *dims, char out[REPORT_SHAPE_ROOM]);

#endif
