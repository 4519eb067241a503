/*
 * services.h - what the endpoints work with: the device and its queue, the stores of tensors, jobs
 * and shared memory. The daemon makes all of it before the HTTP server starts and takes it down
 * after the HTTP server has stopped; everybody else borrows.
 */
#ifndef SERVER_API_SERVICES_H
#define SERVER_API_SERVICES_H

#include <stdint.h>

#include "server/config/config.h"
#include "server/device/device.h"
#include "server/device/memory/pool.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/observe/model_stats.h"
#include "server/scheduler/dispatch.h"
#include "server/scheduler/queue.h"
#include "server/shm/regions.h"
#include "server/tensors/tensor_store.h"

struct job_thread;
struct jobs;
struct shm_store;

struct services {
    const struct config *config;
    struct log *log;
    struct http_server *http;
    uint64_t started_ns; /* when the daemon started; monotonic clock */

    struct device *device;
    struct pool *pool; /* pinned memory */
    struct tensor_store *tensors;
    struct shm_store *shm_store;                         /* clients' shared memory */
    struct regions *regions;                             /* the names that clients gave to it */
    struct model_stats product_stats[GEMMD_DTYPE_COUNT]; /* of the models in api/v2 */
    struct model_stats attention_stats[GEMMD_DTYPE_COUNT];
    struct queue *queue;
    struct admission *admission;   /* of the queue */
    struct early_copy *early_copy; /* NULL: the device does not copy early */
    struct dispatch *dispatch;
    struct jobs *jobs;
    struct job_thread *job_thread;
};

/* The services of the server that a request came to. */
static inline struct services *services_of(const struct request *request)
{
    return request->server->services;
}

/* The blocks of pinned memory of a request's I/O thread. */
struct pool_cache *services_memory(const struct request *request);
/* For struct http_server: an I/O thread's own part of the services is its blocks of the pool. */
void *services_thread_create(void *services);
void services_thread_destroy(void *thread_services);

/* Whether new work is taken. Else sets request->fault and returns GEMMD_ERR_DRAINING or
 * GEMMD_ERR_DEVICE_LOST. */
enum gemmd_error services_check(struct request *request);

/* Seconds until a request of `bytes` that was refused with `code` may be admitted, for
 * Retry-After. */
uint32_t services_retry_after_s(const struct request *request, enum gemmd_error code,
                                uint64_t bytes);

#endif
