#include "proto/memory_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/number.h"

static enum gemmd_error malformed(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     MEMORY_HEADER
                     " is not a list of at most %d names with their offsets in bytes, "
                     "such as a=0, b=4096",
                     MEMORY_LOCATIONS_MAX);
}

/* Parses one location of `length` bytes, such as "a=4096". */
static bool read_location(const char *text, size_t length, struct memory_location *location)
{
    char number[24];
    const char *equals = memchr(text, '=', length);
    if (equals == NULL)
        return false;
    const size_t name = (size_t)(equals - text), digits = length - name - 1;
    if (name == 0 || name > MEMORY_NAME_MAX || digits >= sizeof number)
        return false;
    memcpy(location->name, text, name);
    location->name[name] = '\0';
    memcpy(number, equals + 1, digits);
    number[digits] = '\0';
    return number_u64(number, &location->offset);
}

enum gemmd_error memory_header_read(const char *text, struct memory_locations *locations,
                                    struct fault *fault)
{
    static const char spaces[] = " \t";
    locations->count = 0;
    for (;;) {
        struct memory_location location;
        text += strspn(text, spaces);
        const size_t item = strcspn(text, ",");
        size_t length = item;
        while (length > 0 && strchr(spaces, text[length - 1]) != NULL)
            length--;
        if (locations->count == MEMORY_LOCATIONS_MAX || !read_location(text, length, &location))
            return malformed(fault);
        if (memory_locations_find(locations, location.name) != NULL)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, MEMORY_HEADER " names %s twice",
                             location.name);
        locations->locations[locations->count++] = location;
        if (text[item] == '\0')
            return GEMMD_OK;
        text += item + 1;
    }
}

void memory_header_write(const struct memory_locations *locations, char out[MEMORY_HEADER_MAX])
{
    /* A location is at most 7 + 1 + 20 + 2 characters long: name, equals sign, offset, separator.
     * MEMORY_LOCATIONS_MAX locations fit in `out`. */
    int length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < locations->count; i++)
        length += snprintf(out + length, MEMORY_HEADER_MAX - (size_t)length, "%s%s=%" PRIu64,
                           i > 0 ? ", " : "", locations->locations[i].name,
                           locations->locations[i].offset);
}

const struct memory_location *memory_locations_find(const struct memory_locations *locations,
                                                    const char *name)
{
    for (uint32_t i = 0; i < locations->count; i++)
        if (strcmp(locations->locations[i].name, name) == 0)
            return &locations->locations[i];
    return NULL;
}
