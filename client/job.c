/* Jobs: status, wait, result, cancel, list. gemm.c and attention.c hand jobs in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/daemon.h"
#include "client/failure.h"
#include "client/payload.h"
#include "client/query.h"
#include "client/record.h"
#include "client/schedule.h"
#include "proto/number.h"

/* The longest wait of one request. A proxy may end a request that is silent for a minute. */
enum { WAIT_MS_MAX = 30000 };

static enum gemmd_error conclude_status(struct gemmd_request *request, struct answer *answer,
                                        const char *document, size_t bytes)
{
    json_t *object = json_loadb(document, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool right = daemon_read_job(object, &request->job);
    (void)answer;
    json_decref(object);
    return right ? GEMMD_OK
                 : failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                               "the daemon's answer does not describe a job");
}

/* The answer is 201 with a document if the job stored its result as a tensor. Otherwise the answer
 * is the result itself. */
static enum gemmd_error accept_result(struct gemmd_request *request, const struct answer *answer)
{
    return answer->status == 201 ? GEMMD_OK : payload_take_described(request, answer);
}

static enum gemmd_error accept_header(struct gemmd_request *request, const struct answer *answer)
{
    return answer->status == 201 ? GEMMD_OK : payload_describe(request, answer);
}

static const struct exchange status_exchange = {
    .method = "GET", .headers = HEADERS_PLAIN, .statuses = {200}, .conclude = conclude_status};
static const struct exchange wait_exchange = {.method = "HEAD",
                                              .headers = HEADERS_ACCEPT,
                                              .statuses = {200, 201},
                                              .time_parameter = "wait_ms",
                                              .time_max_ms = WAIT_MS_MAX,
                                              .missing = "there is no job of that id",
                                              .waits = true,
                                              .accept = accept_header};
static const struct exchange result_exchange = {.method = "GET",
                                                .headers = HEADERS_ACCEPT,
                                                .statuses = {200, 201},
                                                .time_parameter = "wait_ms",
                                                .time_max_ms = WAIT_MS_MAX,
                                                .waits = true,
                                                .accept = accept_result,
                                                .conclude = compute_conclude_stored};
/* Asks for a job's result without waiting for the job. */
static const struct exchange look_exchange = {.method = "GET",
                                              .headers = HEADERS_ACCEPT,
                                              .statuses = {200, 201},
                                              .accept = accept_result,
                                              .conclude = compute_conclude_stored};
static const struct exchange cancel_exchange = {
    .method = "DELETE", .headers = HEADERS_PLAIN, .statuses = {200, 202, 204}};

static struct gemmd_request *job_submit(struct gemmd_client *client,
                                        const struct exchange *exchange, const char *id,
                                        const char *part, const struct gemmd_call *given,
                                        struct gemmd_error_info *error)
{
    struct gemmd_call call;
    failure_clear(error);
    if (!request_call(&call, given, error) || query_check_job(id, error) != GEMMD_OK)
        return NULL;
    if (exchange == &result_exchange && call.no_wait != 0)
        exchange = &look_exchange;
    struct gemmd_request *request = request_new(client, exchange, &call, error);
    if (request == NULL)
        return NULL;
    snprintf(request->target, sizeof request->target, "/jobs/%s%s", id, part);
    schedule_submit(request);
    return request;
}

struct gemmd_request *gemmd_job_status_submit(struct gemmd_client *client, const char *id,
                                              const struct gemmd_call *call,
                                              struct gemmd_error_info *error)
{
    return job_submit(client, &status_exchange, id, "", call, error);
}

struct gemmd_request *gemmd_job_wait_submit(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call,
                                            struct gemmd_error_info *error)
{
    return job_submit(client, &wait_exchange, id, "/result", call, error);
}

struct gemmd_request *gemmd_job_result_submit(struct gemmd_client *client, const char *id,
                                              const struct gemmd_call *call,
                                              struct gemmd_error_info *error)
{
    return job_submit(client, &result_exchange, id, "/result", call, error);
}

struct gemmd_request *gemmd_job_cancel_submit(struct gemmd_client *client, const char *id,
                                              const struct gemmd_call *call,
                                              struct gemmd_error_info *error)
{
    return job_submit(client, &cancel_exchange, id, "", call, error);
}

enum gemmd_error gemmd_request_job(struct gemmd_request *request, struct gemmd_job *job,
                                   struct gemmd_error_info *error)
{
    if (request->exchange != &status_exchange)
        return failure_set(error, GEMMD_ERR_USAGE, NULL,
                           "the request was not made by gemmd_job_status_submit()");
    enum gemmd_error code = gemmd_request_result(request, NULL, error);
    if (code == GEMMD_OK)
        record_write(job, job->size, &request->job, sizeof request->job);
    return code;
}

enum gemmd_error gemmd_job_status(struct gemmd_client *client, const char *id,
                                  const struct gemmd_call *call, struct gemmd_job *job,
                                  struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_job_status_submit(client, id, call, error);
    if (request == NULL)
        return error->code;
    gemmd_wait(request, -1);
    enum gemmd_error code = gemmd_request_job(request, job, error);
    gemmd_request_free(request);
    return code;
}

enum gemmd_error gemmd_job_wait(struct gemmd_client *client, const char *id,
                                const struct gemmd_call *call, struct gemmd_result *result,
                                struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_job_wait_submit(client, id, call, error);
    return request_finish(request, result, error);
}

enum gemmd_error gemmd_job_result(struct gemmd_client *client, const char *id,
                                  const struct gemmd_call *call, struct gemmd_result *result,
                                  struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_job_result_submit(client, id, call, error);
    return request_finish(request, result, error);
}

enum gemmd_error gemmd_job_cancel(struct gemmd_client *client, const char *id,
                                  const struct gemmd_call *call, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_job_cancel_submit(client, id, call, error);
    return request_finish(request, NULL, error);
}

static bool read_job(json_t *description, void *item)
{
    return daemon_read_listed_job(description, item);
}

/* Pages are told apart by numbers, which become smaller. */
static bool is_older(const char *next, const char *after)
{
    uint64_t number, last = UINT64_MAX;
    if (after[0] != '\0' && !number_u64(after, &last))
        return false;
    return number_u64(next, &number) && number > 0 && number < last;
}

enum gemmd_error gemmd_job_list(struct gemmd_client *client,
                                void (*each)(const struct gemmd_job *job, void *user), void *user,
                                struct gemmd_error_info *error)
{
    struct paged_list list = {.path = "/jobs",
                              .member = "jobs",
                              .item_bytes = sizeof(struct gemmd_job),
                              .read = read_job,
                              .goes_on = is_older};
    const enum gemmd_error code = paged_list_fetch(client, &list, error);
    const struct gemmd_job *jobs = (const struct gemmd_job *)(void *)list.items;
    for (size_t i = 0; i < list.count && code == GEMMD_OK; i++)
        each(&jobs[i], user);
    free(list.items);
    return code;
}
