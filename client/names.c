#include <gemmd/gemmd.h>
#include <stdlib.h>

#include "proto/dtype.h"
#include "proto/error.h"

static int is_dtype(enum gemmd_dtype dtype)
{
    return (unsigned)dtype < GEMMD_DTYPE_COUNT;
}

static int is_error(enum gemmd_error code)
{
    return (unsigned)code < GEMMD_ERR_COUNT;
}

const char *gemmd_error_name(enum gemmd_error code)
{
    return is_error(code) ? error_name(code) : "?";
}

const char *gemmd_error_title(enum gemmd_error code)
{
    return is_error(code) ? error_title(code) : "?";
}

size_t gemmd_dtype_size(enum gemmd_dtype dtype)
{
    return is_dtype(dtype) ? dtype_size(dtype) : 0;
}

const char *gemmd_dtype_name(enum gemmd_dtype dtype)
{
    return is_dtype(dtype) ? dtype_name(dtype) : "?";
}

int gemmd_dtype_from_name(const char *name, enum gemmd_dtype *dtype)
{
    return name != NULL && dtype_from_name(name, dtype);
}

static const char *const state_names[] = {"unknown", "queued", "running",
                                          "done",    "failed", "cancelled"};

const char *gemmd_job_state_name(enum gemmd_job_state state)
{
    const int known = (unsigned)state < sizeof state_names / sizeof state_names[0];
    return state_names[known ? state : GEMMD_JOB_UNKNOWN];
}

const char *gemmd_version(void)
{
    return GEMMD_VERSION;
}

void gemmd_free(void *memory)
{
    free(memory);
}
