/*
 * request_body.h - receives the body of a request: decompresses it, hands it to the endpoint, or
 * drops it if the request is refused.
 *
 * request_refuse and request_receive (request.h), which begin a body, are in request_body.c too.
 *
 * An I/O thread reads and drops a few bodies of refused requests at a time, so that their clients
 * keep their connections, and suspends the connections of the others. If the thread read all of
 * them at once, the bodies of accepted requests would get a small part of the thread's time under
 * overload: the few accepted requests would hold their places for as long as the many refused ones
 * send, and the device would have nothing to compute. A body whose client sends slowly does not
 * hold the others up for longer than an interval.
 *
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_HTTP_REQUEST_BODY_H
#define SERVER_HTTP_REQUEST_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_thread;
struct request;

/* Takes more bytes of the body. Returns false if the connection must be closed. */
bool request_body_take(struct request *request, const char *bytes, size_t length);

/* Ends the body: submits the request, or answers it if it is refused. Returns false if
 * connection_check has already ended the connection. */
bool request_body_end(struct request *request);

/* Records that no more of the request's dropped body will be read. Does nothing for a request whose
 * body is not being dropped. */
void dropped_bodies_remove(struct request *request);
/* Resumes the connections whose dropped bodies are the next to be read. To be called in each
 * iteration of the loop. */
void dropped_bodies_advance(struct io_thread *thread, uint64_t now_ns);
/* Milliseconds until dropped_bodies_advance has something to do; -1: nothing is suspended. */
int dropped_bodies_due_ms(const struct io_thread *thread, uint64_t now_ns);
/* Resumes all connections, before the thread ends. */
void dropped_bodies_stop(struct io_thread *thread);

#endif
