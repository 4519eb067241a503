/* gemmctl job status, wait, result, cancel and ls. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/fetch.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"
#include "client/gemmctl/report.h"
#include "client/gemmctl/units.h"

/* Returns a new object with the members id, state, op, request_id, created, queued_ms and, once the
 * daemon reports them, running_ms, http_status, bytes and expires. NULL: out of memory. */
static json_t *job_describe(const struct gemmd_job *job)
{
    json_t *object =
        json_pack("{s:o, s:s, s:o}", "id", print_text(job->id), "state",
                  gemmd_job_state_name(job->state), "request_id", print_text(job->request_id));
    if (object == NULL)
        return NULL;
    if (job->op[0] != '\0')
        json_object_set_new(object, "op", print_text(job->op));
    if (job->created[0] != '\0')
        json_object_set_new(object, "created", print_text(job->created));
    if (job->expires[0] != '\0')
        json_object_set_new(object, "expires", print_text(job->expires));
    if (job->queued_ms >= 0)
        json_object_set_new(object, "queued_ms", json_real(job->queued_ms));
    if (job->running_ms >= 0)
        json_object_set_new(object, "running_ms", json_real(job->running_ms));
    if (job->http_status != 0) {
        json_object_set_new(object, "http_status", json_integer(job->http_status));
        json_object_set_new(object, "bytes", json_integer((json_int_t)job->bytes));
    }
    return object;
}

static void print_description(const struct gemmd_job *job)
{
    json_t *root = json_pack("{s:i}", "version", PRINT_JSON_VERSION), *members = job_describe(job);
    if (root != NULL && members != NULL)
        json_object_update(root, members);
    json_decref(members);
    print_json(root);
}

static int report_status(const struct context *context, const struct gemmd_job *job)
{
    if (option_flag(context->arguments, OPTION_JSON))
        print_description(job);
    else
        puts(gemmd_job_state_name(job->state));
    return EXIT_OK;
}

static int print_status(const struct context *context, struct gemmd_client *client,
                        struct gemmd_job *job)
{
    struct gemmd_error_info error;
    job->size = sizeof *job;
    if (gemmd_job_status(client, context->arguments->operands[0], NULL, job, &error) != GEMMD_OK)
        return fail_request(context, &error);
    return report_status(context, job);
}

int command_job_status(const struct context *context)
{
    struct gemmd_job job;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    code = print_status(context, client, &job);
    gemmd_client_free(client);
    return code;
}

int command_job_wait(const struct context *context)
{
    const char *id = context->arguments->operands[0];
    struct gemmd_error_info error;
    struct gemmd_job job;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    enum gemmd_error waited =
        await(context, gemmd_job_wait_submit(client, id, NULL, &error), NULL, &error);
    /* Waiting fails for two reasons. If the job itself failed, the error has an HTTP status. If the
     * daemon could not be asked, the error has none. */
    if (waited != GEMMD_OK && error.http_status == 0) {
        code = fail_request(context, &error);
        goto done;
    }
    code = print_status(context, client, &job);
    if (code == EXIT_OK && job.state != GEMMD_JOB_DONE)
        code = EXIT_FAILED;

done:
    gemmd_client_free(client);
    return code;
}

int command_job_result(const struct context *context)
{
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.no_wait = 1;
    return fetch(context, gemmd_job_result_submit, &call, "c", OPTION_LSE);
}

int command_job_cancel(const struct context *context)
{
    const char *id = context->arguments->operands[0];
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    code = EXIT_OK;
    if (gemmd_job_cancel(client, id, NULL, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (option_flag(context->arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:o, s:b}", "version", PRINT_JSON_VERSION, "id", print_text(id),
                             "cancelled", 1));
    gemmd_client_free(client);
    return code;
}

/* ---- gemmctl job ls ---- */

static const struct table_column columns[] = {
    {"ID", false},    {"STATE", false},  {"OP", false},   {"AGE", true},
    {"QUEUED", true}, {"RUNNING", true}, {"BYTES", true}, {"EXPIRES IN", true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* The state of printing the list, as a table or as a JSON array. */
struct listing {
    struct table table;
    json_t *array; /* NULL: the list is printed as a table */
    time_t now;
};

/* Reads a time such as "2026-11-21T10:00:00.123Z". False: the text is not one. */
static bool read_time(const char *text, time_t *seconds)
{
    struct tm utc = {0};
    if (strptime(text, "%Y-%m-%dT%H:%M:%S", &utc) == NULL)
        return false;
    *seconds = timegm(&utc);
    return true;
}

/* Writes how far `from` is before `to`, or "" if a time is not known. The clocks of two hosts may
 * differ, so the distance is never negative. */
static void write_distance(const char *text, time_t now, bool ahead, char out[UNITS_ROOM])
{
    time_t then;
    out[0] = '\0';
    if (!read_time(text, &then))
        return;
    const double seconds = ahead ? difftime(then, now) : difftime(now, then);
    units_duration(seconds > 0 ? seconds : 0, out);
}

static void add_row(struct listing *listing, const struct gemmd_job *job)
{
    char age[UNITS_ROOM], queued[UNITS_ROOM] = "", running[UNITS_ROOM] = "", expires[UNITS_ROOM];
    char bytes[24] = "";
    write_distance(job->created, listing->now, false, age);
    write_distance(job->expires, listing->now, true, expires);
    if (job->queued_ms >= 0)
        units_duration(job->queued_ms / 1000, queued);
    if (job->running_ms >= 0)
        units_duration(job->running_ms / 1000, running);
    if (job->http_status != 0)
        snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)job->bytes);
    const char *const cells[COLUMNS] = {job->id[0] != '\0' ? job->id : "-",
                                        gemmd_job_state_name(job->state),
                                        job->op,
                                        age,
                                        queued,
                                        running,
                                        bytes,
                                        expires};
    table_add(&listing->table, cells);
}

static void list_job(const struct gemmd_job *job, void *user)
{
    struct listing *listing = user;
    if (listing->array != NULL)
        json_array_append_new(listing->array, job_describe(job));
    else
        add_row(listing, job);
}

int command_job_ls(const struct context *context)
{
    const bool json = option_flag(context->arguments, OPTION_JSON);
    struct listing listing = {.array = json ? json_array() : NULL, .now = time(NULL)};
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    table_start(&listing.table, columns, COLUMNS);
    if (client == NULL)
        goto done;
    code = EXIT_OK;
    if (gemmd_job_list(client, list_job, &listing, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (json)
        print_json(json_pack("{s:i, s:O}", "version", PRINT_JSON_VERSION, "jobs", listing.array));
    else
        code = report_table(context, &listing.table, "there are no jobs");

done:
    json_decref(listing.array);
    table_free(&listing.table);
    gemmd_client_free(client);
    return code;
}
