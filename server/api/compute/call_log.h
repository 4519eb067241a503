/* call_log.h - describes a call for the access log. On the thread that uses the call. */
#ifndef SERVER_API_COMPUTE_CALL_LOG_H
#define SERVER_API_COMPUTE_CALL_LOG_H

#include "server/api/compute/compute_call.h"
#include "server/observe/log.h"

/* Describes the computation of a call for the access log. The call may be zeroed; `operation`
 * stands for the operation of a call that has none yet. Returns the type of the operands, or
 * GEMMD_DTYPE_COUNT if the type is not known. `work_ended`: no other thread has the work. */
enum gemmd_dtype call_log_describe(const struct compute_call *call,
                                   const struct call_operation *operation, bool work_ended,
                                   struct log_access *entry);

#endif
