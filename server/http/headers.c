#include "server/http/headers.h"

#include <assert.h>
#include <microhttpd.h>
#include <string.h>

void headers_clear(struct headers *headers)
{
    headers->count = headers->length = 0; /* the rest is never looked at */
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

void headers_apply(const struct headers *headers, struct MHD_Response *response)
{
    for (uint32_t i = 0; i < headers->count; i++)
        MHD_add_response_header(response, headers->entries[i].name,
                                headers->text + headers->entries[i].value);
}
