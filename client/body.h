/*
 * body.h - a request's body as the pieces it lies in, read in order without joining them.
 *
 * The pieces are borrowed. Used by one thread at a time; nothing is allocated.
 */
#ifndef CLIENT_BODY_H
#define CLIENT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BODY_PIECES_MAX = 8 };

struct body_piece {
    const char *name; /* static; what it is called where it can be in shared memory; else NULL */
    const void *data;
    uint64_t bytes;
};

struct body {
    struct body_piece pieces[BODY_PIECES_MAX];
    uint32_t count;
    uint64_t bytes;    /* of all pieces */
    uint64_t position; /* of the next byte to read */
    uint32_t piece;    /* the one that holds `position`, or `count` at the end */
    uint64_t offset;   /* of `position` in that piece */
};

void body_init(struct body *body);
/* Appends a piece without a name. False if there are too many, or the total overflows. */
bool body_append(struct body *body, const void *data, uint64_t bytes);
/* Copies at most `room` of the next bytes to `out`; 0 at the end. */
size_t body_read(struct body *body, void *out, size_t room);
/* Makes the byte at `position` the next one. False if it lies past the end. */
bool body_seek(struct body *body, uint64_t position);

#endif
