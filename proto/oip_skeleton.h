/*
 * oip_skeleton.h - finds out why the JSON of an inference request is refused.
 *
 * oip_json_read reads the JSON of each request and reports only whether the JSON is valid. If the
 * JSON is invalid, oip_skeleton_refuse has jansson parse the request's skeleton, and jansson's
 * message describes the error to the client. In the skeleton, [0], [1] and so on replace the
 * arrays at the depth of a tensor's `shape` and `data`. The skeleton keeps jansson from
 * parsing a tensor's numbers, for which jansson needs many times the memory of their text. Any
 * thread.
 */
#ifndef PROTO_OIP_SKELETON_H
#define PROTO_OIP_SKELETON_H

#include <stdint.h>

#include "proto/error.h"

/* Fills in the fault for `json`, a text of `bytes` bytes that oip_json_read refused. Returns
 * GEMMD_ERR_MALFORMED. The fault then says that the text has too many arrays, an array without an
 * end, too deep nesting or too many bytes, or describes the error of grammar. Returns
 * GEMMD_ERR_OUT_OF_MEMORY if jansson ran out of memory. */
enum gemmd_error oip_skeleton_refuse(const char *json, uint64_t bytes, struct fault *fault);

#endif
