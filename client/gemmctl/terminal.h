/*
 * terminal.h - whether a person is looking, and in colour.
 */
#ifndef GEMMCTL_TERMINAL_H
#define GEMMCTL_TERMINAL_H

#include <stdbool.h>

struct terminal {
    bool out_is_tty, err_is_tty;
    bool out_color, err_color;
    bool moves; /* standard error can redraw a line */
};

/* NO_COLOR (no-color.org), TERM=dumb and `no_color` turn colours off. */
struct terminal terminal_look(bool no_color);
/* Escape sequences, or "" where colours are off. */
const char *terminal_bold(bool color);
const char *terminal_red(bool color);
const char *terminal_plain(bool color);

#endif
