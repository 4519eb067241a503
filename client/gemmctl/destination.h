/*
 * destination.h - where the result of a product or an attention goes: a file, a pipe, a tensor on
 * the daemon, or nowhere yet, because it is a job's.
 */
#ifndef GEMMCTL_DESTINATION_H
#define GEMMCTL_DESTINATION_H

#include "client/gemmctl/formats.h"
#include "client/gemmctl/output.h"

struct destination {
    const char *path;     /* NULL: it is not fetched */
    const char *lse_path; /* of an attention; NULL: it is not wanted */
    bool is_job;
    bool with_lse; /* it is computed: for lse_path, or for whoever fetches the job's result */
    struct formats formats;
    struct output output, lse; /* to be closed in any case */
};

/* Reads --output, --lse, --with-lse, --store, --async and the formats. EXIT_OK, or the exit code
 * after saying why not. */
int destination_choose(const struct context *context, struct destination *destination);
/* A job's deadline is its own, not that of handing it in: sets it if it is a job. False with a
 * sentence. */
bool destination_deadline(const struct context *context, const struct destination *destination,
                          uint32_t *timeout_ms, char problem[PROBLEM_MAX]);
/* Makes room for the result, if it is fetched, in a file that calls it `name`; one whose name tells
 * no format has `otherwise`. Sets *data and *bytes. */
enum gemmd_error destination_open(struct destination *destination, enum format otherwise,
                                  const char *name, const struct tensor *result, void **data,
                                  uint64_t *bytes, struct fault *fault);
/* The same of lse, if it is wanted. */
enum gemmd_error destination_open_lse(struct destination *destination, enum format otherwise,
                                      const struct tensor *lse, void **data, uint64_t *bytes,
                                      struct fault *fault);
/* The request is done: makes the files appear, says what there is, and returns the exit code. */
int destination_commit(const struct context *context, struct destination *destination,
                       const struct gemmd_result *result);
/* Releases everything, and what `result` has where nothing was opened. */
void destination_close(struct destination *destination, struct gemmd_result *result);

#endif
