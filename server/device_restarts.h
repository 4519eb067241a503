/*
 * device_restarts.h - how often the daemon has replaced itself after the loss of its device.
 *
 * The daemon replaces itself by executing its program again in the same process. The counts are
 * passed to the program in the variable GEMMD_DEVICE_RESTARTS of the environment: the number of all
 * restarts, and the times of the last restarts on the monotonic clock, in nanoseconds. A device
 * that is lost again and again is not usable, so the number of restarts within a minute is limited.
 *
 * All functions are called by the main thread.
 */
#ifndef SERVER_DEVICE_RESTARTS_H
#define SERVER_DEVICE_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_RESTARTS_VARIABLE "GEMMD_DEVICE_RESTARTS"

enum { DEVICE_RESTARTS_MAX = 3, DEVICE_RESTARTS_PERIOD_S = 60 };

struct device_restarts {
    uint64_t count;                      /* all restarts after a loss of the device */
    uint64_t at_ns[DEVICE_RESTARTS_MAX]; /* the last restarts, newest first; 0: none */
};

/* Reads the counts from the value of the variable. NULL or an invalid value: no restarts. */
struct device_restarts device_restarts_read(const char *value);
/* Whether the daemon may replace itself at `now_ns`: fewer than DEVICE_RESTARTS_MAX restarts lie
 * within the last DEVICE_RESTARTS_PERIOD_S seconds. */
bool device_restarts_allowed(const struct device_restarts *restarts, uint64_t now_ns);
/* Counts a restart at `now_ns`, and sets the variable for the program that is executed. Returns
 * false if there is no memory for the variable. */
bool device_restarts_add(struct device_restarts *restarts, uint64_t now_ns);

#endif
