/*
 * device_ops.h - what a backend (or a test's simulated device) is to device.c.
 *
 * device.c keeps the books: which slot has which work, in what order, and the latch that says that
 * the device is lost. A slot is a stream; works of a slot never overlap, but for those of a chain,
 * which share a launch. The last slot is the probe's. Functions are called from the thread that
 * device_enter named, unless they say otherwise.
 */
#ifndef SERVER_DEVICE_DEVICE_OPS_H
#define SERVER_DEVICE_DEVICE_OPS_H

#include <stdatomic.h>

#include "server/device/copy_in.h"
#include "server/device/device.h"

struct device_ops {
    /* Makes this thread able to use the device. NULL: nothing to do. */
    void (*enter)(struct device *device);
    /* Starts a chain of works on `slot`, which is free. A failure is recorded in the status and
     * fault of each; the slot is polled all the same. */
    void (*submit)(struct device *device, uint32_t slot, struct work *works);
    /* Whether the chain has left `slot` (its memory is not used any more); fills in status and
     * times of each. */
    bool (*poll)(struct device *device, uint32_t slot, struct work *works);
    /* Releases all that the backend owns, the struct itself included. */
    void (*close)(struct device *device);
    bool computes_in_submit;
    /* Device memory of a problem; see device_work_bytes. */
    bool (*work_bytes)(const struct device *device, const struct gemm_problem *problem,
                       const struct gemm_kernel *kernel, uint64_t *out);
    /* The same of an attention. NULL: the backend has no kernels for it. */
    bool (*attention_bytes)(const struct device *device, const struct attention_problem *problem,
                            const struct attention_kernel *kernel, uint64_t *out);
    /* `submit` takes chains of attentions with a stack_key, and runs each chain as one group
     * (kernels/attention_grouped.h). */
    bool groups_attention;
    /* See device_can_share_launch. NULL: none can. */
    bool (*can_share_launch)(const struct gemm_problem *problem, const struct gemm_kernel *kernel);

    /* Copies that begin before their work does (device_copy.h). All three, or NULL: operands are
     * used where they lie. */
    /* The copies by which a work's operands come in, from `body` if they are there (NULL: all are
     * where they are to be copied from); false: it has none. Any thread. */
    bool (*plan_copies)(const struct device *device, const struct work *work,
                        struct device_span body, struct copy_in *copies);
    /* Starts a piece on `copy_stream`, after those that were started before, and marks there the
     * end of all. An error is of this piece alone unless it loses the device. */
    enum gemmd_error (*copy_in)(struct device *device, uint32_t copy_stream,
                                const struct copy_in_piece *piece);
    /* Whether all that was started on `copy_stream` has ended. */
    bool (*copied_in)(struct device *device, uint32_t copy_stream);

    /* Loads what the first requests would wait for otherwise, with the kernels that the self-test
     * has left. NULL: nothing to do. */
    enum gemmd_error (*warm)(struct device *device, struct fault *fault);
};

enum { DEVICE_SLOTS_MAX = DEVICE_STREAMS_MAX + DEVICE_SHARED_SLOTS + 1 };
enum { DEVICE_COPY_STREAMS = 64 }; /* bodies that are being copied while they are received */

/* A backend's struct begins with this one. */
struct device {
    const struct device_ops *ops;
    struct device_info info;
    struct arena *arena;        /* owned by the backend */
    struct device_span tensors; /* its tensor memory; likewise */
    uint64_t stack_bytes;       /* of the workspace of each stream that runs stacks; 0: none can */

    uint32_t slots;        /* for requests; slot number `slots` is the probe's */
    uint32_t shared_slots; /* the last so many of them are for works that share launches */
    struct work *running[DEVICE_SLOTS_MAX]; /* [slot], NULL where free; chains */
    uint8_t order[DEVICE_SLOTS_MAX];        /* busy slots, oldest first */
    uint32_t busy, busy_shared_slots;       /* slots; the probe's is among `busy` */
    atomic_uint in_flight;                  /* works, without the probe */
    bool copy_streams[DEVICE_COPY_STREAMS]; /* in use (device_copy.h) */

    uint32_t without_gemm, without_attention; /* struct gemm_device */
    struct device_left_out left_out[DEVICE_KERNELS_MAX];
    uint32_t left_out_count;

    char reason[256]; /* written once, before `lost` is set */
    atomic_bool lost;
};

/* Clears the books; `streams` is cut to 1 ... DEVICE_STREAMS_MAX. There are DEVICE_SHARED_SLOTS
 * slots more if works can share launches. */
void device_init(struct device *device, const struct device_ops *ops, uint32_t streams);
/* Latches that nothing can run any more; the first reason stays. */
void device_set_lost(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The backends. device_cuda_... of a build without CUDA find no device. */
enum gemmd_error device_cpu_open(const struct device_options *options, struct device **device,
                                 struct fault *fault);
void *device_cpu_host_alloc(uint64_t bytes, struct fault *fault);
void device_cpu_host_free(void *memory, uint64_t bytes);

enum gemmd_error device_cuda_count(uint32_t *count, struct fault *fault);
enum gemmd_error device_cuda_open(const struct device_options *options, struct device **device,
                                  struct fault *fault);
void *device_cuda_host_alloc(uint64_t bytes, struct fault *fault);
void device_cuda_host_free(void *memory);

#endif
