/*
 * oip_answer.h - writes the JSON of the response to an inference request of the Open Inference
 * Protocol, one output after another.
 *
 * The caller calls oip_answer_begin once, then oip_answer_output for each output, and then
 * oip_answer_end. For an output whose data is sent as JSON, the caller writes the numbers with
 * oip_data_write after oip_answer_output, and then calls oip_answer_numbers_end. A text that does
 * not fit in the buffer is reported by oip_answer_end only (json_text.h). Any thread; one thread at
 * a time may use a struct json_text.
 */
#ifndef PROTO_OIP_ANSWER_H
#define PROTO_OIP_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/json_text.h"
#include "proto/tensor.h"

/* A buffer of this many bytes has room for the JSON of two outputs of any shape, without their
 * numbers. */
enum { OIP_ANSWER_TEXT_MAX = 2560 };

struct oip_answer_output {
    const char *name;            /* borrowed; the output's name */
    const struct tensor *tensor; /* borrowed; gives the type, the shape and the size */
    bool binary;                 /* true: the data follows the JSON, as bytes */
    bool elsewhere;              /* true: the data is in shared memory, not in the response */
};

/* Writes the JSON up to the list of outputs. `id` is the id of the request; if `id` is empty, the
 * response has no id either. */
void oip_answer_begin(struct json_text *json, const char *model, const char *id);
/* Writes an output's name, datatype and shape. If the output is neither binary nor elsewhere, the
 * numbers of its data have to follow. */
void oip_answer_output(struct json_text *json, const struct oip_answer_output *output);
/* Ends the numbers of an output. */
void oip_answer_numbers_end(struct json_text *json);
/* Ends and terminates the JSON. Returns the length in bytes, without the terminator; 0 if the JSON
 * did not fit in the buffer. */
uint64_t oip_answer_end(struct json_text *json);

#endif
