#include "server/base/headers.h"

#include <assert.h>
#include <string.h>

void headers_clear(struct headers *headers)
{
    headers->count = headers->length = 0; /* nothing else of an empty list is read */
}

void headers_add(struct headers *headers, const char *name, const char *value)
{
    size_t bytes = strlen(value) + 1;
    assert(headers->count < HEADERS_MAX && bytes <= HEADERS_TEXT_MAX - headers->length);
    memcpy(headers->text + headers->length, value, bytes);
    headers->entries[headers->count].name = name;
    headers->entries[headers->count].value = headers->length;
    headers->count++;
    headers->length += (uint32_t)bytes;
}

const char *headers_value(const struct headers *headers, uint32_t index)
{
    return headers->text + headers->entries[index].value;
}
