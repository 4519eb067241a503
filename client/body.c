#include "client/body.h"

#include <string.h>

#include "proto/size.h"

void body_init(struct body *body)
{
    *body = (struct body){0};
}

bool body_append(struct body *body, const void *data, uint64_t bytes)
{
    if (body->count == BODY_PIECES_MAX || !size_add(body->bytes, bytes, &body->bytes))
        return false;
    body->pieces[body->count++] = (struct body_piece){.data = data, .bytes = bytes};
    return true;
}

size_t body_read(struct body *body, void *out, size_t room)
{
    size_t copied = 0;
    while (copied < room && body->piece < body->count) {
        const struct body_piece *piece = &body->pieces[body->piece];
        uint64_t left = piece->bytes - body->offset;
        size_t part = left < room - copied ? (size_t)left : room - copied;
        if (part > 0)
            memcpy((char *)out + copied, (const char *)piece->data + body->offset, part);
        copied += part;
        body->offset += part;
        if (body->offset == piece->bytes) {
            body->piece++;
            body->offset = 0;
        }
    }
    body->position += copied;
    return copied;
}

bool body_seek(struct body *body, uint64_t position)
{
    if (position > body->bytes)
        return false;
    body->position = position;
    body->piece = 0;
    while (body->piece < body->count && position >= body->pieces[body->piece].bytes)
        position -= body->pieces[body->piece++].bytes;
    body->offset = position;
    return true;
}
