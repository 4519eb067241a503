/*
 * lose_device - makes the daemon's device lost, as after a sticky error of a GPU. To be linked into
 * the program gemmd-losing, with the linker's option --wrap=device_submit.
 *
 * The device is lost when a product of LOST_M x LOST_N with LOST_K is launched while the file that
 * the variable LOSE_DEVICE names exists. The file is removed, so one file loses the device once.
 */
#include <stdlib.h>
#include <unistd.h>

#include "server/device/device_ops.h"

enum { LOST_M = 13, LOST_N = 17, LOST_K = 19 };

void __real_device_submit(struct device *device, struct work *works);
void __wrap_device_submit(struct device *device, struct work *works);

void __wrap_device_submit(struct device *device, struct work *works)
{
    const struct gemm_problem *problem = &works->problem;
    const char *path = getenv("LOSE_DEVICE");
    if (works->kernel != NULL && problem->m == LOST_M && problem->n == LOST_N &&
        problem->k == LOST_K && path != NULL && unlink(path) == 0)
        device_set_lost(device, "a test has lost the device");
    __real_device_submit(device, works);
}
