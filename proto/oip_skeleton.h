/*
 * oip_skeleton.h - an inference request's JSON without what is long in it.
 *
 * A request is an object of arrays of objects; the arrays inside those (a tensor's `shape`, and its
 * `data` with perhaps millions of numbers) would cost a general parser many times their length in
 * memory. So they are cut out first, by one pass without recursion: what is left is short, is as
 * deep as a request may be and no deeper, and has [0], [1] ... in the places of the arrays, which
 * nothing else can look like. Any thread.
 */
#ifndef PROTO_OIP_SKELETON_H
#define PROTO_OIP_SKELETON_H

#include <stdint.h>

#include "proto/error.h"

enum {
    OIP_SKELETON_BYTES = 16 * 1024, /* the longest that is read */
    OIP_ARRAYS_MAX = 16,
    OIP_DEPTH = 3 /* request, inputs, input: an array below is cut out */
};

/* An array's text, from [ to ], in the JSON it was found in; borrowed. Not checked inside but for
 * its brackets. */
struct oip_array {
    const char *text;
    uint64_t bytes;
};

struct oip_skeleton {
    struct oip_array arrays[OIP_ARRAYS_MAX];
    uint32_t array_count;
    uint64_t bytes; /* of text */
    char text[OIP_SKELETON_BYTES];
};

/* GEMMD_ERR_MALFORMED if there are too many arrays, one has no end, anything nests too deep, or
 * what is left is too long. */
enum gemmd_error oip_skeleton_cut(struct oip_skeleton *skeleton, const char *json, uint64_t bytes,
                                  struct fault *fault);

#endif
