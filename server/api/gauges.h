/* gauges.h - the state of the services at one moment, as the metrics show it. */
#ifndef SERVER_API_GAUGES_H
#define SERVER_API_GAUGES_H

#include "server/observe/metrics.h"

struct services;

/* Reads the present values. Any thread. Strings are borrowed from the services. */
struct metrics_gauges gauges_read(struct services *services);

#endif
