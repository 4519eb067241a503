/* metrics_process.h - the figures that Linux reports about this process. Used by metrics*.c only.
 * Any thread. */
#ifndef SERVER_OBSERVE_METRICS_PROCESS_H
#define SERVER_OBSERVE_METRICS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct metrics_process {
    uint64_t cpu_ns;
    uint64_t virtual_bytes, resident_bytes;
    uint64_t threads, open_fds, max_fds;
};

/* Reads the values. A value that cannot be read is 0. */
void metrics_process_read(struct metrics_process *process);
/* The time at which the process started, in seconds since the epoch. */
double metrics_process_start_seconds(void);

#endif
