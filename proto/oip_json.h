/*
 * oip_json.h - an inference request's JSON as a list of its values.
 *
 * One pass over the text checks JSON's grammar (RFC 8259; no member's name may be repeated) and
 * writes every value and every member's name into one array, in the order of the text. Nothing is
 * allocated, and strings are views onto the text unless they have escapes.
 *
 * A request is an object of arrays of objects. An array inside those objects (a tensor's `shape`,
 * or its `data` with perhaps millions of numbers) is one value of the list: the pass finds the
 * array's end by its brackets and checks no more of it. What is outside of these arrays is short
 * and nests no deeper than a request does, and both limits are checked. Any thread, in the C
 * locale.
 */
#ifndef PROTO_OIP_JSON_H
#define PROTO_OIP_JSON_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OIP_JSON_BYTES = 16 * 1024, /* the longest text that is read, without the arrays */
    OIP_ARRAYS_MAX = 16,
    OIP_ARRAY_DEPTH = 3,                  /* request, inputs, input: an array below is one value */
    OIP_JSON_DEPTH = OIP_ARRAY_DEPTH + 1, /* an input's parameters */
    OIP_VALUES_MAX = OIP_JSON_BYTES / 2 + OIP_JSON_DEPTH
};

/* An array's text, from [ to ], in the JSON that it was found in; borrowed. Only its brackets have
 * been checked. */
struct oip_array {
    const char *text;
    uint64_t bytes;
};

enum oip_kind {
    OIP_NULL,
    OIP_FALSE,
    OIP_TRUE,
    OIP_INTEGER, /* of 64 bits with a sign */
    OIP_REAL,
    OIP_STRING, /* also a member's name */
    OIP_LIST,   /* an array with its elements; they follow it */
    OIP_OBJECT, /* its members follow it, each a name and a value */
    OIP_ARRAY   /* an array that is one value */
};

struct oip_value {
    const char *text; /* of a string, decoded, and of a number; not terminated */
    uint16_t bytes;   /* of text */
    uint16_t count;   /* of a list's elements or an object's members; of an array: its index */
    uint16_t span;    /* values from this one to the next beside it */
    uint8_t kind;     /* enum oip_kind */
};

struct oip_json {
    uint32_t value_count, array_count;
    uint32_t decoded_bytes;
    struct oip_array arrays[OIP_ARRAYS_MAX];
    struct oip_value values[OIP_VALUES_MAX]; /* the first is the text's only value */
    char decoded[OIP_JSON_BYTES];            /* strings that had escapes */
};

/* Fills in `json`, which borrows the text. False if the text is not JSON, or more than is read:
 * oip_skeleton.h says which. */
bool oip_json_read(struct oip_json *json, const char *text, uint64_t bytes);

/* An object's member; NULL if it is absent or null, or `object` is NULL or no object. */
const struct oip_value *oip_json_member(const struct oip_value *object, const char *name);
/* The value after this one in its list, or the next member's name after a member's value. */
const struct oip_value *oip_json_next(const struct oip_value *value);
/* Whether a string is this text. */
bool oip_json_is(const struct oip_value *string, const char *text);

/* The end of the array that begins at `at`, past its bracket; 0 if it has none. */
uint64_t oip_json_array_end(const char *json, uint64_t bytes, uint64_t at);
/* The end of the string that begins at `at`, past its quote; `bytes` if it has none. */
uint64_t oip_json_string_end(const char *json, uint64_t bytes, uint64_t at);

#endif
