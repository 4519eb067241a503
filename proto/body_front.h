/*
 * body_front.h - a body of which only the front has been received so far.
 *
 * The header of a format says where the body's arrays lie, so that the locations of the arrays are
 * known before their bytes have been received. A reader reads no byte behind the received front. If
 * the front is too short, the reader sets `wanted` and returns GEMMD_ERR_CONFLICT, without a
 * sentence in the fault. A reader of a complete body never returns GEMMD_ERR_CONFLICT.
 */
#ifndef PROTO_BODY_FRONT_H
#define PROTO_BODY_FRONT_H

#include <stdint.h>

struct body_front {
    const unsigned char *bytes; /* borrowed; the memory of the whole body */
    uint64_t length;            /* length of the whole body */
    uint64_t received;          /* number of bytes received, from the front */
    uint64_t wanted;            /* number of bytes that the reader needs */
};

#endif
