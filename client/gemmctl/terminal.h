/*
 * terminal.h - whether standard output and standard error are terminals, and have colours; and how
 * texts from elsewhere are printed there.
 *
 * A terminal obeys control characters. A text that gemmctl has not written itself, such as a name
 * or a sentence of the daemon, is therefore printed by terminal_put or print_json (print.h), or is
 * a cell of a table (table.h). These print each control character, and each byte that is not UTF-8,
 * as its code, such as "\x1b".
 */
#ifndef GEMMCTL_TERMINAL_H
#define GEMMCTL_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct terminal {
    bool out_is_tty, err_is_tty;
    bool out_color, err_color;
    bool moves; /* a line on standard error can be redrawn */
};

/* Looks at the terminals. The environment's NO_COLOR (no-color.org), TERM=dumb, and `no_color` turn
 * colours off. */
struct terminal terminal_look(bool no_color);
/* Whether standard output is a pipe or a socket whose reader has closed it. */
bool terminal_reader_left(void);
/* The escape sequences for bold, red and plain text; "" if `color` is false. */
const char *terminal_bold(bool color);
const char *terminal_red(bool color);
const char *terminal_plain(bool color);

/* Prints a text from elsewhere. terminal_put prints one line, in which a newline is a control
 * character too, and returns the number of bytes that were printed. */
size_t terminal_put(const char *text, FILE *to);
void terminal_put_lines(const char *text, FILE *to);
/* Returns the text that terminal_put prints as a new string, which the caller frees; NULL: there is
 * no memory. */
char *terminal_visible(const char *text);
/* Returns the code of the control character (C0, DEL or C1) at `text`, which is not empty, or of
 * the byte there if the byte is not UTF-8; -1: an ordinary character. Sets `*length` to the number
 * of bytes. */
int terminal_control(const char *text, uint32_t *length);

#endif
