/*
 * config.h - the daemon's options: flag > GEMMD_... environment > --config JSON file > default.
 *
 * One table (config_table.c) defines the flags, the environment variables, the keys of the file and
 * --help: `--queue-requests N` is GEMMD_QUEUE_REQUESTS and "queue-requests". The values of a
 * repeatable option are separated by commas in the environment and an array in the file. An empty
 * environment variable and null in the file count as not set. Sizes take units (64M, 2GiB; a bare
 * number is bytes), and so do times (500ms, 10s, 2m, 1h; a bare number is milliseconds).
 */
#ifndef SERVER_CONFIG_CONFIG_H
#define SERVER_CONFIG_CONFIG_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/error.h"

enum { CONFIG_LISTEN_MAX = 16 };
enum config_backend { CONFIG_BACKEND_AUTO, CONFIG_BACKEND_CUDA, CONFIG_BACKEND_CPU };
enum config_log_level { CONFIG_LOG_DEBUG, CONFIG_LOG_INFO, CONFIG_LOG_WARNING, CONFIG_LOG_ERROR };
enum config_client_auth { CONFIG_CLIENT_AUTH_REQUIRE, CONFIG_CLIENT_AUTH_OPTIONAL };
/* CONFIG_LOG_AUTO: text if standard output is a terminal, JSON otherwise. */
enum config_log_format { CONFIG_LOG_JSON, CONFIG_LOG_TEXT, CONFIG_LOG_AUTO };
enum config_gpu_metrics { CONFIG_GPU_METRICS_AUTO, CONFIG_GPU_METRICS_ALL, CONFIG_GPU_METRICS_OFF };
enum config_forwarded { CONFIG_FORWARDED_X, CONFIG_FORWARDED_RFC7239 };
enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_CHECK };

enum { CONFIG_SHARE_ONE = 1000000 }; /* a share of 1, as options of kind SHARE are stored */

/* The options in force. --help says in full what each limits. */
struct config {
    enum config_action action;
    char *listen[CONFIG_LISTEN_MAX]; /* 127.0.0.1:8080 if not set and LISTEN_FDS has no sockets */
    uint32_t listen_count;
    uint32_t socket_mode; /* of the files of Unix sockets; 0: as the umask leaves it */
    char *socket_group;   /* of these files, by name or number; NULL: as the system chooses */
    enum config_backend backend;
    char *devices;                        /* the GPUs to compute on (device_open.h) */
    uint32_t streams;                     /* works that a GPU runs at a time */
    uint32_t max_batch;                   /* works that may share a launch */
    uint32_t busy_poll_us;                /* polling for work before a thread sleeps; 0: none */
    uint32_t io_threads;                  /* 0: half of the cores, 1 ... 16 */
    uint32_t cpu_threads;                 /* of each CPU device; 0: all cores, divided */
    bool cpu_pauses;                      /* long computations let short ones pass */
    uint32_t max_connections;             /* open connections in total */
    uint32_t max_connections_per_address; /* from one IP address; 0: no limit of its own */
    uint64_t connection_buffer_bytes;     /* libmicrohttpd's buffer of each connection */
    uint32_t bulk_connections;            /* connections with the larger buffer; 0: none */
    uint64_t bulk_buffer_bytes;           /* the larger buffer, for large bodies */
    bool compress_answers;
    uint64_t max_body_bytes;      /* of a request body, decompressed */
    uint32_t max_inflation;       /* decompressed bytes for each compressed byte; 0: no limit */
    uint64_t max_result_bytes;    /* of a result that is sent */
    uint64_t max_json_bytes;      /* of the JSON of an inference request, and of its answer */
    uint32_t verify_share;        /* of the products, in millionths (CONFIG_SHARE_ONE) */
    uint64_t max_work;            /* floating-point operations of a request; 0: no limit */
    uint32_t queue_requests;      /* accepted requests in total */
    uint64_t queue_bytes;         /* bodies and results of accepted requests in total */
    uint32_t tenant_share;        /* percentage of the shared limits that one tenant may hold */
    uint32_t tenant_requests;     /* accepted requests of one tenant; 0: no limit of its own */
    uint64_t tenant_bytes;        /* bodies and results of one tenant; 0: no limit of its own */
    uint64_t tenant_tensor_bytes; /* resident tensors of one tenant; 0: no limit of its own */
    /* Whether tenant_share decides the limit, because --tenant-requests, --tenant-bytes or
     * --tenant-tensor-bytes, in this order, is not given. */
    bool shares_requests, shares_bytes, shares_tensors;
    /* What one tenant may hold by tenant_share: bytes of accepted requests, jobs, bytes of their
     * results, registered names of shared memory, and bytes of that memory. 0: no such limit.
     * config_divide sets these fields. */
    uint64_t tenant_share_bytes;
    uint32_t tenant_jobs;
    uint64_t tenant_job_bytes;
    uint32_t tenant_regions;
    uint64_t tenant_region_bytes;
    uint32_t max_jobs;            /* unfinished and kept jobs; 0: requests never become jobs */
    uint64_t job_bytes;           /* results of all jobs */
    uint64_t pinned_bytes;        /* host memory for bodies and results */
    uint64_t device_bytes;        /* device memory for requests; 0: half of the GPU's free memory, a
                                     quarter of the host's memory on the CPU backend */
    uint64_t tensor_bytes;        /* device memory for resident tensors; 0: no tensor can be kept */
    uint32_t touch_share;         /* of the memory, for pages to touch ahead, in millionths */
    char *without_kernels;        /* names of kernels to leave out, "a,b"; NULL: none */
    bool shm_memfd;               /* clients may share memfds over Unix sockets */
    bool shm_system;              /* clients may register POSIX shared memory */
    bool shm_cuda;                /* clients may register GPU memory */
    uint64_t shm_bytes;           /* shared memory that may be mapped, of all clients and kinds */
    uint32_t shm_regions;         /* limit of mappings of shared memory, and of registered names */
    uint64_t default_timeout_ms;  /* deadline of a request that names none; 0: none */
    uint64_t max_timeout_ms;      /* 0: any; see config_longest_timeout_ms */
    uint32_t header_timeout_ms;   /* from accept, or from a request's first byte, to the last of its
                                     headers */
    uint32_t idle_timeout_ms;     /* for a connection between two requests */
    uint32_t body_timeout_ms;     /* for receiving a body, and for sending an answer */
    uint64_t min_body_rate;       /* average bytes a second, after the first 5 seconds; 0: none */
    uint64_t min_answer_rate;     /* the same for sending an answer */
    uint64_t job_ttl_ms;          /* how long the result of a job is kept */
    uint64_t max_wait_ms;         /* longest wait of a request for a job's result */
    uint32_t stall_ms;            /* a device with work that finishes nothing for so long counts as
                                     not ready; 0: never */
    uint32_t drain_delay_ms;      /* after SIGTERM: not ready, still accepting */
    uint32_t drain_timeout_ms;    /* after drain_delay_ms: for accepted requests to finish */
    uint32_t takeover_timeout_ms; /* after SIGUSR2: for the new process to be ready */
    char *metrics_tenants; /* names of the tenants that see the metrics of all, "a,b"; NULL: none */
    char *token_file;      /* bearer tokens, one a line: "tenant:token" or "token"; NULL: no
                              token is needed */
    char *tls_cert;        /* PEM files of the certificate chain and its key; NULL: no TLS */
    char *tls_key;
    char *tls_client_ca; /* PEM file of the authorities of client certificates; NULL: none asked */
    enum config_client_auth tls_client_auth; /* whether a client may come without a certificate */
    char *tls_priorities;                    /* in the syntax of GnuTLS */
    char *allow_origin;    /* origins of web pages that may read answers, "a,b"; NULL: none */
    char *trusted_proxies; /* addresses and networks of proxies, "a,b"; NULL: none */
    enum config_forwarded forwarded_header; /* that they write the client's address to */
    char *base_path;                        /* in front of the paths in answers; NULL: nothing */
    bool allow_insecure_network;            /* strangers may be let in from other hosts */
    enum config_log_level log_level;
    enum config_log_format log_format;
    bool access_log;                     /* log a line for each request */
    enum config_gpu_metrics gpu_metrics; /* whose figures NVML is asked for */
    char *otlp_endpoint;                 /* URL that spans are sent to; NULL: none are sent */
    char *otlp_header_file;              /* headers for the collector, one a line; NULL: none */
    char *otlp_ca_file;                  /* authorities of the collector; NULL: the system's */
    uint32_t otlp_sample; /* percentage of the requests without traceparent that are traced */
    char *config_file;
};

/* Reads flags, environment and file into `config`, which owns its strings; release it with
 * config_free, also after a failure. A fault names the option and the source that set it (flag,
 * environment variable, file). */
enum gemmd_error config_load(struct config *config, int argc, char *const argv[],
                             char *const environment[], struct fault *fault);
void config_free(struct config *config);

/* The options whose value a reload finds changed. `applied`: the new value is in force from now on;
 * if not, the option can only be set at the start. Numbers are written in bytes and milliseconds.
 */
enum { CONFIG_CHANGES_MAX = 96, CONFIG_VALUE_MAX = 128 };
struct config_change {
    const char *name;
    char old_value[CONFIG_VALUE_MAX], new_value[CONFIG_VALUE_MAX];
    bool applied;
};
struct config_changes {
    struct config_change list[CONFIG_CHANGES_MAX + 1]; /* the last one is never counted */
    uint32_t count;
};
/* Reads the options again while a daemon runs. `given` are the options as the start has read them,
 * and `running` are those in force. All pointers are borrowed. */
struct config_reload {
    const struct config *given, *running;
    int argc;
    char *const *argv, *const *environment;
};
/* Writes to `next` a copy of `running` with the new values of the reloadable options. The strings
 * in `next` are those of `running`, so that `next` must not be freed with config_free. After a
 * failure `next` and `changes` are undefined. */
enum gemmd_error config_reload(const struct config_reload *reload, struct config *next,
                               struct config_changes *changes, struct fault *fault);

/* Returns the part of a limit that one tenant may hold by --tenant-share, at least 1; 0: there is
 * only one tenant, or no such limit. */
uint64_t config_share(const struct config *config, uint32_t tenants, uint64_t limit);
/* Sets what one of `tenants` tenants may hold: all limits that --tenant-share decides. */
void config_divide(struct config *config, uint32_t tenants);

/* The options in force, which a reload replaces while other threads read them. The main thread
 * alone replaces them, and may therefore read `config` as it is. Every other thread works with a
 * copy. The strings in all copies are those of the options of the start. */
struct config_in_force {
    pthread_mutex_t lock; /* of `config` */
    struct config config;
    atomic_uint version; /* another one after each replacement */
};
/* Copies `config`. Before other threads read the options. */
void config_in_force_init(struct config_in_force *in_force, const struct config *config);
/* Replaces the options by a copy of `next`. Main thread. */
void config_in_force_replace(struct config_in_force *in_force, const struct config *next);
/* Writes the options to `copy`, and returns their version. Any thread. */
unsigned config_in_force_copy(struct config_in_force *in_force, struct config *copy);

/* A thread's own copies of the options in force, which the thread reads without a lock. A request
 * keeps the copy that it began with, so that a reload does not change the limits of a request that
 * has begun. A copy is freed after its last use. Only the thread itself calls the functions, apart
 * from its start and its end. */
struct options_copy {
    struct config config;
    unsigned version; /* of the options in force that were copied */
    uint32_t users;   /* requests, and the thread while the copy is its newest */
};

struct thread_options {
    struct config_in_force *in_force; /* borrowed */
    struct options_copy *newest;
};

/* Makes the first copy. False: out of memory. */
bool thread_options_open(struct thread_options *options, struct config_in_force *in_force);
void thread_options_close(struct thread_options *options);

/* Makes a new copy if the options in force were replaced. If memory runs out, the old copy stays
 * the newest until a later call. */
void thread_options_refresh(struct thread_options *options);

/* Refreshes, and begins a use of the newest copy. */
struct options_copy *thread_options_hold(struct thread_options *options);
/* Ends a use of a copy. */
void options_copy_release(struct options_copy *copy);

/* Returns the longest deadline that a request may name: max_timeout_ms, or INT32_MAX if that is 0.
 */
uint64_t config_longest_timeout_ms(const struct config *config);

/* Prints the text of --help. */
void config_print_help(FILE *out);
/* Returns all options in force as a new JSON object, for --check-config: sizes in bytes, times in
 * milliseconds. The object is a valid --config file. NULL: out of memory. */
json_t *config_to_json(const struct config *config);
/* Returns the options in force that every client may see, as a new JSON object for /info: all but
 * addresses, file names and logging. NULL: out of memory. */
json_t *config_limits_to_json(const struct config *config);

#endif
