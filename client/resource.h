/*
 * resource.h - checks names of tensors and ids of jobs, which become part of a path. Every function
 * returns GEMMD_OK, or GEMMD_ERR_USAGE with `error` filled in. Any thread.
 */
#ifndef CLIENT_RESOURCE_H
#define CLIENT_RESOURCE_H

#include <gemmd/gemmd.h>

/* A name has 1 to 128 of the characters A-Z a-z 0-9 . _ - ; NULL is not a name. `field` is the
 * parameter that an error names. */
enum gemmd_error resource_check_tensor(const char *name, const char *field,
                                       struct gemmd_error_info *error);
/* An id has 1 to 63 of the characters A-Z a-z 0-9 _ - ; NULL is not an id. */
enum gemmd_error resource_check_job(const char *id, struct gemmd_error_info *error);

#endif
