/*
 * body.h - a request's body as a list of pieces of memory, which are read in order without being
 * joined.
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
    const char *name; /* static; the operand's name if it may lie in shared memory, else NULL */
    const void *data;
    uint64_t bytes;
};

struct body {
    struct body_piece pieces[BODY_PIECES_MAX];
    uint32_t count;
    uint64_t bytes;    /* total length of all pieces */
    uint64_t position; /* offset of the next byte to read in the body */
    uint32_t piece;    /* index of the piece that holds `position`; `count` at the end */
    uint64_t offset;   /* offset of `position` in that piece */
};

void body_init(struct body *body);
/* Appends a piece without a name. False if there are BODY_PIECES_MAX pieces already, or if the
 * total length overflows. */
bool body_append(struct body *body, const void *data, uint64_t bytes);
/* Copies the next bytes, at most `room`, to `out`. Returns their number; 0 at the end. */
size_t body_read(struct body *body, void *out, size_t room);
/* Makes `position` the offset of the next byte to read. False if `position` is past the end. */
bool body_seek(struct body *body, uint64_t position);

#endif
