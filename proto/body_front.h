/*
 * body_front.h - a body of which only the front has been received so far.
 *
 * The header of a format says where the body's arrays lie, so that the locations of the arrays are
 * known before their bytes have been received. The front is the part of the body that has been
 * received. The function that reads the header reads no byte behind the front. If the front is too
 * short, the function sets `wanted` and returns GEMMD_ERR_CONFLICT; the fault's text is then not
 * meant for a client. A function that reads a complete body never returns GEMMD_ERR_CONFLICT.
 */
#ifndef PROTO_BODY_FRONT_H
#define PROTO_BODY_FRONT_H

#include <stdint.h>

struct body_front {
    const unsigned char *bytes; /* borrowed; memory for the whole body */
    uint64_t length;            /* length of the whole body, in bytes */
    uint64_t received;          /* number of bytes received, from the front */
    uint64_t wanted;            /* number of bytes, from the front, that are needed to read on */
};

#endif
