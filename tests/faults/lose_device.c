/*
 * lose_device - makes the daemon's device lost, as after a sticky error of a GPU. To be linked into
 * the program gemmd-losing, with the linker's options --wrap=device_submit and --wrap=self_test.
 *
 * The device is lost when a product of LOST_M x LOST_N with LOST_K is launched while the file that
 * the variable LOSE_DEVICE names exists. The file is removed, so one file loses the device once.
 * The devices that the variable BROKEN_DEVICES names, as in "01", fail their self-test at the
 * start.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/device/device_ops.h"
#include "server/device/self_test.h"

enum { LOST_M = 13, LOST_N = 17, LOST_K = 19 };

void __real_device_submit(struct device *device, struct work *works);
void __wrap_device_submit(struct device *device, struct work *works);

void __wrap_device_submit(struct device *device, struct work *works)
{
    const struct task *task = &works->task;
    const struct gemm_problem *problem = &task->problem.gemm;
    const char *path = getenv("LOSE_DEVICE");
    if (task->operation == &operation_gemm && problem->m == LOST_M && problem->n == LOST_N &&
        problem->k == LOST_K && path != NULL && unlink(path) == 0)
        device_set_lost(device, "a test has lost the device");
    __real_device_submit(device, works);
}

enum gemmd_error __real_self_test(struct device *device, const char *without, struct fault *fault);
enum gemmd_error __wrap_self_test(struct device *device, const char *without, struct fault *fault);

enum gemmd_error __wrap_self_test(struct device *device, const char *without, struct fault *fault)
{
    const char *broken = getenv("BROKEN_DEVICES");
    if (broken != NULL && strchr(broken, '0' + device_info(device)->index) != NULL)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL, "a test has broken the device");
    return __real_self_test(device, without, fault);
}
