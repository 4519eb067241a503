/*
 * watch.h - ends a computation of the CPU backend before its end.
 */
#ifndef KERNELS_CPU_WATCH_H
#define KERNELS_CPU_WATCH_H

#include <stdbool.h>

#include "kernels/gemm.h"

/* Has the kernels that run in the context ask `stops` every few milliseconds whether they have to
 * stop, until cpu_watch_end. The context's threads call `stops` at the same time. A kernel that
 * stops returns GEMMD_OK with an incomplete result. Small problems are computed without asking. */
void cpu_watch_begin(struct gemm_context *context, bool (*stops)(void *argument), void *argument);
/* Ends the watch. Returns whether a kernel has stopped early. */
bool cpu_watch_end(struct gemm_context *context);

#endif
