/*
 * array_command.h - what the commands conv, reduce, softmax and experts have in common: files or
 * random operands in, one request, the result out. gemm.c and attention.c have commands of their
 * own.
 */
#ifndef GEMMCTL_ARRAY_COMMAND_H
#define GEMMCTL_ARRAY_COMMAND_H

#include "client/gemmctl/check.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/tensor_files.h"
#include "proto/array_shape.h"
#include "proto/parameter.h"

/* The request that a command sends, with all operands and sizes known. */
struct array_call {
    const void *request;
    const struct tensor *operands; /* in the order of the operands' table; rank 0: resident, or
                                      absent */
    void *y;                       /* where the result goes; NULL: the result is not fetched */
    uint64_t y_bytes;
    uint32_t timeout_ms; /* deadline of a job; 0: the daemon's default */
    bool job;
    void *user; /* what gemmd_request_user returns of the request */
};

/* What differs between the commands. `request` is the operation's own struct, such as struct
 * reduce_request, with the parameters of the command line. Functions that can fail leave a sentence
 * in `fault`. */
struct array_command {
    const struct tensor_files_kind *files;
    const struct parameter_table *parameters;
    const char *result_name, *result_title; /* of the result, in files and in messages: "y", "Y" */
    uint32_t first;     /* the operand that the first word of the command line names */
    uint32_t residents; /* the operands that can be tensors on the daemon, a bit each */
    /* Completes the request with the type and the sizes of the operands that are such tensors;
     * NULL: not resident. */
    enum gemmd_error (*settle_residents)(void *request, const struct tensor *const residents[],
                                         struct fault *fault);
    /* Sets the sizes from those of --random, of which there are `rank`. */
    enum gemmd_error (*set_random)(void *request, const uint64_t *sizes, uint32_t rank,
                                   struct fault *fault);
    /* Makes the random operands such as the request needs them. NULL: they are. */
    void (*choose_random)(const void *request, struct tensor *operands);
    /* Completes the request with types and shapes of the operands. */
    enum gemmd_error (*bind)(void *request, struct tensor *operands, struct fault *fault);
    /* Sets `y` to the type and shape of the result. False on overflow. */
    bool (*result)(const void *request, struct tensor *y);
    /* Starts the request; NULL with `error` filled in on failure. */
    struct gemmd_request *(*submit)(struct gemmd_client *client, const struct array_call *call,
                                    struct gemmd_error_info *error);
    double (*flops)(const void *request); /* NULL: the work is measured in bytes */
    /* Compares the result with a reference. NULL: the command has no option --check. */
    enum gemmd_error (*check)(const struct array_call *call, struct progress_line *line,
                              struct check *check);
};

extern const struct array_command conv_command, reduce_command, softmax_command, experts_command;

/* Sets the shape of X to the sizes of --random, of which there are `rank`. GEMMD_ERR_MALFORMED: the
 * command line has --shape too. */
enum gemmd_error array_command_set_shape(struct array_shape *shape, const uint64_t *sizes,
                                         uint32_t rank, struct fault *fault);

/* Runs the command. `request` has the defaults; `paths` are the files of the operands, in the order
 * of their table, NULL for those that the command line does not name. Returns the exit code. */
int array_command_run(const struct context *context, const struct array_command *command,
                      void *request, const char *const paths[TENSOR_FILES_MAX]);

#endif
