#include "client/gemmctl/table.h"

#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/terminal.h"

enum { GAP = 2 };

void table_start(struct table *table, const struct table_column *columns, uint32_t column_count)
{
    *table = (struct table){.columns = columns, .column_count = column_count};
}

static bool make_room(struct table *table)
{
    if (table->rows < table->room)
        return true;
    const uint64_t room = table->room * 2 + 16;
    char **cells = reallocarray(table->cells, room * table->column_count, sizeof *cells);
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->room = room;
    return true;
}

void table_add(struct table *table, const char *const cells[])
{
    if (table->failed || !make_room(table)) {
        table->failed = true;
        return;
    }
    char **row = &table->cells[table->rows++ * table->column_count];
    for (uint32_t i = 0; i < table->column_count; i++) {
        row[i] = terminal_visible(cells[i]);
        table->failed = table->failed || row[i] == NULL;
    }
}

uint32_t table_width(const char *text)
{
    uint32_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; /* continuation bytes take no column */
    return width;
}

static const char *cell_of(const struct table *table, uint64_t row, uint32_t column)
{
    return table->cells[row * table->column_count + column];
}

static void print_row(const struct table *table, const uint32_t widths[TABLE_COLUMNS_MAX],
                      const char *const cells[TABLE_COLUMNS_MAX], FILE *to)
{
    uint32_t pending = 0; /* spaces before the next cell that has text */
    for (uint32_t i = 0; i < table->column_count; i++) {
        const uint32_t width = table_width(cells[i]), free_columns = widths[i] - width;
        if (width > 0) {
            pending += table->columns[i].right ? free_columns : 0;
            fprintf(to, "%*s%s", (int)pending, "", cells[i]);
            pending = table->columns[i].right ? 0 : free_columns;
        } else {
            pending += widths[i];
        }
        pending += GAP;
    }
}

/* Measures the columns, each of which has at least `least` columns of the terminal. */
static void measure(const struct table *table, uint32_t least, uint32_t widths[TABLE_COLUMNS_MAX])
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        const uint32_t title = table_width(table->columns[i].title);
        widths[i] = title > least ? title : least;
        for (uint64_t row = 0; row < table->rows; row++) {
            const uint32_t width = table_width(cell_of(table, row, i));
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
}

bool table_print(const struct table *table, bool bold, FILE *to)
{
    uint32_t widths[TABLE_COLUMNS_MAX];
    const char *cells[TABLE_COLUMNS_MAX];
    if (table->failed)
        return false;
    if (table->rows == 0)
        return true;
    measure(table, 0, widths);
    for (uint32_t i = 0; i < table->column_count; i++)
        cells[i] = table->columns[i].title;
    fputs(terminal_bold(bold), to);
    print_row(table, widths, cells, to);
    fprintf(to, "%s\n", terminal_plain(bold));
    for (uint64_t row = 0; row < table->rows; row++) {
        for (uint32_t i = 0; i < table->column_count; i++)
            cells[i] = cell_of(table, row, i);
        print_row(table, widths, cells, to);
        fputc('\n', to);
    }
    return true;
}

static void print_markdown_cell(const char *cell, bool right, uint32_t width, FILE *to)
{
    const int space = (int)(width - table_width(cell));
    fprintf(to, " %*s%s%*s |", right ? space : 0, "", cell, right ? 0 : space, "");
}

bool table_print_markdown(const struct table *table, FILE *to)
{
    enum { RULE_MIN = 3 };
    uint32_t widths[TABLE_COLUMNS_MAX];
    if (table->failed)
        return false;
    measure(table, RULE_MIN, widths);
    fputc('|', to);
    for (uint32_t i = 0; i < table->column_count; i++)
        print_markdown_cell(table->columns[i].title, table->columns[i].right, widths[i], to);
    fputs("\n|", to);
    for (uint32_t i = 0; i < table->column_count; i++) {
        for (uint32_t dash = 0; dash < widths[i] + 1; dash++)
            fputc('-', to);
        fputs(table->columns[i].right ? ":|" : "-|", to);
    }
    for (uint64_t row = 0; row < table->rows; row++) {
        fputs("\n|", to);
        for (uint32_t i = 0; i < table->column_count; i++)
            print_markdown_cell(cell_of(table, row, i), table->columns[i].right, widths[i], to);
    }
    fputc('\n', to);
    return true;
}

void table_free(struct table *table)
{
    for (uint64_t i = 0; i < table->rows * table->column_count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){0};
}
