/*
 * process.h - what a client has of the process that uses the client: connections, descriptors and
 * shared memory. The child of a fork opens its own.
 */
#ifndef CLIENT_PROCESS_H
#define CLIENT_PROCESS_H

#include "client/client.h"

/* Starts what the library needs once in a process. Any thread. */
void process_start(void);
/* The number of forks that led to the calling process since process_start. */
uint32_t process_forks(void);

/* Every function of the library that uses a client calls process_enter first. In the child of a
 * fork the first call makes the client anew: the parent's requests end, and connections, epoll set
 * and shared memory become the child's own. False if there is no memory or no descriptor for them;
 * no request is then in flight, and none can be sent before a later call has succeeded. */
bool process_enter(struct gemmd_client *client);
/* In the child of a fork, for a client that is about to be released: leaves to the parent what the
 * client has. */
void process_disown(struct gemmd_client *client);

#endif
