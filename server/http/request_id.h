/* request_id.h - the id of a request, which its log line and its answer carry. Pure function. */
#ifndef SERVER_HTTP_REQUEST_ID_H
#define SERVER_HTTP_REQUEST_ID_H

#include <stdint.h>

enum { REQUEST_ID_MAX = 128 };

/* Writes the id of a request to `id`: the client's own id `given` if it is printable and at most
 * REQUEST_ID_MAX characters long, else a new id. `given` may be NULL. `*state` is the state of the
 * generator of new ids, which may start with any value. */
void request_id_choose(char id[REQUEST_ID_MAX + 1], const char *given, uint64_t *state);

#endif
