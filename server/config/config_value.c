/* config_value.c - reads option values from text, and says which values an option takes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "proto/size.h"
#include "server/config/config_option.h"

static bool read_time(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        uint64_t milliseconds;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"", 1}};

    size_t digits = strspn(text, "0123456789");
    char number[24];
    if (digits >= sizeof(number))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        uint64_t value;
        if (strcmp(text + digits, units[i].suffix) == 0)
            return number_u64(number, &value) && size_mul(value, units[i].milliseconds, out);
    }
    return false;
}

/* Rounds to millionths. A share that is not 0 is at least a millionth. */
static bool read_share(const char *text, uint64_t *out)
{
    double share;
    if (!number_f64(text, &share) || share < 0 || share > 1)
        return false;
    *out = (uint64_t)(share * CONFIG_SHARE_ONE + 0.5);
    if (share > 0 && *out == 0)
        *out = 1;
    return true;
}

/* Reads up to four octal digits, as chmod(1) takes them. */
static bool read_mode(const char *text, uint64_t *out)
{
    const size_t digits = strspn(text, "01234567");
    if (digits == 0 || digits > 4 || text[digits] != '\0')
        return false;
    *out = strtoul(text, NULL, 8);
    return true;
}

static bool read_word(const char *const *words, const char *text, uint64_t *out)
{
    for (uint64_t i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool read_switch(const char *text, uint64_t *out)
{
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on", NULL};
    if (!read_word(words, text, out))
        return false;
    *out &= 1;
    return true;
}

bool config_value_read(const struct config_option *option, const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool read = false;
    switch (option->kind) {
    case CONFIG_KIND_NUMBER:
        read = number_u64(text, &value);
        break;
    case CONFIG_KIND_BYTES:
        read = number_bytes(text, &value);
        break;
    case CONFIG_KIND_TIME:
        read = read_time(text, &value);
        break;
    case CONFIG_KIND_SHARE:
        read = read_share(text, &value);
        break;
    case CONFIG_KIND_MODE:
        read = read_mode(text, &value);
        break;
    case CONFIG_KIND_SWITCH:
        read = read_switch(text, out);
        return read;
    case CONFIG_KIND_CHOICE:
        read = read_word(option->choices, text, out);
        return read;
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_ADDRESSES:
    case CONFIG_KIND_ACTION:
        return false;
    }
    if (!read || value < option->min || value > option->max)
        return false;
    *out = value;
    return true;
}

void config_value_write(const struct config_option *option, uint64_t value, char out[32])
{
    if (option->kind == CONFIG_KIND_SHARE)
        snprintf(out, 32, "%.6g", (double)value / CONFIG_SHARE_ONE);
    else if (option->kind == CONFIG_KIND_MODE)
        snprintf(out, 32, "%04" PRIo64, value);
    else
        snprintf(out, 32, "%" PRIu64, value);
}

/* Writes a value in the largest unit that divides it, as a user would write it: 64MiB, 10s. */
static void write_scaled(uint64_t value, const char *const *units, const uint64_t *sizes,
                         char out[32])
{
    uint32_t unit = 0;
    while (units[unit + 1] && (value == 0 || value % sizes[unit] != 0))
        unit++;
    snprintf(out, 32, "%" PRIu64 "%s", value / sizes[unit], units[unit]);
}

static void write_limit(enum config_kind kind, uint64_t value, char out[32])
{
    static const char *const byte_units[] = {"TiB", "GiB", "MiB", "KiB", "", NULL};
    static const uint64_t byte_sizes[] = {UINT64_C(1) << 40, UINT64_C(1) << 30, UINT64_C(1) << 20,
                                          UINT64_C(1) << 10, 1};
    static const char *const time_units[] = {"h", "s", "ms", NULL};
    static const uint64_t time_sizes[] = {3600000, 1000, 1};

    if (kind == CONFIG_KIND_BYTES)
        write_scaled(value, byte_units, byte_sizes, out);
    else if (kind == CONFIG_KIND_TIME)
        write_scaled(value, time_units, time_sizes, out);
    else
        snprintf(out, 32, "%" PRIu64, value);
}

void config_value_expected(const struct config_option *option, char out[CONFIG_TEXT_MAX])
{
    const char *what = "", *examples = "";
    switch (option->kind) {
    case CONFIG_KIND_SWITCH:
        snprintf(out, CONFIG_TEXT_MAX, "true or false");
        return;
    case CONFIG_KIND_CHOICE: {
        size_t length = (size_t)snprintf(out, CONFIG_TEXT_MAX, "one of");
        for (uint32_t i = 0; option->choices[i] && length < CONFIG_TEXT_MAX; i++)
            length += (size_t)snprintf(out + length, CONFIG_TEXT_MAX - length, "%s %s",
                                       i ? "," : "", option->choices[i]);
        return;
    }
    case CONFIG_KIND_NUMBER:
        what = "a whole number";
        break;
    case CONFIG_KIND_BYTES:
        what = "a size";
        examples = ", such as 64M or 2GiB";
        break;
    case CONFIG_KIND_SHARE:
        snprintf(out, CONFIG_TEXT_MAX, "a number from 0 to 1, such as 0.01");
        return;
    case CONFIG_KIND_MODE:
        snprintf(out, CONFIG_TEXT_MAX, "an octal number from 0 to 0%" PRIo64 ", such as 0660",
                 option->max);
        return;
    case CONFIG_KIND_TIME:
        what = "a time";
        examples = ", such as 500ms, 10s or 2m";
        break;
    case CONFIG_KIND_ADDRESSES:
        snprintf(out, CONFIG_TEXT_MAX, "an address or an array of addresses");
        return;
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_ACTION:
        snprintf(out, CONFIG_TEXT_MAX, "a string");
        return;
    }
    char min[32], max[32];
    write_limit(option->kind, option->min, min);
    write_limit(option->kind, option->max, max);
    snprintf(out, CONFIG_TEXT_MAX, "%s from %s to %s%s", what, min, max, examples);
}

void config_value_store(struct config *config, const struct config_option *option, uint64_t value)
{
    unsigned char *field = (unsigned char *)config + option->offset;
    if (option->kind == CONFIG_KIND_SWITCH) {
        bool on = value != 0;
        memcpy(field, &on, sizeof(on));
    } else if (option->size == sizeof(uint32_t)) {
        uint32_t narrow = (uint32_t)value;
        memcpy(field, &narrow, sizeof(narrow));
    } else {
        memcpy(field, &value, sizeof(value));
    }
}

uint64_t config_value_load(const struct config *config, const struct config_option *option)
{
    const unsigned char *field = (const unsigned char *)config + option->offset;
    if (option->kind == CONFIG_KIND_SWITCH) {
        bool on;
        memcpy(&on, field, sizeof(on));
        return on;
    }
    if (option->size == sizeof(uint32_t)) {
        uint32_t narrow;
        memcpy(&narrow, field, sizeof(narrow));
        return narrow;
    }
    uint64_t value;
    memcpy(&value, field, sizeof(value));
    return value;
}
