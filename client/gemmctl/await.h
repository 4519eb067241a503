/*
 * await.h - waits for a request with a progress line; Ctrl-C cancels the request.
 */
#ifndef GEMMCTL_AWAIT_H
#define GEMMCTL_AWAIT_H

#include "client/gemmctl/command.h"

/* Waits for a request, takes its result, and releases the request. If `request` is NULL, returns
 * the code of `error`, which the function that failed to make the request has filled in. `result`
 * may be NULL. */
enum gemmd_error await(const struct context *context, struct gemmd_request *request,
                       struct gemmd_result *result, struct gemmd_error_info *error);

#endif
