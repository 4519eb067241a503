#include "proto/oip_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_string.h"

struct reader {
    const char *at, *start, *end;
    uint64_t cut_bytes; /* bytes by which the skeleton is shorter than the text so far */
    uint32_t depth;
    struct oip_json *json;
};

/* ---- characters ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips white space and returns the next character. Returns '\0' at the end of the text and at a
 * zero byte. */
static char next_character(struct reader *reader)
{
    while (reader->at < reader->end) {
        const char c = *reader->at;
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return c;
        reader->at++;
    }
    return '\0';
}

/* Returns the length, in bytes, of the skeleton (oip_skeleton.h) of the text so far. */
static uint64_t short_bytes(const struct reader *reader)
{
    return (uint64_t)(reader->at - reader->start) - reader->cut_bytes;
}

/* Adds a value to the array of values. Returns NULL if the text exceeds OIP_JSON_BYTES without its
 * arrays, or if the array of values is full. */
static struct oip_value *add_value(struct reader *reader, enum oip_kind kind)
{
    struct oip_json *json = reader->json;
    if (json->value_count == OIP_VALUES_MAX || short_bytes(reader) > OIP_JSON_BYTES)
        return NULL;
    struct oip_value *value = &json->values[json->value_count++];
    value->kind = (uint8_t)kind;
    value->bytes = value->count = 0;
    value->span = 1;
    return value;
}

/* ---- strings ---- */

/* Returns whether `c` is an ASCII character that stands for itself in a JSON string. */
static bool is_plain(char c)
{
    return (unsigned char)(c - 0x20) < 0x60 && c != '"' && c != '\\';
}

/* Decodes a string that has escapes or other characters than ASCII into `decoded`. */
static bool decode_string(struct reader *reader, struct oip_value *value)
{
    struct oip_json *json = reader->json;
    char *const out = json->decoded + json->decoded_bytes;
    const uint64_t from = (uint64_t)(reader->at - reader->start);
    const uint64_t end =
        oip_json_string_end(reader->start, (uint64_t)(reader->end - reader->start), from - 1);
    uint64_t bytes;
    if (end - from > OIP_JSON_BYTES - json->decoded_bytes) /* decoding never lengthens */
        return false;
    reader->at = json_string_decode(reader->at, reader->end, out, &bytes);
    if (reader->at == NULL)
        return false;
    value->text = out;
    value->bytes = (uint16_t)bytes;
    json->decoded_bytes += value->bytes;
    return true;
}

static bool read_string(struct reader *reader)
{
    struct oip_value *value = add_value(reader, OIP_STRING);
    if (value == NULL)
        return false;
    const char *at = ++reader->at; /* behind the opening quote */
    while (at < reader->end && is_plain(*at))
        at++;
    if (at == reader->end || *at != '"')
        return decode_string(reader, value);
    if (at - reader->at > OIP_JSON_BYTES)
        return false;
    value->text = reader->at;
    value->bytes = (uint16_t)(at - reader->at);
    reader->at = at + 1;
    return true;
}

/* ---- numbers and names ---- */

/* Returns whether the integer with these digits and this sign fits in an int64_t. */
static bool is_i64(const char *digits, const char *end, bool negative)
{
    const uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t value = 0;
    if (end - digits < 19)
        return true;
    if (end - digits > 19)
        return false;
    for (; digits < end; digits++)
        value = value * 10 + (uint64_t)(*digits - '0');
    return value <= most;
}

/* Moves past all digits. Returns false if the reader is not at a digit. */
static bool take_digits(struct reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && is_digit(*reader->at))
        reader->at++;
    return reader->at > from;
}

static bool at_character(const struct reader *reader, char c)
{
    return reader->at < reader->end && *reader->at == c;
}

double oip_json_real(const char *text, size_t bytes)
{
    char number[OIP_JSON_BYTES + 1];
    memcpy(number, text, bytes);
    number[bytes] = '\0';
    return strtod(number, NULL);
}

static bool read_number(struct reader *reader)
{
    const char *from = reader->at;
    bool real = false;
    struct oip_value *value = add_value(reader, OIP_INTEGER);
    if (value == NULL)
        return false;
    const bool negative = *from == '-';
    reader->at += negative;
    const char *digits = reader->at;
    if (!take_digits(reader) || (*digits == '0' && reader->at - digits > 1))
        return false;
    if (!is_i64(digits, reader->at, negative) && !at_character(reader, '.') &&
        !at_character(reader, 'e') && !at_character(reader, 'E'))
        return false;
    if (at_character(reader, '.')) {
        real = true;
        reader->at++;
        if (!take_digits(reader))
            return false;
    }
    if (at_character(reader, 'e') || at_character(reader, 'E')) {
        real = true;
        reader->at++;
        reader->at += at_character(reader, '+') || at_character(reader, '-');
        if (!take_digits(reader))
            return false;
    }
    /* A number is inside an object or an array. A text that ends right behind a number is therefore
     * incomplete. */
    if (reader->at == reader->end || reader->at - from > OIP_JSON_BYTES)
        return false;
    if (real && isinf(oip_json_real(from, (size_t)(reader->at - from))))
        return false;
    value->kind = real ? OIP_REAL : OIP_INTEGER;
    value->text = from;
    value->bytes = (uint16_t)(reader->at - from);
    return true;
}

static bool read_name(struct reader *reader, const char *name, enum oip_kind kind)
{
    const size_t length = strlen(name);
    if ((uint64_t)(reader->end - reader->at) < length || memcmp(reader->at, name, length) != 0)
        return false;
    reader->at += length;
    return add_value(reader, kind) != NULL;
}

/* ---- arrays and objects ---- */

uint64_t oip_json_string_end(const char *json, uint64_t bytes, uint64_t at)
{
    for (at++; at < bytes && json[at] != '"'; at++)
        if (json[at] == '\\')
            at++;
    return at < bytes ? at + 1 : bytes;
}

uint64_t oip_json_array_end(const char *json, uint64_t bytes, uint64_t at)
{
    uint64_t depth = 0;
    while (at < bytes) {
        const char c = json[at];
        if (c == '"') {
            at = oip_json_string_end(json, bytes, at);
            continue;
        }
        at++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return c == ']' ? at : 0;
    }
    return 0;
}

static bool read_array(struct reader *reader)
{
    struct oip_json *json = reader->json;
    const uint64_t from = (uint64_t)(reader->at - reader->start);
    const uint64_t end =
        oip_json_array_end(reader->start, (uint64_t)(reader->end - reader->start), from);
    if (end == 0 || json->array_count == OIP_ARRAYS_MAX)
        return false;
    struct oip_value *value = add_value(reader, OIP_ARRAY);
    if (value == NULL)
        return false;
    value->count = (uint16_t)json->array_count;
    /* The skeleton (oip_skeleton.h) has a text such as "[0]" or "[10]" in place of the array. */
    reader->cut_bytes += end - from - (json->array_count < 10 ? 3 : 4);
    json->arrays[json->array_count++] = (struct oip_array){reader->at, end - from};
    reader->at = reader->start + end;
    return true;
}

static bool read_value(struct reader *reader);

/* Moves past a comma, and returns true, or past the character `close`, which ends the list or
 * object, and returns false. Sets `*fails` if neither character is next. */
static bool goes_on(struct reader *reader, char close, bool *fails)
{
    const char c = next_character(reader);
    *fails = c != ',' && c != close;
    reader->at += !*fails;
    return c == ',';
}

static bool read_list(struct reader *reader, struct oip_value *list)
{
    bool fails = false;
    reader->at++;
    if (next_character(reader) == ']') {
        reader->at++;
        return true;
    }
    do {
        if (!read_value(reader))
            return false;
        list->count++;
    } while (goes_on(reader, ']', &fails));
    return !fails;
}

static int compare_names(const void *left, const void *right)
{
    const struct oip_value *const a = *(const struct oip_value *const *)left,
                                  *const b = *(const struct oip_value *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return memcmp(a->text, b->text, a->bytes);
}

/* Returns whether an object of many members repeats a name. The names are sorted, because comparing
 * each pair of names is too slow for a hostile object with thousands of members. */
static bool repeats_many(const struct oip_value *object)
{
    const struct oip_value *names[OIP_VALUES_MAX / 2]; /* a member is two values */
    const uint32_t count = object->count;
    names[0] = object + 1;
    for (uint32_t i = 1; i < count; i++)
        names[i] = oip_json_next(names[i - 1] + 1);
    qsort(names, count, sizeof *names, compare_names);
    for (uint32_t i = 1; i < count; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return true;
    return false;
}

/* Returns whether an object has two members of the same name. */
static bool repeats_a_name(const struct oip_value *object)
{
    enum { FEW = 16 };
    const struct oip_value *name = object + 1;
    if (object->count > FEW)
        return repeats_many(object);
    for (uint32_t i = 0; i < object->count; i++, name = oip_json_next(name + 1))
        for (const struct oip_value *other = object + 1; other < name;
             other = oip_json_next(other + 1))
            if (other->bytes == name->bytes && memcmp(other->text, name->text, name->bytes) == 0)
                return true;
    return false;
}

static bool read_object(struct reader *reader, struct oip_value *object)
{
    bool fails = false;
    reader->at++;
    if (next_character(reader) == '}') {
        reader->at++;
        return true;
    }
    do {
        if (next_character(reader) != '"' || !read_string(reader) || next_character(reader) != ':')
            return false;
        reader->at++;
        if (!read_value(reader))
            return false;
        object->count++;
    } while (goes_on(reader, '}', &fails));
    return !fails;
}

/* Reads an object, or an array with its elements. */
static bool read_parent(struct reader *reader, bool is_object)
{
    struct oip_json *json = reader->json;
    struct oip_value *value = add_value(reader, is_object ? OIP_OBJECT : OIP_LIST);
    if (value == NULL || reader->depth == OIP_JSON_DEPTH)
        return false;
    reader->depth++;
    if (!(is_object ? read_object(reader, value) : read_list(reader, value)))
        return false;
    reader->depth--;
    value->span = (uint16_t)(&json->values[json->value_count] - value);
    return !is_object || !repeats_a_name(value);
}

static bool read_value(struct reader *reader)
{
    switch (next_character(reader)) {
    case '"':
        return read_string(reader);
    case '{':
        return read_parent(reader, true);
    case '[':
        return reader->depth == OIP_ARRAY_DEPTH ? read_array(reader) : read_parent(reader, false);
    case 't':
        return read_name(reader, "true", OIP_TRUE);
    case 'f':
        return read_name(reader, "false", OIP_FALSE);
    case 'n':
        return read_name(reader, "null", OIP_NULL);
    case '\0':
        return false;
    default:
        return read_number(reader);
    }
}

bool oip_json_read(struct oip_json *json, const char *text, uint64_t bytes)
{
    struct reader reader = {.at = text, .start = text, .end = text + bytes, .json = json};
    json->value_count = json->array_count = json->decoded_bytes = 0;
    const char first = next_character(&reader);
    return (first == '{' || first == '[') && read_value(&reader) &&
           next_character(&reader) == '\0' && reader.at == reader.end &&
           short_bytes(&reader) <= OIP_JSON_BYTES;
}

/* ---- looking at values ---- */

bool oip_json_is(const struct oip_value *string, const char *text)
{
    const size_t length = strlen(text);
    return string->bytes == length && memcmp(string->text, text, length) == 0;
}

const struct oip_value *oip_json_next(const struct oip_value *value)
{
    return value + value->span;
}

const struct oip_value *oip_json_member(const struct oip_value *object, const char *name)
{
    if (object == NULL || object->kind != OIP_OBJECT)
        return NULL;
    const struct oip_value *member = object + 1;
    for (uint32_t i = 0; i < object->count; i++) {
        if (oip_json_is(member, name))
            return member[1].kind == OIP_NULL ? NULL : member + 1;
        member = oip_json_next(member + 1);
    }
    return NULL;
}
