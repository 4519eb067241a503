/*
 * oip_json.h - parses the JSON of an inference request into an array of values.
 *
 * The parser reads the text once. It checks JSON's grammar (RFC 8259), refuses an object with a
 * repeated member name, and writes each value and each member name into one array, in the order of
 * the text. The parser allocates no memory. A string of plain ASCII is a view onto the text; a
 * string with escapes or other characters is decoded into `decoded`.
 *
 * A request is an object that contains arrays of objects. An array inside these objects is a
 * tensor's `shape`, or a tensor's `data` with perhaps millions of numbers, and becomes one value.
 * The parser finds the end of the array by counting brackets and does not check the array's
 * content. The text outside of these arrays is limited to OIP_JSON_BYTES and to a nesting of
 * OIP_JSON_DEPTH. Any thread, in the C locale.
 */
#ifndef PROTO_OIP_JSON_H
#define PROTO_OIP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OIP_JSON_BYTES = 16 * 1024,           /* the longest text that is parsed, without its arrays */
    OIP_ARRAYS_MAX = 16,                  /* arrays that are one value */
    OIP_ARRAY_DEPTH = 3,                  /* request, inputs, input: an array here is one value */
    OIP_JSON_DEPTH = OIP_ARRAY_DEPTH + 1, /* the deepest objects are an input's parameters */
    OIP_VALUES_MAX = OIP_JSON_BYTES / 2 + OIP_JSON_DEPTH
};

/* The text of an array, from [ to ]. The text is borrowed from the JSON. Only the numbers of
 * its opening and closing brackets have been compared. */
struct oip_array {
    const char *text;
    uint64_t bytes; /* length of the text */
};

enum oip_kind {
    OIP_NULL,
    OIP_FALSE,
    OIP_TRUE,
    OIP_INTEGER, /* fits in an int64_t */
    OIP_REAL,    /* has a fraction or an exponent; finite as a double */
    OIP_STRING,  /* a string, or the name of a member */
    OIP_LIST,    /* an array whose elements are the values that follow */
    OIP_OBJECT,  /* the members follow, each as a name and a value */
    OIP_ARRAY    /* an array whose text is in `arrays` */
};

/* A value, or the name of a member. */
struct oip_value {
    const char *text; /* of a number, or of a decoded string; not terminated; borrowed */
    uint16_t bytes;   /* length of `text` */
    uint16_t count; /* elements of a list, members of an object, or an array's index in `arrays` */
    uint16_t span;  /* entries of `values` that this value and the values inside it take */
    uint8_t kind;   /* enum oip_kind */
};

/* A parsed text. Entries of `arrays` and `values` past their counts have unspecified content. */
struct oip_json {
    uint32_t value_count, array_count;
    uint32_t decoded_bytes; /* bytes of `decoded` in use */
    struct oip_array arrays[OIP_ARRAYS_MAX];
    struct oip_value values[OIP_VALUES_MAX]; /* the first is the outermost value */
    char decoded[OIP_JSON_BYTES];            /* decoded strings, one after another */
};

/* Parses `text`, which is `bytes` bytes long, into `json`. `json` borrows the text, and its values
 * point into `json`, so that a copy of `json` is not usable. Returns false if the text is not a
 * JSON object or array, or exceeds a limit; oip_skeleton_refuse (oip_skeleton.h) finds out the
 * reason. */
bool oip_json_read(struct oip_json *json, const char *text, uint64_t bytes);

/* Returns the value of the member `name` of an object. Returns NULL if the object has no member of
 * this name, if the member is null, or if `object` is NULL or of another kind. */
const struct oip_value *oip_json_member(const struct oip_value *object, const char *name);
/* Returns the value that follows `value`: the next element of a list, or, after the value of a
 * member, the name of the next member. After the last element or member, the result
 * points behind the list or object. */
const struct oip_value *oip_json_next(const struct oip_value *value);
/* Returns whether the string `string` is equal to `text`. */
bool oip_json_is(const struct oip_value *string, const char *text);
/* Returns the value of the number that stands in the `bytes` characters at `text`, at most
 * OIP_JSON_BYTES of them. The text is copied because strtod requires a terminated string. */
double oip_json_real(const char *text, size_t bytes);

/* Returns the offset in `json` behind the closing bracket of the array whose opening bracket is at
 * offset `at`; 0 if the array has no closing bracket, or ends with a brace. `json` is a text of
 * `bytes` bytes. */
uint64_t oip_json_array_end(const char *json, uint64_t bytes, uint64_t at);
/* Returns the offset in `json` behind the closing quote of the string whose opening quote is at
 * offset `at`; `bytes` if the string has no closing quote. `json` is a text of `bytes` bytes. */
uint64_t oip_json_string_end(const char *json, uint64_t bytes, uint64_t at);

#endif
