/*
 * oip_skeleton.h - why an inference request's JSON was refused.
 *
 * oip_json.h reads every request and only tells whether it is JSON. The sentence for a client whose
 * text is not comes from jansson, which names the place. jansson would need many times the length
 * of a tensor's numbers in memory, so it reads the text's skeleton: the text with [0], [1] ... in
 * the places of the arrays that are one value each. Any thread.
 */
#ifndef PROTO_OIP_SKELETON_H
#define PROTO_OIP_SKELETON_H

#include <stdint.h>

#include "proto/error.h"

/* GEMMD_ERR_MALFORMED, of a text that oip_json_read refused: there are too many arrays, one has no
 * end, anything nests too deep, the text is too long, or what is wrong with its grammar.
 * GEMMD_ERR_OUT_OF_MEMORY if that could not be found out. */
enum gemmd_error oip_skeleton_refuse(const char *json, uint64_t bytes, struct fault *fault);

#endif
