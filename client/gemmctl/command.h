/*
 * command.h - what gemmctl's commands share, and the commands.
 *
 * Results go to standard output, everything else to standard error. Each command returns one of
 * the exit codes.
 */
#ifndef GEMMCTL_COMMAND_H
#define GEMMCTL_COMMAND_H

#include <gemmd/gemmd.h>

#include "client/gemmctl/options.h"
#include "client/gemmctl/terminal.h"
#include "proto/error.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,       /* the daemon could not do it, or the result not be written */
    EXIT_USAGE = 2,        /* the command line or the input files are wrong */
    EXIT_REFUSED = 3,      /* 429 or 503, also after the repeats; or a job that is not done */
    EXIT_NETWORK = 4,      /* no connection, or the time ran out */
    EXIT_MISMATCH = 5,     /* the result did not pass `verify` */
    EXIT_INTERRUPTED = 130 /* Ctrl-C */
};

struct context {
    const struct arguments *arguments;
    struct terminal terminal;
};

/* Each prints its sentence and returns the exit code; all but fail_sentence print {"error": {...}}
 * on standard output, too, with --json, where the result would be. */
int fail_usage(const struct context *context, const char *sentence);
int fail_fault(const struct context *context, const struct fault *fault);
int fail_sentence(const struct context *context, const struct gemmd_error_info *error);
int fail_request(const struct context *context, const struct gemmd_error_info *error);

enum exit_code exit_code_of(const struct gemmd_error_info *error);

/* A client as the options say, with `retries` repeats and `in_flight` requests at once unless they
 * say otherwise; 0: the library's default. NULL after printing why; `*exit_code` is set then. */
struct gemmd_client *command_client(const struct context *context, uint32_t retries,
                                    uint32_t in_flight, int *exit_code);

int command_gemm(const struct context *context);
int command_attention(const struct context *context);
int command_tensor_put(const struct context *context);
int command_tensor_get(const struct context *context);
int command_tensor_ls(const struct context *context);
int command_tensor_rm(const struct context *context);
int command_job_status(const struct context *context);
int command_job_wait(const struct context *context);
int command_job_result(const struct context *context);
int command_job_cancel(const struct context *context);
int command_bench(const struct context *context);
int command_ladder(const struct context *context); /* of bench, with the operand "ladder" */
int command_info(const struct context *context);
int command_metrics(const struct context *context);
int command_ready(const struct context *context);
int command_help(const struct context *context);

extern const struct command commands[];

#endif
