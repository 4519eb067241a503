/*
 * interrupt.h - Ctrl-C and SIGTERM: the first one asks gemmctl to stop, the second one ends gemmctl
 * at once.
 */
#ifndef GEMMCTL_INTERRUPT_H
#define GEMMCTL_INTERRUPT_H

#include <stdbool.h>

/* The longest time for which a function waits before it calls interrupt_asked. */
enum { INTERRUPT_CHECK_MS = 100 };

/* Installs the signal handlers. */
void interrupt_watch(void);
/* Whether a signal has arrived since interrupt_watch. */
bool interrupt_asked(void);

#endif
