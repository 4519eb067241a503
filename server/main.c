/*
 * gemmd - the daemon's main program: reads the options, starts the daemon, serves, and drains.
 *
 * Exit status: 0 after a drain, or after --help, --version or --check-config; 1 if the daemon could
 * not start, its device was lost too often, or --check-config found that the daemon could not
 * start; 2 for invalid options.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/cpu/openblas_core.h"
#include "proto/revision.h"
#include "server/api/tensors/tensor_call.h"
#include "server/base/cores.h"
#include "server/daemon.h"
#include "server/device/device_open.h"
#include "server/device/memory/memory_limit.h"
#include "server/http/read_ahead.h"
#include "server/http/respond.h"
#include "server/http/server.h"
#include "server/net/handover.h"
#include "server/observe/log.h"

extern char **environ;

/* ---- the memory that options allow ---- */

/* How much memory the daemon may use with given options, so that an operator can set the limit of a
 * service or a container (MemoryMax=, resources.limits.memory). deploy/systemd/README.md explains
 * the parts. The sum is an upper bound for what the process itself may hold (VmHWM). The buffers of
 * sockets belong to the kernel and are not included. */

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* The records of libmicrohttpd and of the daemon for a connection and for its request. */
static const uint64_t CONNECTION_BYTES = 16 * KIB;
/* The state of zlib for a body that is decompressed, and for an answer that is compressed. */
static const uint64_t INFLATER_BYTES = 48 * KIB, DEFLATER_BYTES = 512 * KIB;
/* A parsed JSON text takes up to 20 bytes for each of its own (an array of one-digit numbers). */
static const uint64_t JSON_FACTOR = 32;
/* The program and its libraries with the log, the tables and the dashboard's history and streams
 * (1.5 MiB); the parts of the stack that a thread touches; OpenBLAS's buffer of one thread; and the
 * host memory of a CUDA context. */
static const uint64_t PROGRAM_BYTES = 96 * MIB, THREAD_BYTES = MIB, BLAS_THREAD_BYTES = 32 * MIB,
                      CUDA_BYTES = 1024 * MIB;
/* Threads other than I/O threads and those of OpenBLAS, and those of a CUDA context. */
static const uint64_t OWN_THREADS = 10, CUDA_THREADS = 8;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t connections_bytes(const struct config *config, uint64_t threads, bool on_gpu)
{
    const uint64_t all = config->max_connections;
    const uint64_t bulk = least(config->bulk_connections, all);
    uint64_t bytes = (all - bulk) * config->connection_buffer_bytes +
                     bulk * config->bulk_buffer_bytes + all * CONNECTION_BYTES +
                     least(config->queue_requests, all) * INFLATER_BYTES;
    if (config->compress_answers)
        bytes += all * DEFLATER_BYTES;
    if (config->tls_cert != NULL)
        bytes += least(threads * READ_AHEAD_BUFFERS, all) * READ_AHEAD_BYTES;
    if (on_gpu) /* the whole tensor of such an answer is in pinned memory */
        bytes += least(config->pinned_bytes / TENSOR_MEANWHILE_BYTES, all) * RESPOND_PIECE_BYTES;
    return bytes;
}

/* How many devices the CPU backend makes; 1 if the option is malformed, which the start refuses. */
static uint64_t cpu_devices(const struct config *config)
{
    struct device_choice choice;
    struct fault ignored;
    return device_choice_read(GEMM_BACKEND_CPU, config->devices, &choice, &ignored) == GEMMD_OK
               ? choice.count
               : 1;
}

/* Bytes of host memory, except `device` and `tensors`, which are GPU memory on a GPU. */
struct memory_needs {
    uint64_t pinned, device, tensors, jobs, shared, connections, json, program;
    uint64_t host, gpu; /* the sums */
};

/* Computes the needs on a GPU or on the CPU. `device` is 0 on a GPU if --device-bytes is 0, since
 * half of the GPU's free memory is not known before the start. */
static struct memory_needs memory_needs(const struct config *config, bool on_gpu)
{
    struct http_server plan = {.thread_count = 0};
    http_server_plan(&plan, config);
    const uint64_t devices = on_gpu ? 1 : cpu_devices(config);
    const uint64_t blas = config->cpu_threads != 0 ? config->cpu_threads * devices : cores_usable();
    const uint64_t quarter = memory_limit_bytes() / 4;
    struct memory_needs needs = {
        .pinned = config->pinned_bytes,
        .device = config->device_bytes != 0 || on_gpu ? config->device_bytes * devices : quarter,
        .tensors = config->tensor_bytes * devices,
        .jobs = config->job_bytes,
        .shared = config->shm_memfd || config->shm_system ? config->shm_bytes : 0,
        .connections = connections_bytes(config, plan.thread_count, on_gpu),
        .json = plan.thread_count * JSON_FACTOR * config->max_json_bytes,
        .program = PROGRAM_BYTES + (plan.thread_count + OWN_THREADS) * THREAD_BYTES,
    };
    needs.program += on_gpu ? CUDA_BYTES + CUDA_THREADS * THREAD_BYTES
                            : blas * (BLAS_THREAD_BYTES + THREAD_BYTES);
    needs.host =
        needs.pinned + needs.jobs + needs.shared + needs.connections + needs.json + needs.program;
    *(on_gpu ? &needs.gpu : &needs.host) += needs.device + needs.tensors;
    return needs;
}

static void print_part(FILE *out, const char *name, uint64_t bytes)
{
    fprintf(out, "  %-15s %16" PRIu64 "\n", name, bytes);
}

static void print_needs(const struct config *config, bool on_gpu, FILE *out)
{
    const struct memory_needs needs = memory_needs(config, on_gpu);
    fprintf(out, "Bytes of host memory at most on backend %s:\n", on_gpu ? "cuda" : "cpu");
    print_part(out, "--pinned-bytes", needs.pinned);
    if (!on_gpu) {
        print_part(out, "--device-bytes", needs.device);
        print_part(out, "--tensor-bytes", needs.tensors);
    }
    print_part(out, "--job-bytes", needs.jobs);
    print_part(out, "--shm-bytes", needs.shared);
    print_part(out, "connections", needs.connections);
    print_part(out, "JSON", needs.json);
    print_part(out, "program", needs.program);
    print_part(out, "total", needs.host);
    if (!on_gpu)
        return;
    fprintf(out,
            "Bytes of GPU memory on backend cuda, of each GPU and besides its CUDA context:\n");
    if (needs.device == 0)
        fprintf(out, "  %-15s %16s\n", "--device-bytes", "half of the free");
    else
        print_part(out, "--device-bytes", needs.device);
    print_part(out, "--tensor-bytes", needs.tensors);
    if (needs.device != 0)
        print_part(out, "total", needs.gpu);
}

/* Prints the needs on each backend that the options allow. */
static void memory_needs_print(const struct config *config, FILE *out)
{
    if (config->backend != CONFIG_BACKEND_CUDA)
        print_needs(config, false, out);
    if (config->backend != CONFIG_BACKEND_CPU)
        print_needs(config, true, out);
}

/* ---- the program ---- */

static int print_config(const struct config *config)
{
    json_t *json = config_to_json(config);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    if (text == NULL)
        return EXIT_FAILURE;
    puts(text);
    free(text);
    return EXIT_SUCCESS;
}

/* Makes the exit status of --help, --version and --check-config a failure if their output could not
 * be written, since output is all that they are for. */
static int finish_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fputs("gemmd: standard output could not be written\n", stderr);
    return EXIT_FAILURE;
}

/* Opens /dev/null for each standard descriptor that is closed at the start. Otherwise the daemon's
 * first sockets would get the numbers 0 to 2, and messages on stderr would be written to a socket.
 * libuv also aborts a process that opens a socket below 3. */
static bool fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY); /* writing fails, as to a closed descriptor */
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 && close(fd) == 0;
}

/* Writes the option to change after a failed start, " (--listen)", unless the message names the
 * option already. */
static void name_option(const struct fault *fault, char *out, size_t capacity)
{
    snprintf(out, capacity, " (--%s)", fault->field);
    char option[sizeof fault->field + 8];
    snprintf(option, sizeof option, "--%s", fault->field);
    if (fault->field[0] == '\0' || strstr(fault->detail, option) != NULL)
        out[0] = '\0';
}

/* Writes to standard error what the options allow, and why a daemon could not start with them. */
static int report_check(struct daemon *daemon)
{
    struct fault fault = {.code = GEMMD_OK};
    char warning[TLS_WARNING_MAX], option[sizeof fault.field + 8];
    memory_needs_print(&daemon->config, stderr);
    if (daemon_check(daemon, warning, &fault) != GEMMD_OK) {
        name_option(&fault, option, sizeof option);
        fprintf(stderr, "gemmd: %s%s\n", fault.detail, option);
        return EXIT_FAILURE;
    }
    if (warning[0] != '\0')
        fprintf(stderr, "gemmd: warning: %s\n", warning);
    return EXIT_SUCCESS;
}

/* Whether standard error is where the log is written: on a terminal, in a container, in a unit of
 * systemd. */
static bool errors_go_to_the_log(void)
{
    struct stat log, errors;
    return fstat(STDOUT_FILENO, &log) == 0 && fstat(STDERR_FILENO, &errors) == 0 &&
           log.st_dev == errors.st_dev && log.st_ino == errors.st_ino;
}

static int serve(struct daemon *daemon)
{
    struct fault fault = {.code = GEMMD_OK};
    int status = EXIT_SUCCESS;
    daemon->log = log_create(daemon->config.log_level, daemon->config.log_format);
    if (daemon->log == NULL) {
        fputs("gemmd: there is no memory, no thread or no file descriptor for the log\n", stderr);
        return EXIT_FAILURE;
    }
    log_event(daemon->log, CONFIG_LOG_INFO, "gemmd " GEMMD_VERSION " (%s), pid %d", gemmd_revision,
              (int)getpid());
    if (daemon_start(daemon, &fault) == GEMMD_OK) {
        if (!daemon_run(daemon))
            status = EXIT_FAILURE;
    } else {
        char option[sizeof fault.field + 8];
        name_option(&fault, option, sizeof option);
        log_event(daemon->log, CONFIG_LOG_ERROR, "cannot start: %s%s", fault.detail, option);
        if (!errors_go_to_the_log())
            fprintf(stderr, "gemmd: %s%s\n", fault.detail, option);
        handover_tell_failure(fault.detail);
        status = EXIT_FAILURE;
    }
    if (!daemon_stop(daemon)) {
        log_sync(daemon->log);
        _exit(status); /* the device still computes: its memory must not be freed */
    }
    log_destroy(daemon->log);
    return status;
}

/* Whether a limit of the process (ulimit -v) may leave its libraries without memory. */
static bool limits_memory(void)
{
    struct rlimit addresses;
    return getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
}

/* Ends the process without the destructors of libraries if it has failed or if its memory is
 * limited. The destructor of OpenBLAS waits for OpenBLAS's threads, and a thread that gets no
 * memory for its buffer tries for ever. */
static void end_without_destructors(int status)
{
    if (status != EXIT_SUCCESS || limits_memory())
        _exit(status);
}

int main(int argc, char *argv[])
{
    static struct daemon daemon; /* zeroed */
    struct fault fault;
    int status = EXIT_SUCCESS;

    /* openblas_core_set may execute the program again, so it is called before anything is read: a
     * configuration file may be a pipe, which can be read only once. */
    openblas_core_set(argv);
    if (!fill_standard_descriptors()) {
        fputs("gemmd: /dev/null cannot be opened\n", stderr);
        end_without_destructors(EXIT_FAILURE);
    }
    daemon.services.revision = gemmd_revision;
    daemon.argc = argc;
    daemon.argv = argv;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log file at its size limit must not end the daemon */
    if (config_load(&daemon.config, argc, argv, environ, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd: %s\n", fault.detail);
        handover_tell_failure(fault.detail);
        config_free(&daemon.config);
        end_without_destructors(2);
    }
    switch (daemon.config.action) {
    case CONFIG_HELP:
        config_print_help(stdout);
        break;
    case CONFIG_VERSION:
        printf("gemmd " GEMMD_VERSION " (%s)\n", gemmd_revision);
        break;
    case CONFIG_CHECK:
        status = print_config(&daemon.config);
        break;
    case CONFIG_RUN:
        status = serve(&daemon);
        break;
    }
    if (daemon.config.action != CONFIG_RUN)
        status = finish_output(status);
    /* The JSON on standard output stays a valid --config file. */
    if (daemon.config.action == CONFIG_CHECK && status == EXIT_SUCCESS)
        status = report_check(&daemon);
    config_free(&daemon.config);
    end_without_destructors(status);
    return status;
}
