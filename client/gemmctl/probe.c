/* gemmctl metrics and gemmctl ready: print the daemon's texts unchanged. */
#include <stdio.h>

#include "client/gemmctl/command.h"

int command_metrics(const struct context *context)
{
    struct gemmd_error_info error;
    char *text;
    int code;
    struct gemmd_client *client = command_client(context, 4, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_metrics(client, &text, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else {
        fputs(text, stdout);
        gemmd_free(text);
        code = EXIT_OK;
    }
    gemmd_client_free(client);
    return code;
}

int command_ready(const struct context *context)
{
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, 0, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_ready(client, NULL, &error) != GEMMD_OK) {
        code = fail_request(context, &error);
    } else {
        if (!option_flag(context->arguments, OPTION_QUIET))
            puts("ready");
        code = EXIT_OK;
    }
    gemmd_client_free(client);
    return code;
}
