/*
 * device.h - one device that computes: a GPU, or the host's CPU.
 *
 * A device has a fixed number of streams, its own memory (an arena) and the pinned host memory it
 * can copy from. device_open, device_submit, device_poll and device_close are called from one
 * thread at a time (main before the dispatch thread exists, then the dispatch thread); the others
 * from any thread.
 */
#ifndef SERVER_DEVICE_H
#define SERVER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "server/arena.h"
#include "server/work.h"

struct device;

struct device_options {
    enum gemm_backend backend;
    int32_t index;         /* CUDA device number */
    uint32_t streams;      /* works in flight at once; >= 1 */
    uint32_t cpu_threads;  /* CPU backend; 0: all cores */
    uint64_t memory_bytes; /* device memory to take at start; 0: backend's default (CUDA: half of
                              what is free) */
};

struct device_info {
    enum gemm_backend backend;
    int32_t index;
    char name[128], uuid[48], arch[16]; /* "NVIDIA H100 80GB HBM3", "GPU-...", "sm_90" */
    char driver[32];                    /* driver version, or "" */
    uint64_t memory_total_bytes;        /* of the device; 0 on the CPU */
};

/* How many devices the backend has; 0 if there is no driver. A driver that is there but does not
 * answer is GEMMD_ERR_DEVICE_LOST, so that a broken GPU host fails loudly instead of falling back
 * to the CPU. */
enum gemmd_error device_count(enum gemm_backend backend, uint32_t *count, struct fault *fault);

/* Opens a device: takes its memory, creates streams and library handles, loads every kernel (so
 * that the first request is as fast as the thousandth), and runs a product with a known answer. */
enum gemmd_error device_open(const struct device_options *options, struct device **device,
                             struct fault *fault);
void device_close(struct device *device); /* nothing may be in flight */

const struct device_info *device_info(const struct device *device);
/* The device's own memory, from which work reserves device_work_bytes; NULL on the CPU. */
struct arena *device_arena(struct device *device);
/* Device memory that a problem needs with a kernel (operands, result, workspace). False on
 * overflow. */
bool device_work_bytes(const struct device *device, const struct gemm_problem *problem,
                       const struct gemm_kernel *kernel, uint64_t *out);

/* Host memory that this device copies from and to at full speed (pinned on CUDA, page-aligned
 * anonymous memory on the CPU). Slow; at start-up only. */
void *device_host_alloc(enum gemm_backend backend, uint64_t bytes, struct fault *fault);
void device_host_free(enum gemm_backend backend, void *memory, uint64_t bytes);

/* Whether device_submit has a stream free. */
bool device_has_room(const struct device *device);
uint32_t device_in_flight(const struct device *device);
/* Starts work on a free stream. Never blocks on other work. Errors are recorded in the work, which
 * device_poll then returns like any other. */
void device_submit(struct device *device, struct work *work);
/* The next work that has ended (status, times filled in), or NULL if none has. Does not wait. */
struct work *device_poll(struct device *device);

/* A sticky error was seen: the context is gone and nothing more can run. Any thread. */
bool device_lost(const struct device *device);
/* Last error text, for /readyz and the log; "" if none. */
const char *device_lost_reason(const struct device *device);

#endif
