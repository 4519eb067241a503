/* Calls of the C library that fail when a test wants them to: functions that allocate memory,
 * pthread_cond_init and pthread_create. A program that links the library `failing_calls` sends all
 * its calls of these functions here (-Wl,--wrap). The counts are those of the calling thread. */
#ifndef GEMMD_TESTS_UNIT_FAILING_CALLS_H
#define GEMMD_TESTS_UNIT_FAILING_CALLS_H

#include <stdbool.h>

/* Lets the `number`-th call from now on fail, as it does without memory. */
void calls_fail(long number);

/* Lets no further call fail. Returns whether a call has failed since calls_fail. */
bool calls_end(void);

/* The number of blocks that the thread has allocated and not freed. */
long calls_live_blocks(void);

#endif
