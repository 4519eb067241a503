/*
 * tensor_condition.h - the conditions If-Match and If-None-Match (RFC 9110, 13.1), evaluated for a
 * tensor. Pure functions, any thread.
 */
#ifndef SERVER_TENSORS_TENSOR_CONDITION_H
#define SERVER_TENSORS_TENSOR_CONDITION_H

#include <stdbool.h>

#include "proto/error.h"

/* The values of the headers, borrowed; NULL: the header was not sent. */
struct tensor_condition {
    const char *if_match, *if_none_match;
};

enum tensor_condition_result {
    TENSOR_CONDITION_HOLDS,
    TENSOR_CONDITION_OTHER, /* the condition is false: If-Match does not name the tensor's tag */
    TENSOR_CONDITION_SAME   /* the condition is false: If-None-Match names the tensor's tag */
};

/* Checks the syntax of a condition. GEMMD_ERR_MALFORMED: a header is neither "*" nor a list of
 * entity tags. */
enum gemmd_error tensor_condition_check(const struct tensor_condition *condition,
                                        struct fault *fault);
/* Evaluates a condition whose syntax was checked. `exists`: there is a tensor of the name. `etag`
 * is the tensor's entity tag; NULL: the tag is not known, and matches only "*". */
enum tensor_condition_result tensor_condition_evaluate(const struct tensor_condition *condition,
                                                       bool exists, const char *etag);
/* As tensor_condition_evaluate, for a request that would change the tensor. GEMMD_ERR_PRECONDITION:
 * the condition is false. */
enum gemmd_error tensor_condition_require(const struct tensor_condition *condition, bool exists,
                                          const char *etag, struct fault *fault);

#endif
