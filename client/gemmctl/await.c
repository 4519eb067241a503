#include "client/gemmctl/await.h"

#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/progress.h"

enum gemmd_error await(const struct context *context, struct gemmd_request *request,
                       struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct progress_line line;
    if (request == NULL)
        return error->code;
    interrupt_watch();
    progress_start(&line, &context->terminal, option_flag(context->arguments, OPTION_QUIET));
    while (!gemmd_wait(request, INTERRUPT_CHECK_MS)) {
        progress_draw(&line, request);
        if (interrupt_asked())
            gemmd_cancel(request);
    }
    progress_end(&line);
    enum gemmd_error code = gemmd_request_result(request, result, error);
    gemmd_request_free(request);
    return code;
}
