/*
 * resource.h - names of tensors and ids of jobs, which become part of a path. Each returns
 * GEMMD_OK, or GEMMD_ERR_USAGE with a sentence. Any thread.
 */
#ifndef CLIENT_RESOURCE_H
#define CLIENT_RESOURCE_H

#include <gemmd/gemmd.h>

/* 1 to 128 of the characters A-Z a-z 0-9 . _ - ; NULL is no name. */
enum gemmd_error resource_check_tensor(const char *name, const char *field,
                                       struct gemmd_error_info *error);
/* 1 to 63 of the characters A-Z a-z 0-9 _ - ; NULL is no id. */
enum gemmd_error resource_check_job(const char *id, struct gemmd_error_info *error);

#endif
