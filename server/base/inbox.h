/*
 * inbox.h - what other threads ask an I/O thread to do, in the order they asked.
 *
 * A message is a part of what it is about (a request whose work is done, a new connection), so
 * that posting allocates nothing and takes no lock. A thread that is awake is not woken: under load
 * a message costs no system call.
 */
#ifndef SERVER_BASE_INBOX_H
#define SERVER_BASE_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct inbox_message {
    struct inbox_message *next;                 /* the inbox's */
    void (*act)(struct inbox_message *message); /* runs on the inbox's thread */
};

/* The `type` whose `member` a message is. */
#define INBOX_OWNER(message, type, member)                                                         \
    ((type *)(void *)((char *)(message)-offsetof(type, member)))

struct inbox {
    _Atomic(struct inbox_message *) newest; /* each leads to the one posted before it */
    atomic_bool asleep;
    int wake_fd; /* becomes readable when the sleeping thread has to wake */
};

/* False if the system has no descriptor for it. */
bool inbox_open(struct inbox *inbox);
void inbox_close(struct inbox *inbox); /* nothing may be in it */

/* Any thread. The message belongs to the inbox until its `act` runs. */
void inbox_post(struct inbox *inbox, struct inbox_message *message);

/* The owner's. Runs what has been posted. */
void inbox_act(struct inbox *inbox);
enum { INBOX_FDS_MAX = 3 };
/* Waits until something has been posted, one of the `count` (at most INBOX_FDS_MAX) `fds` is
 * readable or `timeout_ms` (-1: none) is over. An fd of -1 is none. */
void inbox_wait(struct inbox *inbox, const int *fds, int count, int timeout_ms);

#endif
