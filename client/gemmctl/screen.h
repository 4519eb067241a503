/*
 * screen.h - the whole terminal, for a view that is redrawn, with the keys that are pressed.
 *
 * Only one screen may be open, since signal handlers have to find its terminal.
 */
#ifndef GEMMCTL_SCREEN_H
#define GEMMCTL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum screen_event { SCREEN_TIME, SCREEN_RESIZED, SCREEN_LEAVE };

/* Whether standard input and standard output are a terminal that can be redrawn. */
bool screen_is_possible(void);
/* Opens the alternate screen: the terminal shows its old text again after screen_close. Keys are
 * not echoed. Ctrl-C and SIGTERM are events; a second one restores the terminal and ends gemmctl
 * at once, with status 130. False: the terminal cannot be set up. */
bool screen_open(void);
void screen_close(void);

/* The size of the terminal; 24 rows of 80 columns if the terminal does not tell. */
void screen_size(uint32_t *rows, uint32_t *columns);
/* Draws a text from the top. Lines beyond the last row and characters beyond the last column are
 * left out. Escape sequences that end in "m" take no column. */
void screen_draw(const char *text);

/* Waits for at most `ms` milliseconds. SCREEN_LEAVE: q, Ctrl-C, SIGTERM, or the terminal is gone.
 * SCREEN_RESIZED: the terminal has another size. */
enum screen_event screen_wait(uint32_t ms);
/* Whether Ctrl-C or SIGTERM has ended the view, and not the key q. */
bool screen_interrupted(void);

#endif
