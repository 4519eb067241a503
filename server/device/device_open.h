/*
 * device_open.h - the devices that the operator has chosen (--devices), and opening them.
 *
 * The text of the option is "all", or a list of numbers and UUIDs: "0,2", "GPU-5f1e0cb2-...",
 * "MIG-...". For the CPU the text is a single number, the number of devices that the host's cores
 * are divided into. Devices are opened at the same time, because opening a GPU takes seconds, most
 * of them in the driver.
 */
#ifndef SERVER_DEVICE_DEVICE_OPEN_H
#define SERVER_DEVICE_DEVICE_OPEN_H

#include <stdint.h>

#include "server/device/device.h"

enum { DEVICES_MAX = 16 };

struct device_choice {
    uint32_t count;
    int32_t index[DEVICES_MAX]; /* numbers of devices, in the order of the text */
};

/* Makes the instances of divided GPUs (MIG) that the text names visible to CUDA, which shows a
 * process such an instance only if the environment names it. To be called before any other function
 * that uses CUDA, while the process has one thread. */
void device_choice_show(const char *text);
/* Why there is no CUDA device where none is found: that the build has no CUDA, or the host no
 * device. Static. */
const char *device_cuda_absence(void);
/* Finds the devices of a backend that the text names. GEMMD_ERR_DEVICE_LOST: the host has no such
 * device, or its driver does not answer. GEMMD_ERR_USAGE: the text is malformed, names a device
 * twice, or names more than DEVICES_MAX devices. */
enum gemmd_error device_choice_read(enum gemm_backend backend, const char *text,
                                    struct device_choice *choice, struct fault *fault);

struct device_opening {
    struct device_options options;
    /* The results of device_open for these options. */
    struct device *device; /* NULL unless `code` is GEMMD_OK */
    enum gemmd_error code;
    struct fault fault;
};

/* Calls device_open for each of the openings: for the first on the calling thread, for each other
 * on a thread of its own. Returns when all have ended. */
void devices_open(struct device_opening openings[], uint32_t count);

#endif
