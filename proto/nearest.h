/*
 * nearest.h - finds the name that a mistyped name means ("did you mean"): the candidate that is the
 * fewest edits away.
 *
 * Start a search, offer it every candidate, and read `best`. Upper and lower case are the same. The
 * beginning of a candidate ("prec" of "precision") counts as one edit, and a candidate with more
 * behind it ("activation" for "act") as one and a half. A candidate that differs in too much is not
 * found. Functions of any thread; one thread at a time may use a search.
 */
#ifndef PROTO_NEAREST_H
#define PROTO_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *name; /* the mistyped name; borrowed, and not terminated */
    size_t length;
    const char *best; /* the nearest candidate so far; NULL: no candidate is near */
    size_t fewest;    /* halves of edits; a candidate with as many is taken only if it is shorter */
};

void nearest_start(struct nearest *search, const char *name, size_t length);
/* Compares a candidate, which must live as long as the search. */
void nearest_offer(struct nearest *search, const char *candidate);

#endif
