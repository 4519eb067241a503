/*
 * memory_header.h - the header Gemmd-Memory: where a request's operands and result lie in the
 * memory that the client shares with the daemon.
 *
 *     Gemmd-Memory: a=0, b=16777216, c=33554432
 *
 * The header lists names with their offsets from the start of the shared memory, in bytes. The
 * operation gives the names their meaning. Any thread.
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

/* Parses the header. GEMMD_ERR_MALFORMED if the text is no list of locations, the list is empty, or
 * a name is repeated. */
enum gemmd_error memory_header_read(const char *text, struct memory_locations *locations,
                                    struct fault *fault);
/* Writes the value of the header, terminated. */
void memory_header_write(const struct memory_locations *locations, char out[MEMORY_HEADER_MAX]);
/* Returns the location of that name, which points into `locations`; NULL if no location has it. */
const struct memory_location *memory_locations_find(const struct memory_locations *locations,
                                                    const char *name);

#endif
