#include "proto/decimal.h"

#include <string.h>

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
