/*
 * destination.h - where the result of an operation goes: to a file, a pipe, or a tensor on the
 * daemon; or nowhere yet, if the request is handed in as a job.
 */
#ifndef GEMMCTL_DESTINATION_H
#define GEMMCTL_DESTINATION_H

#include "client/gemmctl/formats.h"
#include "client/gemmctl/output.h"
#include "client/gemmctl/report.h"

struct destination {
    const char *path;     /* file of the result; NULL: the result goes to no file */
    const char *lse_path; /* file of an attention's lse; NULL: lse is not written */
    bool is_job;
    bool dropped;  /* the result is fetched to memory, and then dropped */
    void *memory;  /* of a result that is dropped */
    bool with_lse; /* lse is computed: for lse_path, or for a later fetch of the job's result */
    struct formats formats;
    struct output output, lse; /* destination_close closes both */
};

/* Reads --output, --lse, --with-lse, --store, --async and the formats. Returns EXIT_OK; if the
 * options are wrong, prints a sentence and returns the exit code. */
int destination_choose(const struct context *context, struct destination *destination);
/* If the request is handed in as a job, reads --timeout as the job's deadline into `*timeout_ms`.
 * Otherwise --timeout is the client's. False, with a sentence in `problem`, if --timeout is
 * malformed. */
bool destination_deadline(const struct context *context, const struct destination *destination,
                          uint32_t *timeout_ms, char problem[PROBLEM_MAX]);
/* If the result is fetched, opens its file or allocates memory, and sets *data and *bytes to the
 * room for the result. A safetensors file calls the result `name`. A file whose name tells no
 * format has the format `otherwise`. */
enum gemmd_error destination_open(struct destination *destination, enum format otherwise,
                                  const char *name, const struct tensor *result, void **data,
                                  uint64_t *bytes, struct fault *fault);
/* If lse is written, opens its file, with the rules of destination_open. */
enum gemmd_error destination_open_lse(struct destination *destination, enum format otherwise,
                                      const struct tensor *lse, void **data, uint64_t *bytes,
                                      struct fault *fault);
/* After the request: makes the files appear, reports the result, and returns the exit code. `work`
 * is what report_result takes. */
int destination_commit(const struct context *context, struct destination *destination,
                       const struct gemmd_result *result, const struct report_work *work);
/* Closes the files, and releases the buffers that the library allocated in `result`. */
void destination_close(struct destination *destination, struct gemmd_result *result);

#endif
