#include "server/http/request_parts.h"

#include "server/base/clock.h"
#include "server/http/connection.h"
#include "server/http/digests.h"
#include "server/http/inflater.h"
#include "server/http/io_thread.h"
#include "server/http/respond.h"
#include "server/http/server.h"

/* The body of a refused request is read and dropped up to this length, so that the client keeps its
 * connection. Reading a longer body costs more than closing the connection and accepting another
 * one (tests/bench/refusals.py). */
static const uint64_t DISCARD_MAX_BYTES = 1024 * 1024;

/* ---- dropped bodies ---- */

/* AT_A_TIME bodies are read at a time. If none of them ends within INTERVAL_NS, one more body
 * begins to be read. With 223 x 223 x 223 products in 400 kB at three times the capacity, reading
 * two bodies at a time gave three times the goodput of reading all at once; an interval of 10 ms
 * gave the same as 2 ms. */
enum { AT_A_TIME = 2 };
static const uint64_t INTERVAL_NS = 2000000;

static void begin_reading(struct request *request, uint64_t now_ns)
{
    struct dropped_bodies *bodies = &request->thread->dropped_bodies;
    request->drops_body = true;
    bodies->began_ns = now_ns;
    bodies->reading++;
}

/* Adds the body of a request in the state REQUEST_DISCARDING, in libmicrohttpd's callback for the
 * first bytes. */
static void dropped_bodies_add(struct request *request, uint64_t now_ns)
{
    struct dropped_bodies *bodies = &request->thread->dropped_bodies;
    if (bodies->suspended.first == NULL && bodies->reading < AT_A_TIME) {
        begin_reading(request, now_ns);
        return;
    }
    list_append(&bodies->suspended, &request->in_dropped);
    MHD_suspend_connection(request->mhd);
}

void request_body_forget(struct request *request)
{
    request->thread->dropped_bodies.reading -= request->drops_body;
    request->thread->receiving -= request->receives;
    request->drops_body = request->receives = false;
}

/* Begins to read the first suspended body. Returns false if there is none. */
static bool resume_first(struct dropped_bodies *bodies, uint64_t now_ns)
{
    struct list_item *first = list_take_first(&bodies->suspended);
    if (first == NULL)
        return false;
    struct request *request = OWNER_OF(first, struct request, in_dropped);
    begin_reading(request, now_ns);
    /* The client's rate is measured from now on. */
    (void)connection_enter(request->connection, CONNECTION_BODY, now_ns);
    MHD_resume_connection(request->mhd);
    return true;
}

uint64_t dropped_bodies_due_ns(const struct io_thread *thread)
{
    const struct dropped_bodies *bodies = &thread->dropped_bodies;
    if (bodies->suspended.first == NULL)
        return UINT64_MAX;
    return bodies->reading < AT_A_TIME ? 0 : bodies->began_ns + INTERVAL_NS;
}

void dropped_bodies_advance(struct io_thread *thread, uint64_t now_ns)
{
    while (dropped_bodies_due_ns(thread) <= now_ns && resume_first(&thread->dropped_bodies, now_ns))
        continue;
}

void dropped_bodies_stop(struct io_thread *thread)
{
    while (resume_first(&thread->dropped_bodies, 0))
        continue;
}

/* ---- receiving ---- */

void request_refuse(struct request *request)
{
    bool small_body = !request->chunked && request->content_length > 0 &&
                      request->content_length <= DISCARD_MAX_BYTES;
    if (small_body && !request->expects_continue) {
        request->state = REQUEST_DISCARDING;
        connection_enter(request->connection, CONNECTION_BODY, clock_now_ns());
        return;
    }
    respond_fault(request, &request->fault);
}

void request_receive(struct request *request, uint64_t deadline_ns)
{
    request->state = REQUEST_RECEIVING;
    request->receives = true;
    request->thread->receiving++;
    request->connection->deadline_ns = deadline_ns;
    connection_enter(request->connection, CONNECTION_BODY, clock_now_ns());
}

static bool body_take_inflated(void *context, const void *bytes, uint64_t length)
{
    struct request *request = context;
    return request->endpoint->chunk(request, bytes, length);
}

/* Decompresses bytes of the body for the endpoint's `chunk`, and returns the result of `chunk`. */
static bool body_inflate(struct request *request, const void *bytes, uint64_t length)
{
    if (request->inflater == NULL)
        request->inflater = inflater_create(request->coding, request->config->max_inflation);
    if (request->inflater == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory to inflate the body");
        return false;
    }
    return inflater_add(request->inflater, bytes, length, body_take_inflated, request,
                        &request->fault) == GEMMD_OK;
}

/* Takes the first bytes of the body of a request that was refused at its headers. From now on
 * dropped_bodies may suspend the connection, which libmicrohttpd forbids before the first bytes. A
 * thread that stops suspends no more, because libmicrohttpd must have no suspended connection when
 * it is stopped. */
static void body_begin_drop(struct request *request, const char *bytes, size_t length)
{
    if (request->endpoint != NULL && request->endpoint->refused != NULL && request->call != NULL &&
        request->coding == CODING_IDENTITY)
        request->endpoint->refused(request, bytes, length);
    if (length < request->content_length && !request->thread->stopping)
        dropped_bodies_add(request, clock_now_ns());
}

bool request_body_take(struct request *request, const char *bytes, size_t length)
{
    struct connection *connection = request->connection;
    request->thread->moved = true;
    if (request->state == REQUEST_DISCARDING && request->received_bytes == 0)
        body_begin_drop(request, bytes, length);
    request->received_bytes += length;
    connection->moved_bytes = request->received_bytes;
    if (request->state == REQUEST_RECEIVING) {
        if (request->digests != NULL)
            digests_add(request->digests, bytes, length);
        if (request->coding == CODING_IDENTITY ? request->endpoint->chunk(request, bytes, length)
                                               : body_inflate(request, bytes, length))
            return true;
        request_body_forget(request);
        request->state = REQUEST_DISCARDING;
        /* DISCARD_MAX_BYTES are counted from here. */
        request->content_length = request->received_bytes;
    }
    /* The state is REQUEST_DISCARDING. A body can be this long only if it was accepted at first, or
     * if its length was not known at the headers. */
    if (request->received_bytes > request->content_length + DISCARD_MAX_BYTES) {
        request->response_bytes = connection_answer_fault(connection, &request->fault, request->id);
        connection->ended_by = request->fault.code;
        connection->linger = true;
        return false;
    }
    return true;
}

bool request_waits_for_turn(struct request *request)
{
    struct io_thread *thread = request->thread;
    const struct endpoint *endpoint = request->endpoint;
    if (endpoint->takes_long == NULL || !endpoint->takes_long(request))
        return false;
    if (request->in_long.list == NULL)
        list_append(&thread->long_calls, &request->in_long);
    const bool is_next = thread->long_calls.first == &request->in_long && !thread->made_long_call;
    thread->moved = true;
    if (!is_next && !thread->stopping)
        return true;
    list_remove(&request->in_long);
    thread->made_long_call = true;
    return false;
}

bool request_body_end(struct request *request)
{
    if (request->received_ns == 0) {
        const uint64_t now_ns = clock_now_ns();
        if (!connection_enter(request->connection, CONNECTION_WORKING, now_ns))
            return false;
        request->received_ns = now_ns;
        request_body_forget(request);
    }
    if (request->state == REQUEST_RECEIVING && request_waits_for_turn(request))
        return true;
    if (request->state == REQUEST_RECEIVING && request->inflater != NULL &&
        inflater_end(request->inflater, &request->fault) != GEMMD_OK)
        request->state = REQUEST_DISCARDING;
    if (request->state == REQUEST_RECEIVING && request->digests != NULL &&
        digests_check(request->digests, &request->fault) != GEMMD_OK)
        request->state = REQUEST_DISCARDING;
    if (request->state == REQUEST_DISCARDING) {
        respond_fault(request, &request->fault);
        return true;
    }
    request->endpoint->submit(request);
    return true;
}
