/*
 * resident.h - operands that are resident on the daemon, named tensor:NAME on the command line.
 */
#ifndef GEMMCTL_RESIDENT_H
#define GEMMCTL_RESIDENT_H

#include <gemmd/gemmd.h>

#include "proto/parameter.h"
#include "proto/tensor.h"

/* The NAME of an operand "tensor:NAME", borrowed from `operand`; NULL if `operand` is NULL or has
 * another form. */
const char *resident_name(const char *operand);
/* Asks the daemon for the type and shape of a resident tensor. */
enum gemmd_error resident_look(struct gemmd_client *client, const char *name, struct tensor *tensor,
                               struct gemmd_error_info *error);
/* If `*path` is "tensor:NAME": looks at the tensor, gives the request the parameter (the table's)
 * with that name, points `*resident` at `tensor` and makes `*path` NULL. */
enum gemmd_error resident_take(struct gemmd_client *client, const struct parameter_table *table,
                               void *request, const char *parameter, const char **path,
                               struct tensor *tensor, const struct tensor **resident,
                               struct gemmd_error_info *error);

#endif
