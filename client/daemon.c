#include "client/daemon.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/schedule.h"

static enum gemmd_error accept_text(struct gemmd_request *request, const struct answer *answer)
{
    (void)answer;
    request->sink.kind = SINK_TEXT;
    return GEMMD_OK;
}

static const struct operation text_operation = {
    .method = "GET", .headers = HEADERS_PLAIN, .statuses = {200}, .accept = accept_text};

enum gemmd_error daemon_text(struct gemmd_client *client, const char *path, uint32_t retries,
                             char **text, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    failure_clear(error);
    if (text != NULL)
        *text = NULL;
    const struct gemmd_call call = {0};
    struct gemmd_request *request = request_new(client, &text_operation, &call, error);
    if (request == NULL)
        return error->code;
    snprintf(request->target, sizeof request->target, "%s", path);
    request->repeats_left = retries;
    schedule_submit(request);
    gemmd_wait(request, -1);
    enum gemmd_error code = gemmd_request_result(request, NULL, error);
    if (code == GEMMD_OK && text != NULL) {
        *text = request->sink.data.data;
        request->sink.data.owned = false;
    }
    gemmd_request_free(request);
    return code;
}

enum gemmd_error gemmd_info(struct gemmd_client *client, char **text,
                            struct gemmd_error_info *error)
{
    return daemon_text(client, "/info", client->options.retries, text, error);
}

enum gemmd_error gemmd_metrics(struct gemmd_client *client, char **text,
                               struct gemmd_error_info *error)
{
    return daemon_text(client, "/metrics", client->options.retries, text, error);
}

enum gemmd_error gemmd_ready(struct gemmd_client *client, char **text,
                             struct gemmd_error_info *error)
{
    return daemon_text(client, "/readyz", 0, text, error);
}
