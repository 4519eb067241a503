/* gemmctl job ls. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/job_describe.h"
#include "client/gemmctl/print.h"
#include "client/gemmctl/print_table.h"
#include "client/gemmctl/units.h"

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
        code = print_table(context, &listing.table, "there are no jobs");

done:
    json_decref(listing.array);
    table_free(&listing.table);
    gemmd_client_free(client);
    return code;
}
