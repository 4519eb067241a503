#include "client/record.h"

#include <stdlib.h>
#include <string.h>

#include "client/failure.h"
#include "proto/dtype.h"
#include "proto/error.h"

/* ---- names ---- */

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

/* ---- structures ---- */

enum gemmd_error record_read(void *known, size_t known_bytes, const void *given, size_t least,
                             const char *name, const char *variable, struct gemmd_error_info *error)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    bool right = given_bytes >= least;
    for (size_t i = known_bytes; right && i < given_bytes; i++)
        right = ((const char *)given)[i] == 0;
    if (!right)
        return failure_set(error, GEMMD_ERR_USAGE, "size",
                           "the size of struct gemmd_%s is not one that libgemmd %s knows; use "
                           "gemmd_%s_init(&%s, sizeof %s)",
                           name, gemmd_version(), name, variable, variable);
    memcpy(known, given, given_bytes < known_bytes ? given_bytes : known_bytes);
    memcpy(known, &known_bytes, sizeof known_bytes);
    return GEMMD_OK;
}

void record_write(void *given, size_t given_bytes, const void *known, size_t known_bytes)
{
    memset(given, 0, given_bytes);
    memcpy(given, known, given_bytes < known_bytes ? given_bytes : known_bytes);
    if (given_bytes >= sizeof given_bytes)
        memcpy(given, &given_bytes, sizeof given_bytes);
}
