/* gemmctl metrics and gemmctl ready. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/print.h"

/* Prints each series as a member: {"gemmd_ready": 1, ...}. Labels are part of the name. A value
 * that JSON has no number for, such as NaN, becomes null. */
static void print_series(const char *text)
{
    json_t *metrics = json_object();
    for (const char *end; *text != '\0'; text = *end != '\0' ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        const char *space = memrchr(text, ' ', (size_t)(end - text));
        if (*text == '#' || space == NULL)
            continue;
        json_t *value = json_real(strtod(space + 1, NULL));
        json_object_setn_new(metrics, text, (size_t)(space - text),
                             value != NULL ? value : json_null());
    }
    print_json(json_pack("{s:i, s:o}", "version", PRINT_JSON_VERSION, "metrics", metrics));
}

int command_metrics(const struct context *context)
{
    struct gemmd_error_info error;
    char *text;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    if (gemmd_metrics(client, &text, &error) != GEMMD_OK)
        code = fail_request(context, &error);
    else {
        if (option_flag(context->arguments, OPTION_JSON))
            print_series(text);
        else
            terminal_put_lines(text, stdout);
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
        if (option_flag(context->arguments, OPTION_JSON))
            print_json(json_pack("{s:i, s:b}", "version", PRINT_JSON_VERSION, "ready", 1));
        else if (!option_flag(context->arguments, OPTION_QUIET))
            puts("ready");
        code = EXIT_OK;
    }
    gemmd_client_free(client);
    return code;
}
