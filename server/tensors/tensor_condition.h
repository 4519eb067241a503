/*
 * tensor_condition.h - If-Match and If-None-Match (RFC 9110, 13.1), judged against a tensor.
 *
 * Pure functions, any thread.
 */
#ifndef SERVER_TENSORS_TENSOR_CONDITION_H
#define SERVER_TENSORS_TENSOR_CONDITION_H

#include <stdbool.h>

#include "proto/error.h"

/* The headers' values, borrowed; NULL: not sent. */
struct tensor_condition {
    const char *if_match, *if_none_match;
};

enum tensor_condition_result {
    TENSOR_CONDITION_HOLDS,
    TENSOR_CONDITION_OTHER, /* If-Match names none of what is there */
    TENSOR_CONDITION_SAME   /* If-None-Match names what is there */
};

/* GEMMD_ERR_MALFORMED unless each is "*" or a list of entity tags. */
enum gemmd_error tensor_condition_check(const struct tensor_condition *condition,
                                        struct fault *fault);
/* `exists`: whether there is a tensor; `etag` is its tag, or NULL if that is not known, which
 * matches nothing but "*". The condition was checked. */
enum tensor_condition_result tensor_condition_evaluate(const struct tensor_condition *condition,
                                                       bool exists, const char *etag);
/* The same as an error for what would change the tensor: GEMMD_OK or GEMMD_ERR_PRECONDITION. */
enum gemmd_error tensor_condition_require(const struct tensor_condition *condition, bool exists,
                                          const char *etag, struct fault *fault);

#endif
