#include "server/http/dropped_bodies.h"

#include <microhttpd.h>

#include "server/http/connection.h"
#include "server/http/request.h"

/* AT_A_TIME bodies are read at a time. If none of them ends within INTERVAL_NS, one more body
 * begins to be read. With 223 x 223 x 223 products in 400 kB at three times the capacity, reading
 * two bodies at a time gave three times the goodput of reading all at once; an interval of 10 ms
 * gave the same as 2 ms. */
enum { AT_A_TIME = 2 };
static const uint64_t INTERVAL_NS = 2000000, NS_PER_MS = 1000000;

static void begin_reading(struct dropped_bodies *bodies, struct request *request)
{
    request->drops_body = true;
    bodies->reading++;
}

void dropped_bodies_add(struct dropped_bodies *bodies, struct request *request, uint64_t now_ns)
{
    if (bodies->first == NULL && bodies->reading < AT_A_TIME) {
        bodies->began_ns = now_ns;
        begin_reading(bodies, request);
        return;
    }
    request->next_dropped = NULL;
    if (bodies->first == NULL)
        bodies->first = request;
    else
        bodies->last->next_dropped = request;
    bodies->last = request;
    MHD_suspend_connection(request->mhd);
}

void dropped_bodies_remove(struct dropped_bodies *bodies, struct request *request)
{
    bodies->reading -= request->drops_body;
    request->drops_body = false;
}

static void resume_first(struct dropped_bodies *bodies, uint64_t now_ns)
{
    struct request *request = bodies->first;
    bodies->first = request->next_dropped;
    bodies->began_ns = now_ns;
    begin_reading(bodies, request);
    /* The client's rate is measured from now on. */
    (void)connection_enter(request->connection, CONNECTION_BODY, now_ns);
    MHD_resume_connection(request->mhd);
}

void dropped_bodies_advance(struct dropped_bodies *bodies, uint64_t now_ns)
{
    while (bodies->first != NULL &&
           (bodies->reading < AT_A_TIME || now_ns >= bodies->began_ns + INTERVAL_NS))
        resume_first(bodies, now_ns);
}

int dropped_bodies_due_ms(const struct dropped_bodies *bodies, uint64_t now_ns)
{
    if (bodies->first == NULL)
        return -1;
    const uint64_t due_ns = bodies->began_ns + INTERVAL_NS;
    if (bodies->reading < AT_A_TIME || due_ns <= now_ns)
        return 0;
    return (int)((due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

void dropped_bodies_stop(struct dropped_bodies *bodies)
{
    while (bodies->first != NULL)
        resume_first(bodies, 0);
}
