#include "client/gemmctl/check_run.h"

#include <stdio.h>

#include "client/gemmctl/resident.h"

int check_run_allows(const struct context *context, const struct destination *destination)
{
    const struct arguments *arguments = context->arguments;
    if (!option_flag(arguments, OPTION_CHECK))
        return EXIT_OK;
    if (destination->path == NULL && !destination->dropped)
        return fail_usage(context, "--check needs the result; leave out --async and --store");
    for (uint32_t i = 0; i < arguments->operand_count; i++)
        if (resident_name(arguments->operands[i]) != NULL)
            return fail_usage(context, "--check needs the operands; name files in place of tensors "
                                       "on the daemon");
    return EXIT_OK;
}

int check_run(const struct context *context, const char *name, check_run_compare *compare,
              check_run_where *where, const void *argument, struct check *check)
{
    struct gemmd_error_info error = {.code = GEMMD_OK};
    struct progress_line line;
    char place[128];
    progress_start(&line, &context->terminal, option_flag(context->arguments, OPTION_QUIET));
    error.code = compare(argument, &line, check);
    progress_end(&line);
    if (error.code == GEMMD_ERR_CANCELLED)
        return EXIT_INTERRUPTED;
    if (error.code == GEMMD_ERR_OUT_OF_MEMORY)
        snprintf(error.message, sizeof error.message, "there is no memory for --check");
    if (error.code == GEMMD_OK && check->wrong > 0) {
        error.code = GEMMD_ERR_VERIFICATION;
        where(argument, check->at, place, sizeof place);
        snprintf(error.message, sizeof error.message,
                 "%llu of %llu elements of %s are wrong; the first, %s, is %.9g and should be "
                 "%.9g, with an error of at most %.2g",
                 (unsigned long long)check->wrong, (unsigned long long)check->elements, name, place,
                 check->found, check->expected, check->allowed);
    }
    return error.code == GEMMD_OK ? EXIT_OK : fail_request(context, &error);
}
