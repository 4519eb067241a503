/* request_id.h - the name of a request in the log and in its answer. */
#ifndef SERVER_HTTP_REQUEST_ID_H
#define SERVER_HTTP_REQUEST_ID_H

#include <stdint.h>

enum { REQUEST_ID_MAX = 128 };

/* The client's own (`given`, may be NULL) if it is short and printable, else a new one from the
 * generator that starts with any `*state`. */
void request_id_choose(char id[REQUEST_ID_MAX + 1], const char *given, uint64_t *state);

#endif
