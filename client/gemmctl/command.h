/*
 * command.h - gemmctl's commands, and the functions that all of them use.
 *
 * Results go to standard output, and all other texts to standard error. Every command returns an
 * exit code.
 */
#ifndef GEMMCTL_COMMAND_H
#define GEMMCTL_COMMAND_H

#include <gemmd/gemmd.h>
#include <jansson.h>

#include "client/gemmctl/options.h"
#include "client/gemmctl/terminal.h"
#include "proto/error.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,        /* the daemon could not compute, or the result could not be written */
    EXIT_USAGE = 2,         /* the command line or an input file is wrong */
    EXIT_REFUSED = 3,       /* 429 or 503, also after the repeats; or a job is not done yet */
    EXIT_NETWORK = 4,       /* no connection to the daemon, or the time ran out */
    EXIT_MISMATCH = 5,      /* the result did not pass --verify or --check */
    EXIT_INTERRUPTED = 130, /* Ctrl-C */
    EXIT_PIPE = 141         /* the reader of standard output has left; nothing is said about that */
};

struct context {
    const struct command *commands; /* all there are */
    const struct arguments *arguments;
    const struct completion_script *scripts; /* what "gemmctl completion" prints */
    struct terminal terminal;
};

/* Each function prints a sentence on standard error and returns the exit code. With --json all but
 * fail_sentence and fail_named also print {"error": {...}} on standard output, in place of the
 * result. */
int fail_usage(const struct context *context, const char *sentence);
int fail_fault(const struct context *context, const struct fault *fault);
int fail_sentence(const struct context *context, const struct gemmd_error_info *error);
/* As fail_sentence, with a name and a colon before the sentence; NULL: no name. */
int fail_named(const struct context *context, const char *name,
               const struct gemmd_error_info *error);
int fail_request(const struct context *context, const struct gemmd_error_info *error);

/* Describes an error as a new JSON object. NULL: out of memory. */
json_t *fail_describe(const struct gemmd_error_info *error);
enum exit_code exit_code_of(const struct gemmd_error_info *error);

/* What a user can do about an error. The daemon and the library speak of headers, parameters and
 * structures; a hint speaks of options and commands. */

/* Returns a clause to append to the error's sentence; NULL: there is none. A static string. */
const char *hint_for(const struct context *context, const struct gemmd_error_info *error);

/* Writes the sentence of a fault that gemmctl has found in a parameter, with the name of the option
 * in place of the parameter's at the front of the sentence: "--kv-heads is '0'" for "kv_heads is
 * '0'". The name of a size that a file's shape contradicts stays, unless the command line has the
 * option. */
void hint_option_sentence(const struct context *context, const struct fault *fault, char *out,
                          size_t room);

/* The default of --retries of every command that does not ask about the daemon of this moment. */
enum { COMMAND_RETRIES = 4 };

/* Makes a client from the options. `retries` is the default of --retries; `in_flight` is the number
 * of the client's connections, 0 for the library's default. On failure prints the reason, sets
 * `*exit_code` and returns NULL. */
struct gemmd_client *command_client(const struct context *context, uint32_t retries,
                                    uint32_t in_flight, int *exit_code);
/* Removes what the operands of the command name by `delete`, such as gemmd_tensor_delete. An error
 * is printed, the others are removed, and the exit code is that of the first error. */
int remove_all(const struct context *context,
               enum gemmd_error (*delete)(struct gemmd_client *client, const char *name,
                                          const struct gemmd_call *call,
                                          struct gemmd_error_info *error));

int command_gemm(const struct context *context);
int command_attention(const struct context *context);
int command_conv(const struct context *context);
int command_reduce(const struct context *context);
int command_softmax(const struct context *context);
int command_experts(const struct context *context);
int command_tensor_put(const struct context *context);
int command_tensor_get(const struct context *context);
int command_tensor_ls(const struct context *context);
int command_tensor_rm(const struct context *context);
int command_sequence_put(const struct context *context);
int command_sequence_fork(const struct context *context);
int command_sequence_append(const struct context *context);
int command_sequence_get(const struct context *context);
int command_sequence_truncate(const struct context *context);
int command_sequence_ls(const struct context *context);
int command_sequence_rm(const struct context *context);
int command_job_status(const struct context *context);
int command_job_wait(const struct context *context);
int command_job_result(const struct context *context);
int command_job_cancel(const struct context *context);
int command_job_ls(const struct context *context);
int command_bench(const struct context *context); /* of every operation */
int command_ladder(const struct context *context);
int command_info(const struct context *context);
int command_metrics(const struct context *context);
int command_ready(const struct context *context);
int command_ping(const struct context *context);
int command_version(const struct context *context);
int command_completion(const struct context *context);
int command_top(const struct context *context);
int command_help(const struct context *context);

extern const struct command commands[];

#endif
