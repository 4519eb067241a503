/*
 * print_table.h - prints the table of a command on standard output.
 */
#ifndef GEMMCTL_PRINT_TABLE_H
#define GEMMCTL_PRINT_TABLE_H

#include "client/gemmctl/command.h"
#include "client/gemmctl/table.h"

/* Prints a table. If the table has no rows, prints the sentence `empty` on standard error, unless
 * --quiet is given. Returns the exit code. */
int print_table(const struct context *context, const struct table *table, const char *empty);

#endif
