#include "client/traceparent.h"

#include <stddef.h>
#include <string.h>

static bool is_field(const char *digits, size_t length, bool may_be_zero)
{
    return strspn(digits, "0123456789abcdef") == length &&
           (may_be_zero || strspn(digits, "0") < length);
}

bool traceparent_is_valid(const char *text)
{
    return strlen(text) == TRACEPARENT_LENGTH && memcmp(text, "00-", 3) == 0 &&
           is_field(text + 3, 32, false) && text[35] == '-' && is_field(text + 36, 16, false) &&
           text[52] == '-' && is_field(text + 53, 2, true);
}
