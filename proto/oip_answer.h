/*
 * oip_answer.h - the JSON of an inference's answer, written output by output. Any thread.
 *
 * oip_answer_begin; for each output oip_answer_output and, if it goes as JSON, its numbers, which
 * the caller writes (oip_data_write) and oip_answer_numbers_end closes; oip_answer_end.
 */
#ifndef PROTO_OIP_ANSWER_H
#define PROTO_OIP_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/json_text.h"
#include "proto/tensor.h"

/* Room for all but the numbers, with two outputs of any shape. */
enum { OIP_ANSWER_TEXT_MAX = 2560 };

struct oip_answer_output {
    const char *name;            /* borrowed */
    const struct tensor *tensor; /* type and shape */
    bool binary;                 /* its bytes follow the JSON; else the numbers are in it */
};

/* `id` "": none. */
void oip_answer_begin(struct json_text *json, const char *model, const char *id);
void oip_answer_output(struct json_text *json, const struct oip_answer_output *output);
void oip_answer_numbers_end(struct json_text *json);
/* Terminates it; the length, 0 if it did not fit. */
uint64_t oip_answer_end(struct json_text *json);

#endif
