/*
 * memory_header.h - the header Gemmd-Memory, which gives the locations of a request's operands and
 * result in the memory that the client shares with the daemon.
 *
 *     Gemmd-Memory: a=0, b=16777216, c=33554432
 *
 * The header is a list of names. Each name has an offset in bytes from the start of the shared
 * memory. Each operation, such as a product, defines the names that the operation takes. The
 * structures own no memory. The functions keep no state, allocate no memory and may be called from
 * any thread.
 */
#ifndef PROTO_MEMORY_HEADER_H
#define PROTO_MEMORY_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

#define MEMORY_HEADER "Gemmd-Memory"

enum {
    MEMORY_LOCATIONS_MAX = 8, /* locations in one header */
    MEMORY_NAME_MAX = 7,      /* bytes of a name, without the terminator */
    MEMORY_HEADER_MAX = 256   /* bytes that memory_header_write needs, with the terminator */
};

struct memory_location {
    char name[MEMORY_NAME_MAX + 1];
    uint64_t offset; /* bytes from the start of the shared memory */
};

struct memory_locations {
    struct memory_location locations[MEMORY_LOCATIONS_MAX];
    uint32_t count;
};

/* Parses the value of the header, a terminated string. GEMMD_ERR_MALFORMED if the text is not a
 * list of 1 to MEMORY_LOCATIONS_MAX locations, or a name is repeated. The function does not check
 * that an offset is inside the shared memory. */
enum gemmd_error memory_header_read(const char *text, struct memory_locations *locations,
                                    struct fault *fault);
/* Writes the value of the header to `out` as a terminated string. */
void memory_header_write(const struct memory_locations *locations, char out[MEMORY_HEADER_MAX]);
/* Returns the location with the given name, borrowed from `locations`; NULL if no location has the
 * name. */
const struct memory_location *memory_locations_find(const struct memory_locations *locations,
                                                    const char *name);

#endif
