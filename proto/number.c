#include "proto/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/size.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text))
        text++;
    return text;
}

/* Reads the digits at the front of `*text`, at least one, and moves past them. */
static bool read_digits(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (at == *text)
        return false;
    *text = at;
    *out = value;
    return true;
}

bool number_u64(const char *text, uint64_t *out)
{
    uint64_t value;
    if (!read_digits(&text, &value) || *text != '\0')
        return false;
    *out = value;
    return true;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool is_decimal(const char *text)
{
    if (*text == '+' || *text == '-')
        text++;
    const char *end = skip_digits(text);
    bool digits = end != text;
    if (*end == '.') {
        text = end + 1;
        end = skip_digits(text);
        digits = digits || end != text;
    }
    if (!digits)
        return false;
    if (*end == 'e' || *end == 'E') {
        text = end + 1;
        if (*text == '+' || *text == '-')
            text++;
        end = skip_digits(text);
        if (end == text)
            return false;
    }
    return *end == '\0';
}

bool number_f64(const char *text, double *out)
{
    if (!is_decimal(text))
        return false;
    /* The decimal point is a point whatever the program's locale says. The C library keeps
     * this locale in static memory. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    double value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

bool number_flag(const char *text, bool *out)
{
    if ((text[0] != '0' && text[0] != '1') || text[1] != '\0')
        return false;
    *out = text[0] == '1';
    return true;
}

bool number_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t value;
    if (!read_digits(&text, &value))
        return false;
    if (*text != '\0') {
        const char *unit = strchr(units, *text);
        if (unit == NULL || (text[1] != '\0' && strcmp(text + 1, "iB") != 0) ||
            !size_mul(value, 1024ull << 10 * (unit - units), &value))
            return false;
    }
    *out = value;
    return true;
}

char *decimal_u64(char *out, uint64_t value)
{
    char digits[20], *first = digits + sizeof(digits);
    do {
        *--first = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    size_t length = (size_t)(digits + sizeof(digits) - first);
    memcpy(out, first, length);
    return out + length;
}

char *decimal_milliseconds(char *out, uint64_t ns)
{
    uint64_t us = ns / 1000 + (ns % 1000 >= 500);
    out = decimal_u64(out, us / 1000);
    *out++ = '.';
    *out++ = (char)('0' + us / 100 % 10);
    *out++ = (char)('0' + us / 10 % 10);
    *out++ = (char)('0' + us % 10);
    return out;
}
