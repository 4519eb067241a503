/*
 * remove.h - removes tensors or sequences from the daemon.
 */
#ifndef GEMMCTL_REMOVE_H
#define GEMMCTL_REMOVE_H

#include "client/gemmctl/command.h"

/* Removes what the operands of the command name by `delete`, such as gemmd_tensor_delete. An error
 * is printed, the others are removed, and the exit code is that of the first error. */
int remove_all(const struct context *context,
               enum gemmd_error (*delete)(struct gemmd_client *client, const char *name,
                                          const struct gemmd_call *call,
                                          struct gemmd_error_info *error));

#endif
