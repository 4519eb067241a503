/*
 * device.h - one device that computes: a GPU, or the CPU of the host.
 *
 * A device has a fixed number of streams, its own memory (an arena), and pinned host memory that it
 * copies from and to. device_open, device_enter, device_submit, device_submit_probe, device_poll
 * and device_close are called from one thread at a time: by the main thread, then by the dispatch
 * thread, then by the main thread again. The other functions may be called from any thread.
 *
 * CUDA: operands are copied from host memory to the work's range of device memory, and the result
 * is copied back. Operands and results in tensor memory are used where they are. Small problems of
 * all operations share launches on streams of their own, whose kernels read and write pinned host
 * memory directly (operation->is_small). So do problems that share a resident operand, such as
 * products of few rows with one resident B, which are stacked (device_stack.h).
 *
 * CPU: operands are used where they are. The device's memory holds only the workspaces of kernels
 * and of stacks.
 *
 * Larger problems of one kind share launches on both backends if a kernel computes groups
 * (operation->group_traits), each problem in its own range of device memory.
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
    DEVICE_KEEPING_STREAMS = 4, /* with so many, the last one is not for every work */
    DEVICE_SHARED_SLOTS = 2,    /* shared launches in flight: one runs while the next is prepared */
    DEVICE_LAUNCH_WORKS_MAX = 1024, /* works of a shared launch */
    DEVICE_KERNELS_MAX = 64,        /* of a backend, for all operations together */
    DEVICE_UUID_SIZE = 48,          /* with the zero byte */
};

struct device_options {
    enum gemm_backend backend;
    int32_t index; /* number of the CUDA device, or of the CPU device among those of the host */
    /* Launches in flight besides shared launches, 1 ... DEVICE_STREAMS_MAX. The CPU always has 1,
     * and another one between two parts of a long launch (device_on_pause). */
    uint32_t streams;
    uint32_t cpu_threads; /* of a device of the CPU backend; 0: all cores */
    bool cpu_pauses;      /* long launches of the CPU backend pause (device_on_pause) */
    /* Device memory to allocate at start. 0: half of the free memory (CUDA), or a quarter of the
     * host's memory, whose pages are used only once they are written (CPU). */
    uint64_t memory_bytes;
    uint64_t tensor_bytes;       /* more memory, for resident tensors; 0: none */
    const char *without_kernels; /* names of kernels to leave out, "a,b"; NULL: none */
};

/* A kernel that the device does not use. */
struct device_left_out {
    const char *kernel;
    const char *operation; /* "gemm", or the operation's name */
    char reason[224];
};

struct device_info {
    enum gemm_backend backend;
    int32_t index;
    char name[128], uuid[DEVICE_UUID_SIZE],
        arch[16];                /* "NVIDIA H100 80GB HBM3", "GPU-...", "sm_90" */
    uint32_t compute_capability; /* 90 for sm_90; 0 on the CPU */
    char driver[32];             /* version of the driver, or "" */
    uint64_t memory_total_bytes; /* of the device; on the CPU, of the host */
    /* Most floating-point operations on operands of a type, and most bytes of memory, a second: of
     * a GPU at the highest clocks, of a CPU as measured by device_open; 0: not known. */
    double peak_flops[GEMMD_DTYPE_COUNT], peak_memory_bytes;
    /* Bytes a second of copies from another device to this one, from the slowest of those that
     * device_connect was called for; 0: not known. */
    double link_bytes;
    /* Parts of the time of device_open: opening the device and its memory, the self-test, and
     * loading the code that would be loaded at its first use. */
    uint64_t open_ns, test_ns, warm_ns;
};

/* Number of devices of a backend; 0: the host has no driver. GEMMD_ERR_DEVICE_LOST: the host has a
 * driver that does not answer, so that a daemon on a broken GPU host fails with an error instead of
 * falling back to the CPU. */
enum gemmd_error device_count(enum gemm_backend backend, uint32_t *count, struct fault *fault);

/* Writes the UUID of a device ("GPU-5f1e0cb2-..."). False: the device has none, or the driver does
 * not tell it. */
bool device_uuid(enum gemm_backend backend, int32_t index, char uuid[DEVICE_UUID_SIZE]);

/* The NUMA node of the host that is nearest to a device; -1: not known. */
int32_t device_host_node(enum gemm_backend backend, int32_t index);

/* Opens a device: allocates its memory, creates streams and library handles, and runs problems of
 * all operations with known answers through every kernel and type (self_test.h), so that
 * all code is loaded and the first request is as fast as any later one. A kernel that fails or
 * gives a wrong answer is left out (device_left_out). GEMMD_ERR_DEVICE_LOST: no other kernel takes
 * the place of a kernel that was left out, or the device was lost. `*device` is unchanged on
 * failure. */
enum gemmd_error device_open(const struct device_options *options, struct device **device,
                             struct fault *fault);
/* No work may be in flight, and every range of device_arena must have been freed. NULL is allowed.
 */
void device_close(struct device *device);

/* Lets a device copy directly from the memory of another device, over the link between them if
 * there is one. Returns false if the devices cannot copy directly, so that copies go through the
 * host. In both cases the function measures the speed of copies, for device_info. Called before
 * either device computes. */
bool device_connect(struct device *device, const struct device *other);

const struct device_info *device_info(const struct device *device);
/* The kernels that are left out, and why. The list belongs to the device and never changes after
 * device_open. Returns its length. */
uint32_t device_left_out(const struct device *device, const struct device_left_out **list);
/* The properties of the device that operation_select needs. */
struct gemm_device device_gemm(const struct device *device);
/* Describes the tile with which the kernel of a task would compute the problem in a launch of its
 * own. The problem's pointers are only tested for NULL. All zero: the kernel chooses no tile. */
void device_tile(const struct device *device, const struct task *task, struct operation_tile *out);
/* The device's memory, in which each work has a range (work->device_bytes). */
struct arena *device_arena(struct device *device);
/* The device's tensor memory, which tensor_store.h divides up. On CUDA these are device addresses:
 * only works read and write them (struct work_copy). */
struct device_span device_tensor_memory(const struct device *device);
/* Plans how a work is launched. The work has its task and copies. Sets `shared_launch`,
 * `join_key`, `join_rows`, `check_offset` and `device_bytes`: the device memory that has to be
 * reserved for the work. On CUDA these are operands and results that are not in tensor memory, the
 * workspace, and the memory of the check if the work is to be verified; on the CPU the workspaces
 * alone. No memory is reserved for works that are stacked or that share a launch of small works,
 * whose operands must be aligned to their elements. A resident operand that stacks share must be at
 * its final address; the problem's other pointers are only tested for NULL and for being in tensor
 * memory. False: the size overflows. */
bool device_plan(const struct device *device, struct work *work);
/* Whether a task is so small that it shares launches with other small tasks. Pure. */
bool device_shares_launch(const struct device *device, const struct task *task);
/* Device memory for each stack in flight, outside the arena. */
uint64_t device_stack_memory(const struct device *device);

/* Allocates host memory that this device copies from and to at full speed: pinned memory on CUDA,
 * page-aligned anonymous memory on the CPU. Slow; for start-up only. */
void *device_host_alloc(enum gemm_backend backend, uint64_t bytes, struct fault *fault);
void device_host_free(enum gemm_backend backend, void *memory, uint64_t bytes);

/* Makes the calling thread the one that submits and polls. */
void device_enter(struct device *device);
/* Whether a stream is free: for a launch of its own, and for a shared launch. */
bool device_has_room(const struct device *device);
/* Whether one stream for launches of their own is free, of DEVICE_KEEPING_STREAMS or more. */
bool device_has_last_room(const struct device *device);
bool device_has_shared_room(const struct device *device);
/* A number that grows whenever the device finishes a launch, or a part of one that the backend can
 * tell apart, and whenever a launch starts. Probes do not count. Any thread. */
uint64_t device_progress(const struct device *device);
/* Number of works that were submitted and not yet returned by device_poll, without the probe. Any
 * thread. */
uint32_t device_in_flight(const struct device *device);
/* Starts a launch on a free stream: one work, or a launch list of at most DEVICE_LAUNCH_WORKS_MAX
 * works, which are all of one stack, all of one group, or all small. Never waits for other works.
 * An error is recorded in every work of the list, which device_poll then returns like any other
 * list. The CPU computes inside this function. */
void device_submit(struct device *device, struct work *works);
/* As device_submit, on a stream that only the probe uses and that runs ahead of all other work, so
 * that a readiness probe says whether the device answers and not how busy it is. One at a time. */
void device_submit_probe(struct device *device, struct work *work);
/* A device that computes inside device_submit calls `pause` there, between two parts of a launch
 * that takes long, in the thread that submits. `ran_ns` is how long the launch has computed since
 * it began or since the last pause. The pause may submit launches by device_submit_between, one
 * after another, and polls for their ends; the long launch goes on when the function returns. To be
 * called before the first launch. NULL: no pauses. */
void device_on_pause(struct device *device, void (*pause)(void *argument, uint64_t ran_ns),
                     void *argument);
/* As device_submit, during a pause, for works without a shared launch. One launch at a time. */
void device_submit_between(struct device *device, struct work *works);
/* Returns the oldest launch list that the device has finished, as it was submitted, with status and
 * times set; NULL: the device has finished none. Does not wait. */
struct work *device_poll(struct device *device);
/* Whether device_submit computes, so that a thread inside device_submit proves that the device
 * works. */
bool device_computes_in_submit(const struct device *device);

/* Whether the device is lost: a sticky error was seen, and nothing can run any more. Any thread. */
bool device_lost(const struct device *device);
/* Why the device is lost, for /readyz and the log; "" if the device is not lost. */
const char *device_lost_reason(const struct device *device);

#endif
