#include "client/gemmctl/command.h"

#include "client/gemmctl/print.h"
#include "client/gemmctl/progress.h"

int remove_all(const struct context *context,
               enum gemmd_error (*delete)(struct gemmd_client *client, const char *name,
                                          const struct gemmd_call *call,
                                          struct gemmd_error_info *error))
{
    const struct arguments *arguments = context->arguments;
    struct gemmd_error_info error;
    int code;
    struct gemmd_client *client = command_client(context, COMMAND_RETRIES, 1, &code);
    if (client == NULL)
        return code;
    json_t *removed = json_array(), *failed = json_array();
    code = EXIT_OK;
    interrupt_watch();
    for (uint32_t i = 0; i < arguments->operand_count && !interrupt_asked(); i++) {
        const char *name = arguments->operands[i];
        if (delete (client, name, NULL, &error) == GEMMD_OK) {
            json_array_append_new(removed, print_text(name));
            continue;
        }
        json_array_append_new(failed, json_pack("{s:o, s:o}", "name", print_text(name), "error",
                                                fail_describe(&error)));
        const int one = fail_named(context, name, &error);
        code = code == EXIT_OK ? one : code;
    }
    if (interrupt_asked())
        code = EXIT_INTERRUPTED;
    if (option_flag(arguments, OPTION_JSON))
        print_json(json_pack("{s:i, s:O, s:O}", "version", PRINT_JSON_VERSION, "removed", removed,
                             "failed", failed));
    json_decref(removed);
    json_decref(failed);
    gemmd_client_free(client);
    return code;
}
