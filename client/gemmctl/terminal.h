/*
 * terminal.h - whether standard output and standard error are terminals, and have colours.
 */
#ifndef GEMMCTL_TERMINAL_H
#define GEMMCTL_TERMINAL_H

#include <stdbool.h>

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

#endif
