#include "server/memory_needs.h"

#include <inttypes.h>

#include "server/api/tensors/tensor_call.h"
#include "server/base/cores.h"
#include "server/device/device_open.h"
#include "server/device/memory/memory_limit.h"
#include "server/http/read_ahead.h"
#include "server/http/respond.h"
#include "server/http/server.h"

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
static const uint64_t OWN_THREADS = 9, CUDA_THREADS = 8;

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

struct memory_needs memory_needs(const struct config *config, bool on_gpu)
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

void memory_needs_print(const struct config *config, FILE *out)
{
    if (config->backend != CONFIG_BACKEND_CUDA)
        print_needs(config, false, out);
    if (config->backend != CONFIG_BACKEND_CPU)
        print_needs(config, true, out);
}
