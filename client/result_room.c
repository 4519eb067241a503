#include "client/result_room.h"

#include <stdlib.h>

#include "client/failure.h"

enum { RESULT_ALIGNMENT = 64 };

enum gemmd_error result_room(struct gemmd_request *request, struct place *place, uint64_t bytes)
{
    if (place->data != NULL && !place->owned) {
        if (place->room < bytes)
            return failure_set(&request->error, GEMMD_ERR_USAGE, "bytes",
                               "the result takes %llu bytes and its buffer has %llu",
                               (unsigned long long)bytes, (unsigned long long)place->room);
        return GEMMD_OK;
    }
    /* What an attempt before this one left may have had another shape. */
    void *data;
    free(place->data);
    *place = (struct place){0};
    if (posix_memalign(&data, RESULT_ALIGNMENT, bytes) != 0)
        return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a result of %llu bytes",
                           (unsigned long long)bytes);
    *place = (struct place){.data = data, .room = bytes, .owned = true};
    return GEMMD_OK;
}
