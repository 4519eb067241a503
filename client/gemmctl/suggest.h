/*
 * suggest.h - guesses the word that a user meant who mistyped one.
 */
#ifndef GEMMCTL_SUGGEST_H
#define GEMMCTL_SUGGEST_H

#include <stdint.h>

/* The name nearest to `word` by insertions, deletions, replacements and swaps of neighbours
 * (optimal string alignment), or NULL if none is near. Borrowed from `names`. */
const char *suggest(const char *word, const char *const *names, uint32_t count);

#endif
