/* Values in parameters and headers: numbers, sizes, base64, names of types and formats, locations
 * in shared memory, UTF-8. A value that is accepted can be written and read again. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "proto/base64.h"
#include "proto/dtype.h"
#include "proto/memory_header.h"
#include "proto/number.h"
#include "proto/oip_datatype.h"
#include "proto/tensor.h"
#include "proto/tensor_request.h"
#include "proto/utf8.h"

static void check_numbers(const char *text)
{
    uint64_t value, again;
    double number;
    bool flag;
    char digits[DECIMAL_MAX + 1];
    if (number_u64(text, &value)) {
        *decimal_u64(digits, value) = '\0';
        MUST(text[0] != '\0' && strspn(text, "0123456789") == strlen(text));
        MUST(number_u64(digits, &again) && again == value);
        MUST(strcmp(digits, text + strspn(text, "0")) == 0 || value == 0);
        MUST(number_bytes(text, &again) && again == value);
    }
    if (number_f64(text, &number))
        MUST(isfinite(number) && number == strtod(text, NULL) &&
             strspn(text, "0123456789+-.eE") == strlen(text));
    if (number_flag(text, &flag))
        MUST(strcmp(text, flag ? "1" : "0") == 0);
    if (number_bytes(text, &value))
        MUST(isdigit((unsigned char)text[0]));
}

static size_t encode_base64(const uint8_t *bytes, size_t length, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t written = 0;
    for (size_t i = 0; i < length; i += 3) {
        const uint32_t left = (uint32_t)(length - i);
        const uint32_t word = (uint32_t)bytes[i] << 16 |
                              (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? bytes[i + 2] : 0);
        out[written++] = digits[word >> 18];
        out[written++] = digits[word >> 12 & 63];
        out[written++] = left > 1 ? digits[word >> 6 & 63] : '=';
        out[written++] = left > 2 ? digits[word & 63] : '=';
    }
    return written;
}

/* The text is the base64 of one number of bytes at most, and every content has a base64. */
static void check_base64(const uint8_t *bytes, size_t length)
{
    enum { SIZE_MAX_TRIED = 96 };
    unsigned lengths = 0;
    for (size_t size = 0; size <= SIZE_MAX_TRIED; size++) {
        uint8_t *out = malloc(size > 0 ? size : 1);
        lengths += base64_read((const char *)bytes, length, out, size);
        free(out);
    }
    MUST(lengths <= 1);
    if (length > SIZE_MAX_TRIED)
        return;
    char text[SIZE_MAX_TRIED * 2];
    uint8_t decoded[SIZE_MAX_TRIED];
    const size_t written = encode_base64(bytes, length, text);
    MUST(base64_read(text, written, decoded, length));
    MUST(length == 0 || memcmp(decoded, bytes, length) == 0);
}

static void check_names(const char *text)
{
    enum gemmd_dtype dtype;
    enum format format, same;
    if (dtype_from_name(text, &dtype))
        MUST(strcmp(dtype_name(dtype), text) == 0);
    if (dtype_from_safetensors(text, &dtype))
        MUST(strcmp(dtype_safetensors(dtype), text) == 0);
    for (int i = 0; i < GEMMD_DTYPE_COUNT; i++)
        (void)oip_datatype_names(text, (enum gemmd_dtype)i);
    if (format_from_media_type(text, &format))
        MUST(format_from_media_type(format_media_type(format), &same) && same == format);
    if (tensor_name_valid(text)) {
        MUST(strlen(text) >= 1 && strlen(text) <= 128);
        for (const char *p = text; *p != '\0'; p++)
            MUST(isalnum((unsigned char)*p) || strchr("._-", *p) != NULL);
    }
}

static void check_memory(const char *text)
{
    struct memory_locations locations, again;
    struct fault fault = {.code = GEMMD_OK};
    char written[MEMORY_HEADER_MAX];
    const enum gemmd_error code = memory_header_read(text, &locations, &fault);
    MUST(fault.code == code);
    if (code != GEMMD_OK) {
        MUST(code == GEMMD_ERR_MALFORMED && fault.detail[0] != '\0');
        return;
    }
    MUST(locations.count >= 1 && locations.count <= MEMORY_LOCATIONS_MAX);
    memory_header_write(&locations, written);
    MUST(memory_header_read(written, &again, NULL) == GEMMD_OK && again.count == locations.count);
    for (uint32_t i = 0; i < locations.count; i++) {
        const struct memory_location *one = &locations.locations[i];
        MUST(memory_locations_find(&again, one->name) == &again.locations[i]);
        MUST(again.locations[i].offset == one->offset);
    }
}

/* Jansson agrees with the reader of UTF-8. */
static void check_utf8(const uint8_t *bytes, size_t length)
{
    size_t at = 0, step = 1;
    while (at < length && (step = utf8_length(bytes + at, length - at)) > 0)
        at += step;
    MUST(at <= length);
    json_t *string = json_stringn((const char *)bytes, length);
    MUST((string != NULL) == (at == length));
    json_decref(string);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    check_base64(bytes, length);
    check_utf8(bytes, length);
    while (input.length > 0) {
        char *text = input_text(&input, '\n');
        check_numbers(text);
        check_names(text);
        check_memory(text);
        free(text);
    }
    return 0;
}
