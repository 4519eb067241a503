/* peak.h - the most that a GPU can do in a second, for the metrics. */
#ifndef SERVER_DEVICE_CUDA_PEAK_H
#define SERVER_DEVICE_CUDA_PEAK_H

#include "server/device/device.h"

/* Sets peak_flops and peak_memory_bytes of an info whose index and compute_capability are set. A
 * value that is not known stays 0. */
void cuda_peak_read(struct device_info *info);

#endif
