/*
 * check_run.h - the option --check of a command: what the option excludes, and the sentence about a
 * result that is wrong.
 */
#ifndef GEMMCTL_CHECK_RUN_H
#define GEMMCTL_CHECK_RUN_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/progress.h"

/* Refuses --check if the result is not fetched, or an operand is a tensor on the daemon. Returns
 * EXIT_OK, or prints a sentence and returns the exit code. */
int check_run_allows(const struct context *context, const struct destination *destination);

/* Compares a result by one of the check_... functions, which gets `argument`. */
typedef enum gemmd_error check_run_compare(const void *argument, struct progress_line *line,
                                           struct check *check);
/* Writes where the element at the index `at` of the result is, for example "in row 3". */
typedef void check_run_where(const void *argument, uint64_t at, char *out, size_t room);

/* Compares the result, which is called `name`, and shows progress. Returns EXIT_OK if the result is
 * right; otherwise prints a sentence and returns the exit code. */
int check_run(const struct context *context, const char *name, check_run_compare *compare,
              check_run_where *where, const void *argument, struct check *check);

#endif
