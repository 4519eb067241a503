#include "proto/oip_data.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/oip_datatype.h"

enum { NUMBER_MAX = 128 }; /* size of a buffer for one number's text, with the terminator */

struct reader {
    const char *at, *end;
    const char *name; /* the tensor's name */
    struct fault *fault;
};

static enum gemmd_error wrong_data(const struct reader *reader, const char *what)
{
    return fault_set(reader->fault, GEMMD_ERR_MALFORMED, NULL, "input '%s': %s", reader->name,
                     what);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && is_space(*reader->at))
        reader->at++;
}

/* Skips white space and returns the next character; '\0' at the end of the text. */
static char next_data_character(struct reader *reader)
{
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_number(char c)
{
    return is_digit(c) || c == '.' || c == '-' || c == 'e' || c == 'E' || c == '+';
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text))
        text++;
    return text;
}

/* Returns whether `text` is a number of JSON's grammar (RFC 8259, section 6). Sets `*whole` to
 * whether the number has neither a fraction nor an exponent. */
static bool is_number(const char *text, bool *whole)
{
    const char *start = text + (*text == '-');
    const char *end = skip_digits(start);
    if (end == start || (*start == '0' && end != start + 1))
        return false;
    *whole = *end == '\0';
    if (*end == '.') {
        start = end + 1;
        end = skip_digits(start);
        if (end == start)
            return false;
    }
    if (*end == 'e' || *end == 'E') {
        start = end + 1;
        start += *start == '+' || *start == '-';
        end = skip_digits(start);
        if (end == start)
            return false;
    }
    return *end == '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns whether `text` is a word for a NaN or an infinity, as RapidJSON reads them
 * (kParseNanAndInfFlag). */
static bool is_not_finite(const char *text)
{
    text += *text == '-';
    return strcmp(text, "NaN") == 0 || strcmp(text, "Inf") == 0 || strcmp(text, "Infinity") == 0;
}

/* Returns whether the text goes on with what may be such a word. */
static bool begins_word(const struct reader *reader)
{
    const char *at = reader->at + (reader->at < reader->end && *reader->at == '-');
    return at < reader->end && (*at == 'N' || *at == 'I');
}

static enum gemmd_error take_number(struct reader *reader, char text[NUMBER_MAX], bool *whole)
{
    const bool is_word = begins_word(reader);
    uint32_t length = 0;
    while (reader->at < reader->end &&
           (is_of_number(*reader->at) || (is_word && is_letter(*reader->at)))) {
        if (length == NUMBER_MAX - 1)
            return wrong_data(reader, "a number is too long");
        text[length++] = *reader->at++;
    }
    text[length] = '\0';
    *whole = false;
    return is_number(text, whole) || is_not_finite(text)
               ? GEMMD_OK
               : wrong_data(reader, "what is not a number is in an array");
}

/* Reads a dimension, a whole number of at most 18 digits, which always fits in `*dim`. */
static bool take_dimension(struct reader *reader, uint64_t *dim)
{
    const char *first = reader->at;
    uint64_t value = 0;
    for (; reader->at < reader->end && is_digit(*reader->at); reader->at++)
        value = value * 10 + (uint64_t)(*reader->at - '0');
    *dim = value;
    return reader->at > first && reader->at - first <= 18 &&
           (*first != '0' || reader->at - first == 1) &&
           (reader->at == reader->end || !is_of_number(*reader->at));
}

enum gemmd_error oip_data_shape(const struct oip_array *array, const char *name,
                                uint64_t dims[TENSOR_MAX_RANK], uint32_t *rank, struct fault *fault)
{
    struct reader reader = {array->text + 1, array->text + array->bytes, name, fault};
    *rank = 0;
    for (char next = next_data_character(&reader); next != ']';
         next = next_data_character(&reader)) {
        if (*rank > 0 && next != ',')
            return wrong_data(&reader, "its shape is not an array of whole numbers");
        if (*rank > 0)
            reader.at++;
        next_data_character(&reader);
        if (*rank == TENSOR_MAX_RANK)
            return wrong_data(&reader, "its shape has more than 8 dimensions");
        if (!take_dimension(&reader, &dims[*rank]))
            return wrong_data(&reader, "its shape is not an array of whole numbers");
        ++*rank;
    }
    return GEMMD_OK;
}

/* Reads a whole number from `least` to `most`. A text of more than 18 characters is refused, so
 * that strtoll cannot overflow. */
static bool read_whole(const char *text, bool whole, int64_t least, int64_t most, int64_t *out)
{
    if (!whole || strlen(text) > 18)
        return false;
    *out = strtoll(text, NULL, 10);
    return *out >= least && *out <= most;
}

/* Stores a number as element `index` of `out`. Returns false if the type cannot represent the
 * number. */
static bool store_number(const char *text, bool whole, enum gemmd_dtype dtype, void *out,
                         uint64_t index)
{
    int64_t number = 0;
    switch (dtype) {
    case GEMMD_F64:
        ((double *)out)[index] = strtod(text, NULL);
        return isfinite(((double *)out)[index]) || is_not_finite(text);
    case GEMMD_F32:
        ((float *)out)[index] = strtof(text, NULL);
        return isfinite(((float *)out)[index]) || is_not_finite(text);
    case GEMMD_I32:
        if (!read_whole(text, whole, INT32_MIN, INT32_MAX, &number))
            return false;
        ((int32_t *)out)[index] = (int32_t)number;
        return true;
    case GEMMD_I8:
        if (!read_whole(text, whole, INT8_MIN, INT8_MAX, &number))
            return false;
        ((int8_t *)out)[index] = (int8_t)number;
        return true;
    case GEMMD_F8_E4M3:
        if (!read_whole(text, whole, 0, UINT8_MAX, &number))
            return false;
        ((uint8_t *)out)[index] = (uint8_t)number;
        return true;
    default:
        return false;
    }
}

/* The reader's position in the nested arrays of a tensor's data. */
struct position {
    uint32_t depth;                       /* number of open brackets */
    uint32_t leaf;                        /* depth of the numbers; 0 before the first number */
    uint64_t counts[TENSOR_MAX_RANK + 1]; /* numbers or arrays read so far, by depth */
    uint64_t elements, expected;
};

static enum gemmd_error open_bracket(struct reader *reader, struct position *position,
                                     uint32_t rank)
{
    if (position->depth == rank)
        return wrong_data(reader, "its data nests deeper than its shape");
    position->counts[position->depth]++;
    position->depth++;
    position->counts[position->depth] = 0;
    reader->at++;
    return GEMMD_OK;
}

static enum gemmd_error close_bracket(struct reader *reader, struct position *position,
                                      const struct tensor *tensor)
{
    const bool flat = position->leaf == 1 && position->depth == 1;
    if (!flat && (position->leaf == 1 ||
                  position->counts[position->depth] != tensor->dims[position->depth - 1]))
        return wrong_data(reader, "its data is neither flat nor nested as its shape is");
    position->depth--;
    reader->at++;
    return GEMMD_OK;
}

static enum gemmd_error read_element(struct reader *reader, struct position *position,
                                     const struct tensor *tensor, void *out)
{
    char text[NUMBER_MAX] = "";
    bool whole = false;
    enum gemmd_error code = take_number(reader, text, &whole);
    if (code != GEMMD_OK)
        return code;
    if (position->leaf == 0)
        position->leaf = position->depth;
    if (position->depth != position->leaf ||
        (position->leaf != 1 && position->leaf != tensor->rank))
        return wrong_data(reader, "its data is neither flat nor nested as its shape is");
    if (position->elements == position->expected)
        return wrong_data(reader, "its data has more elements than its shape");
    if (!store_number(text, whole, tensor->dtype, out, position->elements))
        return fault_set(reader->fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its data has %.32s, which is not a number of type %s",
                         reader->name, text, oip_datatype(tensor->dtype));
    position->elements++;
    position->counts[position->depth]++;
    return GEMMD_OK;
}

enum gemmd_error oip_data_read(const struct oip_array *array, const char *name,
                               const struct tensor *tensor, void *out, struct fault *fault)
{
    struct reader reader = {array->text, array->text + array->bytes, name, fault};
    struct position position = {.expected = tensor->bytes / dtype_size(tensor->dtype)};
    bool value_next = true; /* true: a number or [ is due; false: a comma or ] */
    bool may_close = false; /* true right after [, because an array may be empty */
    do {
        enum gemmd_error code;
        const char next = next_data_character(&reader);
        if (value_next && next == '[') {
            code = open_bracket(&reader, &position, tensor->rank);
            may_close = true;
        } else if (next == ']' && (!value_next || may_close)) {
            code = close_bracket(&reader, &position, tensor);
            value_next = may_close = false;
        } else if (!value_next && next == ',') {
            reader.at++;
            code = GEMMD_OK;
            value_next = true;
        } else if (value_next) {
            code = read_element(&reader, &position, tensor, out);
            value_next = may_close = false;
        } else {
            code = wrong_data(&reader, "its data is not a JSON array of numbers");
        }
        if (code != GEMMD_OK)
            return code;
    } while (position.depth > 0);
    if (position.elements != position.expected)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "input '%s': its data has %" PRIu64 " elements, its shape %" PRIu64, name,
                         position.elements, position.expected);
    return GEMMD_OK;
}

uint32_t oip_data_text_max(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F64 ? sizeof "-1.7976931348623157e+308" : sizeof "-1.23456789e-38";
}

/* Writes a float with the digits that tell the value from its neighbours, or as the word that
 * RapidJSON writes (kWriteNanAndInfFlag). Returns the number of characters. */
static int write_float(double value, int digits, char text[static NUMBER_MAX])
{
    if (isfinite(value))
        return snprintf(text, NUMBER_MAX, "%.*g", digits, value);
    return snprintf(text, NUMBER_MAX, "%s",
                    isnan(value) ? "NaN"
                    : value < 0  ? "-Infinity"
                                 : "Infinity");
}

static int write_whole(int32_t value, char text[static NUMBER_MAX])
{
    return snprintf(text, NUMBER_MAX, "%" PRId32, value);
}

/* Writes element `index` of the tensor. Returns the number of characters. */
static int write_element(const struct tensor *tensor, uint64_t index, char text[static NUMBER_MAX])
{
    switch (tensor->dtype) {
    case GEMMD_F64:
        return write_float(((const double *)tensor->data)[index], DBL_DECIMAL_DIG, text);
    case GEMMD_F32:
        return write_float((double)((const float *)tensor->data)[index], FLT_DECIMAL_DIG, text);
    case GEMMD_I32:
        return write_whole(((const int32_t *)tensor->data)[index], text);
    case GEMMD_I8:
        return write_whole(((const int8_t *)tensor->data)[index], text);
    case GEMMD_F8_E4M3:
        return write_whole(((const uint8_t *)tensor->data)[index], text);
    default:
        return 0;
    }
}

char *oip_data_write(const struct tensor *tensor, uint64_t from, uint64_t to, char *out)
{
    for (uint64_t i = from; i < to; i++) {
        char text[NUMBER_MAX];
        const int length = write_element(tensor, i, text);
        if (i > 0)
            *out++ = ',';
        memcpy(out, text, (size_t)length);
        out += length;
    }
    return out;
}
