/* gemmctl job status, wait, result and cancel. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/fetch.h"
#include "client/gemmctl/report.h"

static void print_json(const struct gemmd_job *job)
{
    json_t *root = json_pack("{s:i, s:s, s:s, s:s}", "version", 1, "id", job->id, "state",
                             gemmd_job_state_name(job->state), "request_id", job->request_id);
    if (root != NULL && job->created[0] != '\0')
        json_object_set_new(root, "created", json_string(job->created));
    if (root != NULL && job->expires[0] != '\0')
        json_object_set_new(root, "expires", json_string(job->expires));
    if (root != NULL && job->queued_ms >= 0)
        json_object_set_new(root, "queued_ms", json_real(job->queued_ms));
    if (root != NULL && job->running_ms >= 0)
        json_object_set_new(root, "running_ms", json_real(job->running_ms));
    if (root != NULL && job->http_status != 0) {
        json_object_set_new(root, "http_status", json_integer(job->http_status));
        json_object_set_new(root, "bytes", json_integer((json_int_t)job->bytes));
    }
    if (root != NULL && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0)
        putchar('\n');
    json_decref(root);
}

static int report_status(const struct context *context, const struct gemmd_job *job)
{
    if (option_flag(context->arguments, OPTION_JSON))
        print_json(job);
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
    struct gemmd_client *client = command_client(context, 4, 1, &code);
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
    struct gemmd_client *client = command_client(context, 4, 1, &code);
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

static struct gemmd_request *submit_result(struct gemmd_client *client, const char *id,
                                           struct gemmd_error_info *error)
{
    struct gemmd_call call;
    gemmd_call_init(&call, sizeof call);
    call.no_wait = 1;
    return gemmd_job_result_submit(client, id, &call, error);
}

int command_job_result(const struct context *context)
{
    return fetch(context, submit_result, "c");
}

int command_job_cancel(const struct context *context)
{
    const char *id = context->arguments->operands[0];
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    code = EXIT_OK;
    if (gemmd_job_cancel(client, id, NULL, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else if (option_flag(context->arguments, OPTION_JSON))
        printf("{\"version\": 1, \"id\": \"%s\", \"cancelled\": true}\n", id);
    gemmd_client_free(client);
    return code;
}
