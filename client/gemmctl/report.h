/*
 * report.h - what gemmctl gemm says about a result.
 */
#ifndef GEMMCTL_REPORT_H
#define GEMMCTL_REPORT_H

#include "client/gemmctl/command.h"

/* A line on standard error, the stages too with --timing; with --json an object on standard
 * output instead. */
void report_result(const struct context *context, const struct gemmd_result *result,
                   const char *path);

#endif
