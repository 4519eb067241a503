/*
 * fetch.h - a tensor or the result of a job, from the daemon to a file or a pipe.
 */
#ifndef GEMMCTL_FETCH_H
#define GEMMCTL_FETCH_H

#include "client/gemmctl/command.h"

/* NULL on failure: `error` says why. */
typedef struct gemmd_request *fetch_submit(struct gemmd_client *client, const char *what,
                                           struct gemmd_error_info *error);

/* Fetches the command's operand by `submit`, to --output or standard output in the format that is
 * asked for; safetensors call it `name`. --lse takes what an attention's job has beside it. What
 * stays on the daemon (--store) is described instead. Returns the exit code. */
int fetch(const struct context *context, fetch_submit *submit, const char *name);

#endif
