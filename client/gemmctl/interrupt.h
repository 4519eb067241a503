/*
 * interrupt.h - Ctrl-C and SIGTERM: the first asks to stop, the second stops at once.
 */
#ifndef GEMMCTL_INTERRUPT_H
#define GEMMCTL_INTERRUPT_H

#include <stdbool.h>

/* How long a wait may last before it looks whether it was interrupted. */
enum { INTERRUPT_CHECK_MS = 100 };

void interrupt_watch(void);
bool interrupt_asked(void);

#endif
