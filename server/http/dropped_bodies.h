/*
 * dropped_bodies.h - the bodies of refused requests, which an I/O thread reads and drops so that
 * their clients keep their connections (request_refuse).
 *
 * A thread reads a few of these bodies at a time, and suspends the connections of the others. If
 * the thread read all of them at once, the bodies of accepted requests would get a small part of
 * the thread's time under overload: the few accepted requests would hold their places for as long
 * as the many refused ones send, and the device would have nothing to compute. A body whose client
 * sends slowly does not hold the others up for longer than an interval.
 *
 * All functions run on the I/O thread.
 */
#ifndef SERVER_HTTP_DROPPED_BODIES_H
#define SERVER_HTTP_DROPPED_BODIES_H

#include <stdint.h>

struct request;

/* Zeroed: no bodies. */
struct dropped_bodies {
    struct request *first, *last; /* suspended, in the order of arrival */
    uint64_t began_ns;            /* when the last body of the list began to be read */
    uint32_t reading;             /* bodies that are being read */
};

/* Adds the body of a request in the state REQUEST_DISCARDING, whose first bytes were just read. To
 * be called from libmicrohttpd's callback for these bytes. */
void dropped_bodies_add(struct dropped_bodies *bodies, struct request *request, uint64_t now_ns);
/* Records that no more of the request's body will be read. Does nothing for a request that was not
 * added. */
void dropped_bodies_remove(struct dropped_bodies *bodies, struct request *request);
/* Resumes the connections whose bodies are the next to be read. To be called in each iteration of
 * the loop. */
void dropped_bodies_advance(struct dropped_bodies *bodies, uint64_t now_ns);
/* Milliseconds until dropped_bodies_advance has something to do; -1: nothing is suspended. */
int dropped_bodies_due_ms(const struct dropped_bodies *bodies, uint64_t now_ns);
/* Resumes all connections, before the thread ends. */
void dropped_bodies_stop(struct dropped_bodies *bodies);

#endif
