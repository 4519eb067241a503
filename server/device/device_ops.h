/*
 * device_ops.h - the interface between device.c and a backend: CUDA, the CPU, or a test's simulated
 * device.
 *
 * device.c keeps account of which slot runs which works, of their order, and of whether the device
 * is lost. A slot is a stream. The launch lists of a slot never overlap. After the slots for
 * requests come the probe's and that of launches between two parts of another. The functions of a
 * backend are called from the thread that called device_enter, unless their comment says otherwise.
 */
#ifndef SERVER_DEVICE_DEVICE_OPS_H
#define SERVER_DEVICE_DEVICE_OPS_H

#include <stdatomic.h>

#include "server/device/copy_in.h"
#include "server/device/device.h"

struct device_ops {
    /* Makes the calling thread able to use the device. NULL: there is nothing to do. */
    void (*enter)(struct device *device);
    /* Starts a launch list on `slot`, which is free. A failure is recorded in the status and fault
     * of each work; the slot is polled all the same. */
    void (*submit)(struct device *device, uint32_t slot, struct work *works);
    /* Whether the slot has finished its launch list and does not use the list's memory any more.
     * Sets the status and times of each work. */
    bool (*poll)(struct device *device, uint32_t slot, struct work *works);
    /* Frees everything that the backend owns, the struct device included. */
    void (*close)(struct device *device);
    /* `submit` computes, and `poll` has nothing to wait for. */
    bool computes_in_submit;
    /* The device memory that a task needs in a launch of its own. False: the size overflows. */
    bool (*task_bytes)(const struct device *device, const struct task *task, uint64_t *out);
    /* device_tile, of a task whose kernel describes its tile. NULL: no kernel does. */
    void (*tile)(const struct device *device, const struct task *task, struct operation_tile *out);
    /* `submit` takes launch lists of works with a join_key that are not stacked, and runs each
     * list as one group (operation_kernel.run_group). */
    bool groups;
    /* The backend has slots for shared launches. */
    bool shares_launches;

    /* Early copies (device_copy.h). A backend has all three functions, or none, if it uses operands
     * where they are. */
    /* Plans the copies of a work's operands: from `body` for operands in the body, and from their
     * own addresses if body.start is NULL. False: the work has no such copies. Any thread. */
    bool (*plan_copies)(const struct device *device, const struct work *work,
                        struct device_span body, struct copy_in *copies);
    /* Starts the copy of a piece on a copy stream, after all copies that were started there before.
     * An error fails this piece alone, unless the device is lost. */
    enum gemmd_error (*copy_in)(struct device *device, uint32_t copy_stream,
                                const struct copy_in_piece *piece);
    /* Whether all copies that were started on a copy stream have ended. */
    bool (*copied_in)(struct device *device, uint32_t copy_stream);

    /* device_connect. NULL: the devices share one memory. */
    bool (*connect)(struct device *device, const struct device *other);

    /* Loads the code that the first requests would otherwise wait for, for the kernels that the
     * self-test has not left out. NULL: there is nothing to do. */
    enum gemmd_error (*warm)(struct device *device, struct fault *fault);
};

enum { DEVICE_SLOTS_MAX = DEVICE_STREAMS_MAX + DEVICE_SHARED_SLOTS + 2 };
enum { DEVICE_COPY_STREAMS = 64 }; /* bodies with early copies in flight at once */

/* The first member of a backend's own struct. */
struct device {
    const struct device_ops *ops;
    struct device_info info;
    struct arena *arena;        /* owned by the backend */
    struct device_span tensors; /* tensor memory, owned by the backend */
    uint64_t stack_bytes;       /* workspace of each stream that runs stacks; 0: none runs stacks */

    /* Slots for requests. Slot number `slots` is the probe's, and the next one is for
     * device_submit_between. */
    uint32_t slots;
    uint32_t shared_slots;                  /* the last of them, which are for shared launches */
    struct work *running[DEVICE_SLOTS_MAX]; /* [slot]: its launch list; NULL: the slot is free */
    uint8_t order[DEVICE_SLOTS_MAX];        /* the busy slots, oldest launch first */
    uint32_t busy;                          /* number of busy slots, the probe's included */
    uint32_t busy_shared_slots;
    atomic_uint_fast64_t progress;                  /* device_progress */
    atomic_uint in_flight;                          /* works, without the probe's */
    bool copy_streams[DEVICE_COPY_STREAMS];         /* in use (device_copy.h) */
    void (*pause)(void *argument, uint64_t ran_ns); /* device_on_pause */
    void *pause_argument;
    const struct work *paused; /* the launch that pauses now, inside of `submit`; NULL: none */

    uint32_t without[OPERATION_COUNT]; /* as in struct gemm_device */
    struct device_left_out left_out[DEVICE_KERNELS_MAX];
    uint32_t left_out_count;

    char reason[256]; /* why the device is lost; written once, before `lost` is set */
    atomic_bool lost;
};

/* Initializes a struct device. `streams` is limited to 1 ... DEVICE_STREAMS_MAX. The device has
 * DEVICE_SHARED_SLOTS more slots if the backend has shared launches. */
void device_init(struct device *device, const struct device_ops *ops, uint32_t streams);
/* Counts a part of a launch that the device has finished. Any thread. */
void device_note_progress(struct device *device);
/* Whether a slot is that of device_submit_between. */
static inline bool device_slot_is_between(const struct device *device, uint32_t slot)
{
    return slot == device->slots + 1;
}
/* The pauses of a launch of `submit`. */
struct device_pauses {
    uint64_t resumed_ns; /* when the launch began, or the last pause ended */
    uint64_t paused_ns;  /* how long the launch has paused in all */
};
/* To be called inside of `submit`, by the thread that submits, between two parts of a launch that
 * is not on the slot of device_submit_between. Lets the owner of the device submit other launches
 * (device_on_pause) if the launch has computed for some milliseconds without a pause. */
void device_pause(struct device *device, const struct work *works, struct device_pauses *pauses,
                  uint64_t now_ns);
/* Records that the device is lost. The reason of the first call stays. */
void device_set_lost(struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The backends. In a build without CUDA, device_cuda_... find no device. */
enum gemmd_error device_cpu_open(const struct device_options *options, struct device **device,
                                 struct fault *fault);
void *device_cpu_host_alloc(uint64_t bytes, struct fault *fault);
void device_cpu_host_free(void *memory, uint64_t bytes);

enum gemmd_error device_cuda_count(uint32_t *count, struct fault *fault);
bool device_cuda_uuid(int32_t index, char uuid[DEVICE_UUID_SIZE]);
int32_t device_cuda_host_node(int32_t index);
enum gemmd_error device_cuda_open(const struct device_options *options, struct device **device,
                                  struct fault *fault);
void *device_cuda_host_alloc(uint64_t bytes, struct fault *fault);
void device_cuda_host_free(void *memory);

#endif
