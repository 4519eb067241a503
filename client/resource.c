#include "client/resource.h"

#include <stdbool.h>
#include <string.h>

#include "client/failure.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

enum { TENSOR_LENGTH_MAX = 128, JOB_LENGTH_MAX = 63 };

static bool consists_of(const char *text, const char *allowed, size_t length_max)
{
    size_t length = text != NULL ? strlen(text) : 0;
    return length >= 1 && length <= length_max && strspn(text, allowed) == length;
}

enum gemmd_error resource_check_tensor(const char *name, const char *field,
                                       struct gemmd_error_info *error)
{
    if (consists_of(name, LETTERS DIGITS "._-", TENSOR_LENGTH_MAX))
        return GEMMD_OK;
    return failure_set(error, GEMMD_ERR_USAGE, field,
                       "'%.128s' is not the name of a tensor; a name has 1 to %d of the characters "
                       "A-Z a-z 0-9 . _ -",
                       name != NULL ? name : "", TENSOR_LENGTH_MAX);
}

enum gemmd_error resource_check_job(const char *id, struct gemmd_error_info *error)
{
    if (consists_of(id, LETTERS DIGITS "_-", JOB_LENGTH_MAX))
        return GEMMD_OK;
    return failure_set(error, GEMMD_ERR_USAGE, "id", "'%.64s' is not the id of a job",
                       id != NULL ? id : "");
}
