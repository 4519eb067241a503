/*
 * inherited_sockets.h - listening sockets that the process which started this one passed to it:
 * descriptors 3 and up.
 *
 * A service manager passes sockets by the protocol of sd_listen_fds(3): LISTEN_PID and LISTEN_FDS
 * in the environment. A gemmd that is replaced by this process (net/handover.h) describes its
 * sockets in GEMMD_HANDOVER instead. The value of GEMMD_HANDOVER has a line for the number of the
 * descriptor that tells the old process about the start, and a line for each socket: the address as
 * the option --listen has it, or nothing if a service manager has passed the socket. The first line
 * is empty if the process has executed its own program again, as after the loss of the device.
 *
 * All functions are called by the main thread.
 */
#ifndef SERVER_BASE_INHERITED_SOCKETS_H
#define SERVER_BASE_INHERITED_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#define INHERITED_VARIABLE "GEMMD_HANDOVER"

/* How many sockets were passed to this process. 0 if the environment names no sockets, or names
 * sockets for another process. */
uint32_t inherited_sockets(void);
/* How many of the passed sockets a service manager has opened. */
uint32_t inherited_manager_sockets(void);
/* Whether socket `index` was opened for this address of the option --listen. */
bool inherited_is_for(uint32_t index, const char *address);
/* Whether a service manager has opened socket `index`. */
bool inherited_is_managers(uint32_t index);
/* The descriptor on which the old process waits for news; -1: there is no old process. */
int inherited_news_fd(void);

#endif
