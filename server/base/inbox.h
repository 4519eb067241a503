/*
 * inbox.h - messages from other threads to one thread, which handles them in the order in which
 * they were posted.
 *
 * A message is part of the struct that it is about (owner.h; a request whose work has ended, a new
 * connection), so that posting allocates nothing and takes no lock. A thread that is awake is not
 * woken, so that under load a message costs no system call.
 */
#ifndef SERVER_BASE_INBOX_H
#define SERVER_BASE_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/base/owner.h"

struct inbox_message {
    struct inbox_message *next;                 /* used by the inbox */
    void (*act)(struct inbox_message *message); /* called on the inbox's thread */
};

struct inbox {
    _Atomic(struct inbox_message *) newest; /* linked by `next` to the message posted before it */
    atomic_bool asleep;
    int wake_fd; /* becomes readable when the sleeping thread has to wake */
};

/* False: the system has no file descriptor for the inbox. */
bool inbox_open(struct inbox *inbox);
/* Closes an inbox that is empty. */
void inbox_close(struct inbox *inbox);

/* Posts a message, which belongs to the inbox until its `act` is called. Any thread. */
void inbox_post(struct inbox *inbox, struct inbox_message *message);

/* Only the inbox's thread calls the functions below. */

/* Calls `act` of every message that has been posted. */
void inbox_act(struct inbox *inbox);
enum { INBOX_FDS_MAX = 4 };
/* Waits until a message has been posted, one of the `count` descriptors `fds` is readable, or
 * `timeout_ms` milliseconds (-1: any time) have passed. `count` is INBOX_FDS_MAX at most. A
 * descriptor of -1 is ignored. */
void inbox_wait(struct inbox *inbox, const int *fds, int count, int timeout_ms);

#endif
