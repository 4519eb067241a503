/* routes.h - the table of all endpoints of the daemon. Constant; any thread. */
#ifndef SERVER_API_ROUTES_H
#define SERVER_API_ROUTES_H

#include "server/http/endpoint.h"

/* The lists of endpoints in the order in which they are tried; NULL ends the table. */
extern const struct endpoint *const routes[];

#endif
