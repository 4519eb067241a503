#include "client/gemmctl/array_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/check.h"
#include "client/gemmctl/destination.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/random_operands.h"

/* The operands of a run. */
struct array_operands {
    struct tensor_files files;
    struct tensor bound[TENSOR_FILES_MAX];
    void *random[TENSOR_FILES_MAX]; /* data of random operands */
    struct tensor resident[TENSOR_FILES_MAX];
    const struct tensor *is_resident[TENSOR_FILES_MAX]; /* NULL: the operand is not resident */
};

static int array_check_options(const struct context *context, const struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    char problem[PROBLEM_MAX];
    if (arguments->operand_count > 0 || arguments->values[OPTION_RANDOM] != NULL)
        return check_run_allows(context, destination);
    snprintf(problem, sizeof problem,
             "an operand is missing; usage: gemmctl %s %s, or gemmctl %s --random SHAPE",
             arguments->command->name, arguments->command->usage, arguments->command->name);
    return fail_usage(context, problem);
}

/* Reads --random, and sets the sizes of the request. */
static enum gemmd_error array_read_random(const struct context *context,
                                          const struct array_command *command, void *request,
                                          uint64_t *seed, struct fault *fault)
{
    const struct arguments *arguments = context->arguments;
    const char *text = arguments->values[OPTION_RANDOM];
    uint64_t sizes[TENSOR_MAX_RANK];
    enum gemmd_error code = random_seed(arguments, seed, fault);
    if (code != GEMMD_OK || text == NULL)
        return code;
    if (arguments->operand_count > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random makes the operands; name no files besides");
    const uint32_t rank = random_sizes(text, sizes);
    if (rank == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random is '%.64s'; it must be a shape of 1 to %d whole numbers, such "
                         "as 64x1000",
                         text, TENSOR_MAX_RANK);
    return command->set_random(request, sizes, rank, fault);
}

/* Makes the operands that the request wants and that have no file. */
static enum gemmd_error array_make_random(const struct array_command *command, const void *request,
                                          uint64_t seed, struct array_operands *operands,
                                          struct fault *fault)
{
    const struct operand_table *table = command->files->table;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < table->count && code == GEMMD_OK; i++) {
        struct tensor *tensor = &operands->bound[i];
        if (operand_is_there(tensor) || !table->is_wanted(request, i))
            continue;
        if (!table->shape(request, i, tensor))
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "an operand has more than 2^63 bytes");
        code = random_fill(tensor, table->count * seed + i, fault);
        operands->random[i] = (void *)tensor->data;
    }
    if (code == GEMMD_OK && command->choose_random != NULL)
        command->choose_random(request, operands->bound);
    return code;
}

/* Returns the operand whose safetensors file also holds the operands without files; the number of
 * operands if there is no such file. */
static uint32_t array_together(const struct array_command *command,
                               const struct destination *destination,
                               const char *const paths[TENSOR_FILES_MAX],
                               const struct tensor *const residents[TENSOR_FILES_MAX])
{
    const struct tensor_files_kind *kind = command->files;
    const char *path = paths[command->first];
    bool holds_all = true;
    if (kind->one_suffices)
        holds_all = path != NULL &&
                    formats_in(&destination->formats, path, FORMAT_NPY) == FORMAT_SAFETENSORS;
    else
        for (uint32_t i = 0; i < kind->table->count; i++)
            if (i != command->first && (command->residents & 1u << i) != 0)
                holds_all = holds_all && paths[i] == NULL && residents[i] == NULL;
    return path != NULL && holds_all ? command->first : kind->table->count;
}

/* Finds the operands, and completes the request with their types and shapes. */
static enum gemmd_error array_open(const struct context *context,
                                   const struct array_command *command,
                                   const struct destination *destination, void *request,
                                   const char *const paths[TENSOR_FILES_MAX],
                                   struct array_operands *operands, struct fault *fault)
{
    struct tensor_files_wanted wanted = {
        .kind = command->files,
        .request = request,
        .together = array_together(command, destination, paths, operands->is_resident),
        .format = destination->formats.in_given ? &destination->formats.in : NULL,
    };
    uint64_t seed;
    memcpy(wanted.paths, paths, sizeof wanted.paths);
    enum gemmd_error code = command->settle_residents(request, operands->is_resident, fault);
    if (code == GEMMD_OK)
        code = array_read_random(context, command, request, &seed, fault);
    if (code == GEMMD_OK)
        code = tensor_files_open(&operands->files, &wanted, fault);
    if (code != GEMMD_OK)
        return code;
    memcpy(operands->bound, operands->files.tensors, sizeof operands->bound);
    if (context->arguments->values[OPTION_RANDOM] != NULL)
        code = array_make_random(command, request, seed, operands, fault);
    if (code == GEMMD_OK)
        code = command->bind(request, operands->bound, fault);
    return code == GEMMD_OK ? tensor_files_make_row_major(&operands->files, command->files,
                                                          operands->bound, fault)
                            : code;
}

static void array_close(struct array_operands *operands)
{
    tensor_files_close(&operands->files);
    for (int i = 0; i < TENSOR_FILES_MAX; i++)
        free(operands->random[i]);
}

static double bytes_of(const struct array_operands *operands, uint32_t count,
                       const struct tensor *y)
{
    double bytes = (double)y->bytes;
    for (uint32_t i = 0; i < count; i++)
        bytes += (double)(operands->is_resident[i] != NULL        ? operands->resident[i].bytes
                          : operand_is_there(&operands->bound[i]) ? operands->bound[i].bytes
                                                                  : 0);
    return bytes;
}

/* An operation from the command line to the result. */
struct array_run {
    const struct array_command *command;
    void *request;
    struct array_operands operands;
    struct destination destination;
    struct tensor y; /* type and shape of the result */
    struct array_call call;
    struct gemmd_result result;
};

static enum gemmd_error array_compare(const void *argument, struct progress_line *line,
                                      struct check *check)
{
    const struct array_run *run = argument;
    return run->command->check(&run->call, line, check);
}

/* Writes the indices of the element: "at [0, 3, 4]". */
static void array_where(const void *argument, uint64_t at, char *out, size_t room)
{
    const struct tensor *y = &((const struct array_run *)argument)->y;
    uint64_t indices[TENSOR_MAX_RANK] = {0};
    size_t length = 0;
    for (uint32_t i = y->rank; i > 0; i--) {
        indices[i - 1] = at % y->dims[i - 1];
        at /= y->dims[i - 1];
    }
    for (uint32_t i = 0; i < y->rank && length < room; i++)
        length += (size_t)snprintf(out + length, room - length, "%s%llu%s", i == 0 ? "at [" : ", ",
                                   (unsigned long long)indices[i], i + 1 == y->rank ? "]" : "");
}

enum gemmd_error array_command_set_shape(struct array_shape *shape, const uint64_t *sizes,
                                         uint32_t rank, struct fault *fault)
{
    if (shape->rank > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets the shape; leave out --shape");
    shape->rank = rank;
    memcpy(shape->dims, sizes, rank * sizeof *sizes);
    return GEMMD_OK;
}

/* Asks the daemon for the operands that are tensors there. Such an operand has no path afterwards.
 */
static enum gemmd_error array_look_at_residents(struct gemmd_client *client, struct array_run *run,
                                                const char *paths[TENSOR_FILES_MAX],
                                                struct gemmd_error_info *error)
{
    const struct array_command *command = run->command;
    const struct operand_table *table = command->files->table;
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < table->count && code == GEMMD_OK; i++)
        if ((command->residents & 1u << i) != 0)
            code = resident_take(client, command->parameters, run->request, table->operands[i].name,
                                 &paths[i], &run->operands.resident[i],
                                 &run->operands.is_resident[i], error);
    return code;
}

/* Reads the parameters and the operands, and fills in run->call but for the result's room. Returns
 * EXIT_OK; on failure prints the reason and returns the exit code. */
static int array_prepare(const struct context *context, struct gemmd_client *client,
                         struct array_run *run, const char *const given[TENSOR_FILES_MAX])
{
    const char *paths[TENSOR_FILES_MAX];
    struct gemmd_error_info error;
    struct fault fault = {0};
    char problem[PROBLEM_MAX];
    memcpy(paths, given, sizeof paths);
    if (parameters_read(run->request, run->command->parameters, context->arguments, &fault) !=
        GEMMD_OK)
        return fail_fault(context, &fault);
    if (array_look_at_residents(client, run, paths, &error) != GEMMD_OK)
        return fail_request(context, &error);
    if (array_open(context, run->command, &run->destination, run->request, paths, &run->operands,
                   &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (!run->command->result(run->request, &run->y)) {
        fault_set(&fault, GEMMD_ERR_MALFORMED, NULL, "the result has more than 2^63 bytes");
        return fail_fault(context, &fault);
    }
    run->call.job = run->destination.is_job;
    if (!destination_deadline(context, &run->destination, &run->call.timeout_ms, problem))
        return fail_usage(context, problem);
    return EXIT_OK;
}

/* Sends the request that array_prepare has made, checks the result if --check is given, and writes
 * and reports the result. Returns the exit code. */
static int array_compute(const struct context *context, struct gemmd_client *client,
                         struct array_run *run)
{
    const struct array_command *command = run->command;
    const bool checked = option_flag(context->arguments, OPTION_CHECK);
    struct gemmd_error_info error;
    struct fault fault = {0};
    struct check check;
    interrupt_watch(); /* from here on an interrupted command has to remove a temporary file */
    if (destination_open(&run->destination, run->operands.files.format, command->result_name,
                         &run->y, &run->call.y, &run->call.y_bytes, &fault) != GEMMD_OK)
        return fail_fault(context, &fault);
    if (await(context, command->submit(client, &run->call, &error), &run->result, &error) !=
        GEMMD_OK)
        return fail_request(context, &error);
    if (checked) {
        int code =
            check_run(context, command->result_title, array_compare, array_where, run, &check);
        if (code != EXIT_OK)
            return code;
    }
    const struct report_work work = {
        .name = command->result_title,
        .flops = command->flops != NULL ? command->flops(run->request) : 0,
        .bytes = bytes_of(&run->operands, command->files->table->count, &run->y),
        .check = checked ? &check : NULL,
    };
    return destination_commit(context, &run->destination, &run->result, &work);
}

int array_command_run(const struct context *context, const struct array_command *command,
                      void *request, const char *const paths[TENSOR_FILES_MAX])
{
    struct array_run run = {.command = command, .request = request};
    run.call = (struct array_call){.request = request, .operands = run.operands.bound};
    int code = destination_choose(context, &run.destination);
    if (code == EXIT_OK)
        code = array_check_options(context, &run.destination);
    if (code != EXIT_OK)
        return code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    gemmd_result_init(&run.result, sizeof run.result);
    code = array_prepare(context, client, &run, paths);
    if (code == EXIT_OK)
        code = array_compute(context, client, &run);
    destination_close(&run.destination, &run.result);
    array_close(&run.operands);
    gemmd_client_free(client);
    return code;
}
