/*
 * device.h - one device that computes: a GPU, or the host's CPU.
 *
 * A device has a fixed number of streams, its own memory (an arena) and the pinned host memory it
 * can copy from. device_open, device_enter, device_submit..., device_poll and device_close are
 * called from one thread at a time (main before the dispatch thread exists, then the dispatch
 * thread, then main again); the others from any thread.
 *
 * CUDA: operands are copied from the host into the work's range of device memory, the result back;
 * what lies in tensor memory is used, and stays, where it is.
 * Small works share launches that use pinned host memory where it lies, on streams of their own; so
 * do works of few rows on one resident B, which are stacked (device_stack.h).
 * CPU: operands are used where they lie; only the kernels' workspace is in the device's memory, and
 * that of stacks.
 * Attentions of one kind share launches on both (kernels/attention_grouped.h), each in its own
 * range of device memory.
 */
#ifndef SERVER_DEVICE_DEVICE_H
#define SERVER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "server/device/device_layout.h"
#include "server/device/memory/arena.h"
#include "server/device/work.h"

struct device;

enum {
    DEVICE_STREAMS_MAX = 64,
    DEVICE_SHARED_SLOTS = 2,        /* shared launches in flight: one runs while the next is made */
    DEVICE_LAUNCH_WORKS_MAX = 1024, /* works of a shared launch */
    DEVICE_KERNELS_MAX = 32,        /* of a backend, for products and attentions together */
};

struct device_options {
    enum gemm_backend backend;
    int32_t index;         /* CUDA device number */
    uint32_t streams;      /* works in flight at once besides those that share launches,
                              1 ... DEVICE_STREAMS_MAX; the CPU has one */
    uint32_t cpu_threads;  /* CPU backend; 0: all cores */
    uint64_t memory_bytes; /* device memory to take at start; 0: half of what is free (CUDA), a
                              quarter of the host's memory, in use only once needed (CPU) */
    uint64_t tensor_bytes; /* more memory, for operands that stay; 0: none */
    const char *without_kernels; /* names to leave out, "a,b"; NULL: none */
};

/* A kernel that is not served. */
struct device_left_out {
    const char *kernel;
    bool is_attention; /* of attentions, not of products */
    char reason[224];
};

struct device_info {
    enum gemm_backend backend;
    int32_t index;
    char name[128], uuid[48], arch[16]; /* "NVIDIA H100 80GB HBM3", "GPU-...", "sm_90" */
    uint32_t compute_capability;        /* 90 for sm_90; 0 on the CPU */
    char driver[32];                    /* driver version, or "" */
    uint64_t memory_total_bytes;        /* of the device; on the CPU, of the host */
    uint64_t open_ns, test_ns, warm_ns; /* what device_open spent: on the device and its memory, on
                                           known answers, on code that is loaded when first used */
};

/* How many devices the backend has; 0 if there is no driver. A driver that is there but does not
 * answer is GEMMD_ERR_DEVICE_LOST, so that a broken GPU host fails loudly instead of falling back
 * to the CPU. */
enum gemmd_error device_count(enum gemm_backend backend, uint32_t *count, struct fault *fault);

/* Opens a device: takes its memory, creates streams and library handles, and runs products with
 * known answers through every kernel, type and transposition (so that all code is loaded, and the
 * first request is as fast as the thousandth). A kernel that gives a wrong answer or fails is left
 * out (device_left_out); where no other takes its place, and where the device is lost by it, that
 * is GEMMD_ERR_DEVICE_LOST. `*device` is left alone on failure. */
enum gemmd_error device_open(const struct device_options *options, struct device **device,
                             struct fault *fault);
/* Nothing may be in flight, and all of device_arena freed. NULL is allowed. */
void device_close(struct device *device);

const struct device_info *device_info(const struct device *device);
/* The kernels that this device does without, and why; the device's own, settled by device_open. */
uint32_t device_left_out(const struct device *device, const struct device_left_out **list);
/* What gemm_select asks of it. */
struct gemm_device device_gemm(const struct device *device);
/* The device's own memory, from which work reserves device_work_bytes. */
struct arena *device_arena(struct device *device);
/* The device's tensor memory, for its user to divide up. Device addresses on CUDA: the host reads
 * and writes them by works only (struct work_copy). */
struct device_span device_tensor_memory(const struct device *device);
/* Device memory that a problem needs with a kernel (CUDA: operands, result and workspace, but for
 * what lies in tensor memory; CPU: workspace). Pointers of the problem are looked at only for being
 * NULL or in tensor memory. 0 means that nothing need be reserved. False on overflow. */
bool device_work_bytes(const struct device *device, const struct gemm_problem *problem,
                       const struct gemm_kernel *kernel, uint64_t *out);

/* As device_work_bytes, for an attention. */
bool device_attention_bytes(const struct device *device, const struct attention_problem *problem,
                            const struct attention_kernel *kernel, uint64_t *out);
/* As device_plan, for a work with an attention. */
bool device_plan_attention(const struct device *device, struct work *work);

/* Settles how a work with a problem and a kernel is launched: fills in `shares`, `stack_key`,
 * `stack_rows` and `device_bytes` (device_work_bytes; 0 for products that are stacked). Its copies
 * are there already. Of the problem's pointers, B is where it will be if it lies in tensor memory;
 * the others are looked at as by device_work_bytes. False on overflow. */
bool device_plan(const struct device *device, struct work *work);
/* Device memory for each stack in flight, besides that of the arena. */
uint64_t device_stack_memory(const struct device *device);

/* Whether works with such a problem and kernel can share a launch. They need no device memory, and
 * their operands must be aligned to their elements. Pure. */
bool device_can_share_launch(const struct device *device, const struct gemm_problem *problem,
                             const struct gemm_kernel *kernel);

/* Host memory that this device copies from and to at full speed (pinned on CUDA, page-aligned
 * anonymous memory on the CPU). Slow; at start-up only. */
void *device_host_alloc(enum gemm_backend backend, uint64_t bytes, struct fault *fault);
void device_host_free(enum gemm_backend backend, void *memory, uint64_t bytes);

/* From here on this thread is the one that submits and polls. */
void device_enter(struct device *device);
/* Whether device_submit has a stream free, for a launch on one of its own or for a shared one. */
bool device_has_room(const struct device *device);
bool device_has_shared_room(const struct device *device);
/* Works submitted and not returned by device_poll, without the probe. Any thread. */
uint32_t device_in_flight(const struct device *device);
/* Starts a work on a free stream, or a chain by `next` of at most DEVICE_LAUNCH_WORKS_MAX works
 * that all share one launch: the works of one stack, or others that share. Never blocks on other
 * work. Errors are recorded in every work of the chain, which device_poll then returns like any
 * other. The CPU computes here. */
void device_submit(struct device *device, struct work *works);
/* As device_submit, on a stream kept for this and ahead of all other work, so that a readiness
 * probe says whether the device answers and not how busy it is. One at a time. */
void device_submit_probe(struct device *device, struct work *work);
/* A work, or a chain as it was submitted, that has ended (status, times filled in), oldest first,
 * or NULL if none has. Does not wait. */
struct work *device_poll(struct device *device);
/* Whether device_submit computes, so that a thread inside it is proof of life. */
bool device_computes_in_submit(const struct device *device);

/* A sticky error was seen: the context is gone and nothing more can run. Any thread. */
bool device_lost(const struct device *device);
/* Last error text, for /readyz and the log; "" if none. */
const char *device_lost_reason(const struct device *device);

#endif
