/*
 * services.h - the parts of the daemon that endpoints use: the devices and their queues, and the
 * stores of tensors, jobs and shared memory.
 *
 * The daemon owns all parts: it creates them before the HTTP server starts and destroys them after
 * the HTTP server has stopped. All other code borrows them. The header of each part says which
 * threads may use the part.
 */
#ifndef SERVER_API_SERVICES_H
#define SERVER_API_SERVICES_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/config/config.h"
#include "server/device/memory/pinned_pool.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/observe/model_stats.h"
#include "server/scheduler/admission.h"
#include "server/scheduler/executor.h"
#include "server/scheduler/verify_draw.h"
#include "server/shm/regions.h"
#include "server/tensors/tensor_store.h"

struct history;
struct job_thread;
struct notable;
struct nvml;
struct page_toucher;
struct sampler;
struct jobs;
struct shm_store;

/* Reloads of the options since the start. The start counts as a success. The main thread writes. */
struct reload_counts {
    atomic_uint_fast64_t succeeded, failed;
    atomic_uint_fast64_t last_success_seconds; /* Unix time */
    atomic_bool last_succeeded;
};

enum { SERVICES_MODELS_MAX = 48 };

struct services {
    struct log *log;
    struct http_server *http;
    uint64_t started_ns;  /* when the daemon started; monotonic clock */
    const char *revision; /* of the sources of this build; borrowed */
    struct reload_counts reloads;
    /* How often no new process took over after SIGUSR2. The main thread writes. */
    atomic_uint_fast64_t handovers_failed;
    uint64_t device_restarts; /* after losses of the device; set before the threads start */

    struct executors executors;   /* the devices, with their queues and dispatch threads */
    struct admission *admission;  /* of the queues */
    struct pool *pool;            /* pinned memory */
    struct page_toucher *toucher; /* NULL: no memory is touched ahead */
    struct tensor_store *tensors;
    struct shm_store *shm_store;                         /* mappings of clients' shared memory */
    struct regions *regions;                             /* names that clients gave to mappings */
    struct model_stats model_stats[SERVICES_MODELS_MAX]; /* of the operations' models in api/v2 */
    struct verify_draw verify_draw;
    struct jobs *jobs;
    struct job_thread *job_thread;
    struct history *history; /* the last minutes, as samples */
    struct notable *notable; /* failed and slow requests */
    struct sampler *sampler;
    struct nvml *nvml; /* NULL: NVML is not asked */
};

/* The services of the request's server. */
static inline struct services *services_of(const struct request *request)
{
    return request->server->services;
}

/* The cache of the pool of pinned memory that belongs to the request's I/O thread. Borrowed; only
 * that thread may use it. */
struct pool_cache *services_memory(const struct request *request);
/* Callbacks of struct http_server. An I/O thread's own part of the services is its cache of the
 * pool. */
void *services_thread_create(void *services);
void services_thread_destroy(void *thread_services);

/* Checks whether the daemon accepts new work. If not, sets request->fault and returns
 * GEMMD_ERR_DRAINING or GEMMD_ERR_DEVICE_LOST. */
enum gemmd_error services_check(struct request *request);

/* Estimates, for Retry-After, the seconds until a request of `bytes` bytes that was refused with
 * `code` can be admitted. */
uint32_t services_retry_after_s(const struct request *request, enum gemmd_error code,
                                uint64_t bytes);

/* The peaks of a device as JSON, {"flops": {"f32": ...}, "bytes_per_second": ...}, without the
 * types whose peak is not known. A new reference; NULL if memory ran out. */
json_t *services_peak_json(const struct device_info *info);

/* A block of the pool of pinned memory that an answer is sent from. The block goes back to the pool
 * when the answer was sent, and the request's reservation goes with it. Used on the request's I/O
 * thread, from whose cache of the pool the block must come. */
struct sent_block;
/* Takes over a block of `bytes` bytes, and the reservation for the answer. Returns NULL if memory
 * ran out; the caller then still owns both. */
struct sent_block *sent_block_create(struct pool_cache *memory, void *block, uint64_t bytes,
                                     struct reservation *reservation);
/* Gives the block and the reservation back, and frees the struct sent_block that `sent_block`
 * points to. The parameter is a void pointer, so that the function can be the `sent` of a struct
 * payload. */
void sent_block_end(void *sent_block);

#endif
