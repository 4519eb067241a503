/*
 * memory_header.h - Gemmd-Memory: where, in the memory that its client shares, a request's operands
 * and its result lie.
 *
 *     Gemmd-Memory: a=0, b=16777216, c=33554432
 *
 * Names and the bytes from the memory's start. What the names mean is the operation's. Any thread.
 */
#ifndef PROTO_MEMORY_HEADER_H
#define PROTO_MEMORY_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

#define MEMORY_HEADER "Gemmd-Memory"

enum { MEMORY_LOCATIONS_MAX = 8, MEMORY_NAME_MAX = 7, MEMORY_HEADER_MAX = 256 };

struct memory_location {
    char name[MEMORY_NAME_MAX + 1];
    uint64_t offset;
};

struct memory_locations {
    struct memory_location locations[MEMORY_LOCATIONS_MAX];
    uint32_t count;
};

/* GEMMD_ERR_MALFORMED: not such a list, an empty one, or a name twice. */
enum gemmd_error memory_header_read(const char *text, struct memory_locations *locations,
                                    struct fault *fault);
/* The value of the header for some locations, terminated. */
void memory_header_write(const struct memory_locations *locations, char out[MEMORY_HEADER_MAX]);
/* NULL if there is none of that name. */
const struct memory_location *memory_locations_find(const struct memory_locations *locations,
                                                    const char *name);

#endif
