/* gauges.h - reads the present state of the services for the metrics. */
#ifndef SERVER_API_GAUGES_H
#define SERVER_API_GAUGES_H

#include <stdint.h>

#include "server/observe/metrics.h"

struct services;

/* Reads the present values of all gauges. Of the tenants, only those are included that the tenant
 * with the number `viewer` may see: itself, or all (--metrics-tenant). Any thread. Strings are
 * borrowed from the services. */
struct metrics_gauges gauges_read(struct services *services, uint32_t viewer);

#endif
