/* gauges.h - reads the present state of the services for the metrics. */
#ifndef SERVER_API_GAUGES_H
#define SERVER_API_GAUGES_H

#include <stdint.h>

#include "server/observe/metrics.h"

struct config;
struct services;

/* Reads the present values of all gauges, with the limits of the options `config`. Of the tenants,
 * only those are included that the tenant with the number `viewer` may see: itself, or all
 * (--metrics-tenant). Any thread. Strings are borrowed from the services. */
struct metrics_gauges gauges_read(struct services *services, const struct config *config,
                                  uint32_t viewer);

#endif
