/*
 * device.h - a simulated device, which computes small products in virtual time, and stalls, fails
 * and is lost by chance. It checks what it is given: that bytes which were copied early are those
 * of the operand, and that the order of launches keeps the promises of the queue (order.h).
 */
#ifndef TESTS_SIMULATE_DEVICE_H
#define TESTS_SIMULATE_DEVICE_H

#include "server/device/device_ops.h"

struct order;

enum { SIMULATED_COPIES_MAX = 256 };

/* How a device behaves. Chances are in a million, for each launch. */
struct device_traits {
    uint32_t streams;
    bool computes_in_submit; /* like the CPU */
    bool copies_early;       /* has memory of its own, into which operands are copied */
    uint64_t launch_ns;      /* of each launch */
    double flop_ns;          /* of each operation */
    uint32_t fails, stalls, is_lost;
    uint32_t wrong;    /* of the results of products */
    bool one_model;    /* with the other devices of the daemon */
    uint64_t stall_ns; /* how long a stall lasts */
    uint64_t memory_bytes, tensor_bytes;
};

struct simulated_device {
    struct device base; /* first; to be given to whoever wants a device */
    struct device_traits traits;
    struct order *order; /* borrowed: is told of each launch */
    unsigned char *memory;
    uint64_t end_ns[DEVICE_SLOTS_MAX];
    bool fails[DEVICE_SLOTS_MAX];
    uint64_t stalled_until_ns; /* nothing ends before */
    struct simulated_copy {
        struct copy_in_piece piece;
        uint32_t copy_stream;
        uint64_t end_ns;
    } copies[SIMULATED_COPIES_MAX];
    uint32_t copy_count;
    uint64_t launches, early_bytes, wrong_results; /* so far */
};

/* `memory` and `tensors` are borrowed. NULL: out of memory. */
struct simulated_device *simulated_device_open(const struct device_traits *traits, int32_t index,
                                               void *memory, void *tensors, struct order *order);

#endif
