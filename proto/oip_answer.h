/*
 * oip_answer.h - the JSON of an inference's answer with its one output. Any thread.
 *
 * All of it is known before the result is, but for the numbers of one that is sent as JSON: those
 * stand between the head and OIP_ANSWER_TAIL.
 */
#ifndef PROTO_OIP_ANSWER_H
#define PROTO_OIP_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/tensor.h"

enum { OIP_ANSWER_HEAD_MAX = 2048 };
#define OIP_ANSWER_TAIL "]}]}"

struct oip_answer {
    const char *model, *id, *output; /* borrowed; id "": none */
    const struct tensor *tensor;     /* type and shape */
    bool binary;                     /* the bytes follow the JSON; else the numbers are in it */
};

/* Writes the JSON (binary), or what stands before the numbers; terminated. Returns its length. */
uint32_t oip_answer_head(const struct oip_answer *answer, char out[OIP_ANSWER_HEAD_MAX]);

#endif
