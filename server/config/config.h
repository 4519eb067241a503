/*
 * config.h - the daemon's options: flag > GEMMD_... environment > --config JSON file > default.
 *
 * One table (config_table.c) makes the flags, the environment names, the JSON keys and --help:
 * `--queue-requests N` is GEMMD_QUEUE_REQUESTS and "queue-requests". Repeatable options are
 * comma-separated in the environment and arrays in JSON; an empty variable counts as not set, and
 * so does null in JSON. Sizes take suffixes (64M, 2GiB; a bare number is bytes), times too (500ms,
 * 10s, 2m, 1h; a bare number is milliseconds).
 */
#ifndef SERVER_CONFIG_CONFIG_H
#define SERVER_CONFIG_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/error.h"

enum { CONFIG_LISTEN_MAX = 16 };
enum config_backend { CONFIG_BACKEND_AUTO, CONFIG_BACKEND_CUDA, CONFIG_BACKEND_CPU };
enum config_log_level { CONFIG_LOG_DEBUG, CONFIG_LOG_INFO, CONFIG_LOG_WARNING, CONFIG_LOG_ERROR };
enum config_log_format { CONFIG_LOG_JSON, CONFIG_LOG_TEXT };
enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_CHECK };

struct config {
    enum config_action action;
    char *listen[CONFIG_LISTEN_MAX]; /* default 127.0.0.1:8080, unless LISTEN_FDS brings sockets */
    uint32_t listen_count;
    enum config_backend backend;
    int32_t device;           /* --devices: a CUDA device number; one device for now is used */
    uint32_t streams;         /* works in flight on the device */
    uint32_t max_batch;       /* works that share a launch */
    uint32_t busy_poll_us;    /* looked for work before a thread sleeps */
    uint32_t io_threads;      /* 0: half of the cores, 1 ... 16 */
    uint32_t cpu_threads;     /* of the CPU backend; 0: all cores */
    uint32_t max_connections; /* in total */
    uint32_t max_connections_per_address; /* 0: no limit; never for unix sockets */
    uint64_t connection_buffer_bytes;     /* libmicrohttpd's buffer for each connection */
    uint32_t bulk_connections; /* at most so many get a buffer for large bodies; 0: none */
    uint64_t bulk_buffer_bytes;
    bool compress_answers;
    uint64_t max_body_bytes;
    uint32_t max_inflation; /* of a compressed body: so many times its length; 0: any */
    uint64_t max_result_bytes;
    uint64_t max_json_bytes; /* of an inference request, and of its answer */
    uint32_t queue_requests;
    uint64_t queue_bytes;
    uint32_t tenant_requests; /* of each tenant; 0: no limit of its own */
    uint64_t tenant_bytes;
    uint64_t tenant_tensor_bytes; /* of each tenant's resident tensors; 0: no own limit */
    uint32_t max_jobs;            /* 0: none; whoever asks for one is answered at once */
    uint64_t job_bytes;
    uint64_t pinned_bytes;
    uint64_t device_bytes;       /* 0: half of the device's free memory */
    uint64_t tensor_bytes;       /* device memory for resident tensors; 0: none */
    char *without_kernels;       /* names of kernels to leave out, "a,b"; NULL: none */
    bool shm_memfd;              /* memory of clients that comes over Unix sockets is used */
    bool shm_system;             /* ... POSIX shared memory that they name */
    bool shm_cuda;               /* ... memory of the GPU's that they have handles of */
    uint64_t shm_bytes;          /* of all of it together */
    uint32_t shm_regions;        /* memories, and names for them */
    uint64_t default_timeout_ms; /* when timeout_ms is not given; 0: none */
    uint64_t max_timeout_ms;     /* see config_longest_timeout_ms */
    uint32_t
        header_timeout_ms;     /* from accept, or from a request's first byte, to its last header */
    uint32_t idle_timeout_ms;  /* keep-alive connections between requests */
    uint32_t body_timeout_ms;  /* longest time a body may take; */
    uint64_t min_body_rate;    /* bytes a second, averaged, after the first 5 seconds; 0: none */
    uint64_t job_ttl_ms;       /* how long the result of a job is kept */
    uint64_t max_wait_ms;      /* longest a client may wait for one */
    uint32_t drain_delay_ms;   /* after SIGTERM: not ready, still accepting */
    uint32_t drain_timeout_ms; /* then at most this long for what was accepted */
    char *token_file;          /* bearer tokens, a line each ("name:token" or "token"); NULL: no
                                  authentication */
    enum config_log_level log_level;
    enum config_log_format log_format;
    bool access_log;
    char *config_file;
};

/* Reads flags, environment and file into `config` (owns its strings; release with config_free, also
 * after a failure). Every fault names the option and where it came from (flag, environment, file).
 */
enum gemmd_error config_load(struct config *config, int argc, char *const argv[],
                             char *const environment[], struct fault *fault);
void config_free(struct config *config);

/* The longest deadline that a request may name: max_timeout_ms, or where that is 0 what a number of
 * milliseconds may be at all. */
uint64_t config_longest_timeout_ms(const struct config *config);

void config_print_help(FILE *out);
/* Every option in force as a new JSON object, for --check-config: sizes in bytes, times in
 * milliseconds. The object is itself a valid --config file. NULL: out of memory. */
json_t *config_to_json(const struct config *config);
/* The same without addresses, file names and logging, for /info: nothing that only the host's owner
 * should know. */
json_t *config_limits_to_json(const struct config *config);

#endif
