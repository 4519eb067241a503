/*
 * daemon_devices.h - opens the devices that the options name, for daemon.c.
 *
 * All functions run on the main thread. All pointers are borrowed for the call.
 */
#ifndef SERVER_DAEMON_DEVICES_H
#define SERVER_DAEMON_DEVICES_H

#include "kernels/gemm.h"
#include "proto/error.h"
#include "server/config/config.h"
#include "server/device/device_open.h"
#include "server/scheduler/executor.h"

struct log;

/* Chooses the backend that --backend names. The value auto chooses CUDA if the host has a GPU and
 * its driver, else the CPU. A GPU that does not work is an error, because the CPU would compute a
 * hundred times slower. GEMMD_ERR_DEVICE_LOST: --backend is cuda, and there is no CUDA device; or a
 * GPU does not work. */
enum gemmd_error daemon_devices_choose_backend(const struct config *config,
                                               enum gemm_backend *backend, struct fault *fault);
/* Returns the NUMA nodes that are nearest to the devices of `choice`: bit i stands for node i. 0:
 * the node of a device is not known. */
uint64_t daemon_devices_host_nodes(enum gemm_backend backend, const struct device_choice *choice);
/* Opens the devices of `choice`, and adds each to `executors` and the log. If there are several, a
 * device that does not compute is left out. The caller closes the devices with
 * executors_close_devices, also after an error. The errors are those of device_open. */
enum gemmd_error daemon_devices_open(const struct config *config, struct log *log,
                                     struct executors *executors, enum gemm_backend backend,
                                     const struct device_choice *choice, struct fault *fault);
/* Warns in the log if the options allow more memory than the process may use. The system gives
 * memory only when a page is first written, so without the warning the mistake would show only when
 * the system kills the process. */
void daemon_devices_warn_of_memory(const struct config *config, struct log *log,
                                   const struct executors *executors, enum gemm_backend backend);

#endif
