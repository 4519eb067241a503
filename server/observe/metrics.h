/*
 * metrics.h - the metrics that Prometheus scrapes.
 *
 * Each thread has a shard of relaxed atomic counters, which are summed at a scrape, so that
 * counting takes no lock and shares no cache line. Families with many label values have a series
 * only for the values that were counted; every other series exists from the start, at zero. The
 * names follow the naming rules of prometheus.io: the prefix is gemmd_, units are base units, and
 * counters end in _total.
 */
#ifndef SERVER_OBSERVE_METRICS_H
#define SERVER_OBSERVE_METRICS_H

#include <gemmd/dtypes.h>
#include <gemmd/errors.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/operation_number.h"

struct metrics;
struct nvml_sample;
struct trace_context;
struct metrics_shard; /* the counters of one thread */

/* The operations (kernels/operations.h) by number, then other requests. infer: POST
 * /v2/models/{model}/infer; tensor: /tensors and /sequences; other: health, info, metrics, and
 * requests for unknown paths. */
enum metrics_op {
    METRICS_OP_INFER = OPERATION_COUNT,
    METRICS_OP_TENSOR,
    METRICS_OP_OTHER,
    METRICS_OP_COUNT
};
#define METRICS_OP_OF(operation_number) ((enum metrics_op)(operation_number))
/* What a device does for a request: an operation, by number, or a copy. A request to infer is an
 * operation on the device. */
enum metrics_kind { METRICS_KIND_COPY = OPERATION_COUNT, METRICS_KIND_COUNT };
#define METRICS_KIND_OF(operation_number) ((enum metrics_kind)(operation_number))
enum metrics_stage {
    METRICS_STAGE_RECEIVE,
    METRICS_STAGE_QUEUE,
    METRICS_STAGE_H2D,
    METRICS_STAGE_KERNEL,
    METRICS_STAGE_D2H,
    METRICS_STAGE_SEND,
    METRICS_STAGE_COUNT
};
enum metrics_job_state {
    METRICS_JOB_RECEIVING,
    METRICS_JOB_QUEUED,
    METRICS_JOB_RUNNING,
    METRICS_JOB_DONE,
    METRICS_JOB_FAILED,
    METRICS_JOB_CANCELLED,
    METRICS_JOB_COUNT
};
enum metrics_format { METRICS_TEXT, METRICS_OPENMETRICS }; /* versions 0.0.4 and 1.0.0 */

/* A tenant. The values of the label come from the token file alone, never from a client. The
 * tenants after the first METRICS_TENANTS_MAX share one value. */
enum { METRICS_TENANTS_MAX = 64 };
struct metrics_tenant {
    const char *name;    /* borrowed */
    uint32_t first, end; /* the tenants first ... end - 1 of metrics_tenant_error */
    uint64_t requests, bytes, tensor_bytes, jobs, job_bytes;
};

/* Number of requests that were refused because of one limit of admission or of jobs. */
enum { METRICS_LIMITS_MAX = 5 };
struct metrics_limit {
    const char *name; /* the name of the option, "queue-bytes"; borrowed */
    uint64_t refused;
};

/* One device of a daemon with several. */
enum { METRICS_DEVICES_MAX = 16 };
struct metrics_device {
    int32_t number;   /* of the device among those of its backend */
    const char *uuid; /* borrowed; "" on the CPU */
    bool lost;
    uint32_t waiting, running; /* requests */
    uint64_t used_bytes, capacity_bytes, tensor_used_bytes, tensor_capacity_bytes;
    uint64_t launches, busy_ns, link_bytes; /* since the start */
    double flops;                           /* since the start */
};

/* Values that are read at a scrape and not counted. The caller of metrics_expose sets them. */
struct metrics_gauges {
    uint32_t requests_waiting, requests_running, connections, connections_capacity, ready, draining,
        device_stalled;
    uint64_t device_restarts;
    uint64_t queue_requests, queue_capacity_requests, queue_bytes, queue_capacity_bytes;
    uint64_t tenant_capacity_requests,
        tenant_capacity_bytes;             /* 0: tenants have no limit of their own */
    uint64_t tenant_capacity_tensor_bytes; /* 0: the same */
    struct metrics_limit limits[METRICS_LIMITS_MAX];
    uint32_t limit_count;
    struct metrics_tenant tenants[METRICS_TENANTS_MAX + 1]; /* the last is all other tenants */
    uint32_t tenant_count;                                  /* 0 without a token file */
    uint64_t pinned_used_bytes, pinned_capacity_bytes;
    uint64_t device_used_bytes, device_capacity_bytes, kernels_left_out;
    uint64_t jobs[METRICS_JOB_COUNT], jobs_capacity, job_bytes, job_capacity_bytes;
    uint64_t jobs_created, jobs_cancelled, jobs_expired; /* since the start */
    uint64_t log_dropped_lines;
    struct metrics_verifications {
        uint64_t pass, fail, error;
    } verified_asked, verified_sampled;         /* since the start */
    bool verifies_sample;                       /* --verify-share is not 0 */
    uint64_t reloads_succeeded, reloads_failed; /* since the start */
    uint64_t reload_last_succeeded, reload_last_success_seconds;
    uint64_t handovers_failed;           /* since the start */
    uint64_t certificate_expiry_seconds; /* Unix time; 0: the daemon has no certificate */
    bool exports_spans;                  /* otherwise the next two are not known */
    uint64_t spans_sent, spans_dropped;
    bool shows_exemplars; /* the viewer may see the traces of all tenants */
    /* The most floating-point operations or bytes a second of the device; 0: not known. */
    double peak_flops[GEMMD_DTYPE_COUNT], peak_memory_bytes;
    const struct nvml_sample *gpus; /* borrowed; NULL: NVML is not asked */
    struct metrics_device devices[METRICS_DEVICES_MAX];
    uint32_t device_count; /* 0: the daemon has a single device, which the other values describe */
    uint64_t shared_memories, shared_capacity_memories, shared_bytes, shared_capacity_bytes;
    uint64_t shared_regions;
    uint64_t tensor_used_bytes, tensor_capacity_bytes, tensor_count;
    uint64_t tensor_hits, tensor_misses, tensor_evictions;
};

/* Labels of gemmd_build_info. The strings are borrowed and must outlive the metrics. */
struct metrics_identity {
    const char *version, *revision, *backend, *library, *mhd, *arch;
};

struct metrics *metrics_create(uint32_t shards,
                               const struct metrics_identity *identity); /* NULL: out of memory */
void metrics_destroy(struct metrics *metrics);
struct metrics_shard *metrics_shard(struct metrics *metrics,
                                    uint32_t index); /* borrowed; one writer thread each */

/* A request that has ended. */
struct metrics_request {
    enum metrics_op op;
    enum gemmd_dtype dtype; /* GEMMD_DTYPE_COUNT: not known; counts with the label "" */
    /* A code without an HTTP status (the client has disconnected before the answer) counts as
     * code="none". */
    enum gemmd_error code;
    uint32_t tenant; /* METRICS_NO_TENANT: the request belongs to no tenant */
    uint64_t duration_ns, request_bytes, response_bytes;
    bool was_compressed;     /* the body was, and has `inflated_bytes` after decompression */
    uint64_t inflated_bytes; /* 0 for a body that was not compressed */
    /* The stages of a request that computes. 0: the request did not reach the stage. */
    uint64_t stages_ns[METRICS_STAGE_COUNT];
    const struct trace_context *trace; /* makes the request an exemplar; NULL: it is none */
};
/* The number of no tenant. */
#define METRICS_NO_TENANT UINT32_MAX
/* Counts a request. Only the shard's thread; never waits. */
void metrics_request(struct metrics_shard *shard, const struct metrics_request *request);
/* Makes room for what is counted of `tenants` tenants. False: out of memory. Before threads start.
 */
bool metrics_count_tenants(struct metrics *metrics, uint32_t tenants);
/* Observes the duration of one stage. */
void metrics_stage(struct metrics_shard *shard, enum metrics_stage stage, uint64_t duration_ns);
/* Observes the time that a work waited in the queue, as METRICS_STAGE_QUEUE and by task. */
void metrics_queue_wait(struct metrics_shard *shard, enum metrics_kind task, uint64_t duration_ns);
/* A work that a kernel has computed. `kernel` is a static string. `bytes` are the bytes that the
 * kernel read and wrote, and `busy_ns` is the work's part of the time of its launch. `lengths` are
 * m, n and k of a product, and operation->lengths of another operation. */
enum { METRICS_SHAPE_LENGTHS = 3 };
struct metrics_work {
    enum metrics_kind task;
    const char *kernel;
    enum gemmd_dtype dtype;
    double flops, bytes;
    uint64_t busy_ns;
    uint32_t tenant;
    uint64_t lengths[METRICS_SHAPE_LENGTHS];
};
/* Counts a work for its kernel, its shape (metrics_totals.h) and its tenant. */
void metrics_work(struct metrics_shard *shard, const struct metrics_work *work);
/* Counts a launch for `requests` requests, which took `flops` floating-point operations and
 * `busy_ns`. */
void metrics_launch(struct metrics_shard *shard, uint32_t requests, double flops, uint64_t busy_ns);
/* Counts a TLS handshake that ended. */
void metrics_handshake(struct metrics_shard *shard, bool succeeded);
/* Counts a connection that was refused because of a limit of connections. */
void metrics_connection_refused(struct metrics_shard *shard);
void metrics_client_gone(struct metrics_shard *shard);
void metrics_device_error(struct metrics_shard *shard);
/* Counts bytes of operands whose copy was started before the request was complete. */
void metrics_early_copy(struct metrics_shard *shard, uint64_t bytes);
/* Counts bytes of tensors that were copied from another device. */
void metrics_link(struct metrics_shard *shard, uint64_t bytes);
/* Sets the counts in `device` that the device's dispatch thread has made in its shard. */
void metrics_device_read(const struct metrics_shard *shard, struct metrics_device *device);

/* Writes all metrics as text. `*text` is allocated with malloc and belongs to the caller. `*length`
 * is without the terminating null byte. False: out of memory. */
bool metrics_expose(struct metrics *metrics, const struct metrics_gauges *gauges,
                    enum metrics_format format, char **text, uint64_t *length);
const char *metrics_content_type(enum metrics_format format);
/* The format for an Accept header (NULL: none): OpenMetrics 1.0.0 if the header names OpenMetrics
 * and prefers no other format, text 0.0.4 otherwise. */
enum metrics_format metrics_negotiate(const char *accept);

#endif
