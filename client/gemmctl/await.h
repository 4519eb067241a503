/*
 * await.h - a request to its end, with a progress line, or until Ctrl-C cancels it.
 */
#ifndef GEMMCTL_AWAIT_H
#define GEMMCTL_AWAIT_H

#include "client/gemmctl/command.h"

/* Releases `request`, which may be NULL: `error` then says why already. `result` may be NULL. */
enum gemmd_error await(const struct context *context, struct gemmd_request *request,
                       struct gemmd_result *result, struct gemmd_error_info *error);

#endif
