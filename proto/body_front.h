/*
 * body_front.h - a body of which only the front has been received so far.
 *
 * A format's header says where its arrays lie, so that their places are known before their bytes
 * are there. Readers look at nothing behind the front. Those that cannot say anything yet set
 * `wanted` and return GEMMD_ERR_CONFLICT, without a sentence; of a complete body they never do.
 */
#ifndef PROTO_BODY_FRONT_H
#define PROTO_BODY_FRONT_H

#include <stdint.h>

struct body_front {
    const unsigned char *bytes; /* borrowed; where the whole body will be */
    uint64_t length;            /* of the whole body */
    uint64_t received;          /* the first so many bytes are there */
    uint64_t wanted;            /* the first so many have to be there for another look */
};

#endif
