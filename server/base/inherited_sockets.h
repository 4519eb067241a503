/*
 * inherited_sockets.h - listening sockets that the process which started this one passed to it, by
 * the protocol of sd_listen_fds(3): LISTEN_PID and LISTEN_FDS in the environment.
 */
#ifndef SERVER_BASE_INHERITED_SOCKETS_H
#define SERVER_BASE_INHERITED_SOCKETS_H

#include <stdint.h>

/* How many sockets were passed to this process: descriptors 3 and up. 0 if the environment names
 * none or means another process. Main thread. */
uint32_t inherited_sockets(void);

#endif
