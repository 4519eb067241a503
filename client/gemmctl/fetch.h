/*
 * fetch.h - fetches a tensor, or the result of a job, from the daemon to a file or a pipe.
 */
#ifndef GEMMCTL_FETCH_H
#define GEMMCTL_FETCH_H

#include "client/gemmctl/command.h"

/* Starts the request that fetches `what`, a tensor's name or a job's id: gemmd_tensor_get_submit()
 * or gemmd_job_result_submit(). */
typedef struct gemmd_request *fetch_submit(struct gemmd_client *client, const char *what,
                                           const struct gemmd_call *call,
                                           struct gemmd_error_info *error);

/* Fetches the command's operand by `submit`, with the options `call`, and writes it to --output, or
 * standard output, in the format of the options. A safetensors file calls the result `name`.
 * `beside` is the option that names a file for an array that comes with the result: OPTION_LSE for
 * the lse of a job's attention, or OPTION_SCALE for the scales of a tensor. Without --scale, a
 * safetensors file holds tensor and scales; a file of another format lacks the scales, which is
 * said on standard error. The result of a job that was stored on the daemon
 * (--store) is not fetched but described. Returns the exit code. */
int fetch(const struct context *context, fetch_submit *submit, const struct gemmd_call *call,
          const char *name, enum option_id beside);

#endif
