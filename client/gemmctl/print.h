/*
 * print.h - prints JSON documents on standard output.
 *
 * Each JSON document of gemmctl is one object whose member `version` is PRINT_JSON_VERSION. The
 * number is the version of gemmctl's own JSON: it changes when a member changes its meaning or is
 * removed, and new members leave it as it is.
 */
#ifndef GEMMCTL_PRINT_H
#define GEMMCTL_PRINT_H

#include <jansson.h>

enum { PRINT_JSON_VERSION = 2 };

/* Prints a document with indentation and a newline, and releases it. A control character in a
 * string is escaped: jansson escapes C0, and print_json DEL and C1. Nothing is printed for NULL,
 * which json_pack returns when memory has run out. */
void print_json(json_t *root);
/* Returns a string for a document: a text from elsewhere, which may be NULL, with U+FFFD in place
 * of each byte that is not UTF-8. A header of an answer or the name of a file may have such bytes,
 * and json_pack fails for them. NULL: out of memory. */
json_t *print_text(const char *text);

#endif
