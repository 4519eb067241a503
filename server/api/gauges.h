/* gauges.h - reads the present state of the services for the metrics. */
#ifndef SERVER_API_GAUGES_H
#define SERVER_API_GAUGES_H

#include "server/observe/metrics.h"

struct services;

/* Reads the present values of all gauges. Any thread. Strings are borrowed from the services. */
struct metrics_gauges gauges_read(struct services *services);

#endif
