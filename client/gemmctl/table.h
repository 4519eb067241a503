/*
 * table.h - a table whose columns are as wide as their widest cell.
 */
#ifndef GEMMCTL_TABLE_H
#define GEMMCTL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 10, TABLE_CELL_MAX = 192 };

struct table_column {
    const char *title;
    bool right; /* aligned to the right, for numbers */
};

struct table {
    const struct table_column *columns; /* borrowed */
    uint32_t column_count;
    char **cells; /* [rows][column_count]; the table owns the strings */
    uint64_t rows, room;
    bool failed; /* there was no memory for a row */
};

/* Starts a table without rows. */
void table_start(struct table *table, const struct table_column *columns, uint32_t column_count);
/* Adds a row with copies of `cells`, [column_count], in which control characters are visible
 * (terminal.h). A row for which there is no memory makes
 * table_print fail. */
void table_add(struct table *table, const char *const cells[]);
/* Prints the titles, in bold if `bold` is true, and the rows; nothing if the table has no rows.
 * Lines do not end with spaces. Cells are UTF-8. False: a row is missing, since memory ran out. */
bool table_print(const struct table *table, bool bold, FILE *to);
/* Prints the table in Markdown, with cells padded so that the columns line up in the text too. */
bool table_print_markdown(const struct table *table, FILE *to);
void table_free(struct table *table);

/* The number of columns of a terminal that a UTF-8 text takes, if each character takes one. */
uint32_t table_width(const char *text);

#endif
