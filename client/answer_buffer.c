#include "client/answer_buffer.h"

#include <stdlib.h>

#include "client/failure.h"

enum { RESULT_ALIGNMENT = 64 };

enum gemmd_error answer_buffer_reserve(struct gemmd_request *request, struct answer_buffer *buffer,
                                       uint64_t bytes)
{
    if (buffer->data != NULL && !buffer->owned) {
        if (buffer->room < bytes)
            return failure_set(&request->error, GEMMD_ERR_USAGE, "bytes",
                               "the result takes %llu bytes and its buffer has %llu",
                               (unsigned long long)bytes, (unsigned long long)buffer->room);
        return GEMMD_OK;
    }
    /* The buffer of an earlier attempt may have been allocated for a result of another shape. */
    void *data;
    free(buffer->data);
    *buffer = (struct answer_buffer){0};
    if (posix_memalign(&data, RESULT_ALIGNMENT, bytes) != 0)
        return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a result of %llu bytes",
                           (unsigned long long)bytes);
    *buffer = (struct answer_buffer){.data = data, .room = bytes, .owned = true};
    return GEMMD_OK;
}
