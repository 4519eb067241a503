/* gemmctl job status, wait, result and cancel. job_list.c has gemmctl job ls. */
#include <stdio.h>
#include <string.h>

#include "client/gemmctl/await.h"
#include "client/gemmctl/command.h"
#include "client/gemmctl/fetch.h"
#include "client/gemmctl/job_describe.h"
#include "client/gemmctl/print.h"

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
    return fetch(context, submit_result, "c", OPTION_LSE);
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
        print_json(
            json_pack("{s:i, s:s, s:b}", "version", PRINT_JSON_VERSION, "id", id, "cancelled", 1));
    gemmd_client_free(client);
    return code;
}
