#include "server/http/connection_lists.h"

#include <stddef.h>

#include "server/http/connection.h"

static void list_append(struct connection_list *list, struct connection *connection)
{
    connection->next = NULL;
    connection->previous = list->last;
    if (list->last != NULL)
        list->last->next = connection;
    else
        list->first = connection;
    list->last = connection;
}

static void list_remove(struct connection_list *list, struct connection *connection)
{
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        list->first = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    else
        list->last = connection->previous;
}

void checks_add(struct checks *checks, struct connection *connection)
{
    connection->parked = false;
    list_append(&checks->watched, connection);
}

void checks_remove(struct checks *checks, struct connection *connection)
{
    if (checks->next == connection)
        checks->next = connection->next;
    list_remove(connection->parked ? &checks->parked : &checks->watched, connection);
}

struct connection *checks_any(const struct checks *checks)
{
    return checks->watched.first != NULL ? checks->watched.first : checks->parked.first;
}

void checks_park(struct checks *checks, struct connection *connection, uint64_t until_ns)
{
    checks_remove(checks, connection);
    connection->parked = true;
    connection->next_look_ns = until_ns;
    list_append(&checks->parked, connection);
}

void checks_unpark(struct checks *checks, struct connection *connection)
{
    checks_remove(checks, connection);
    connection->next_look_ns = 0;
    checks_add(checks, connection);
}
