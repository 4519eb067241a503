/* Opens a device: its backend, then the self-test of its kernels. */
#include <assert.h>

#include "server/base/clock.h"
#include "server/device/device_ops.h"
#include "server/device/self_test.h"

enum gemmd_error device_count(enum gemm_backend backend, uint32_t *count, struct fault *fault)
{
    if (backend == GEMM_BACKEND_CUDA)
        return device_cuda_count(count, fault);
    *count = 1;
    return GEMMD_OK;
}

bool device_uuid(enum gemm_backend backend, int32_t index, char uuid[DEVICE_UUID_SIZE])
{
    return backend == GEMM_BACKEND_CUDA && device_cuda_uuid(index, uuid);
}

enum gemmd_error device_open(const struct device_options *options, struct device **device,
                             struct fault *fault)
{
    struct device *opened = NULL;
    const uint64_t begun_ns = clock_now_ns();
    enum gemmd_error code = options->backend == GEMM_BACKEND_CUDA
                                ? device_cuda_open(options, &opened, fault)
                                : device_cpu_open(options, &opened, fault);
    const uint64_t opened_ns = clock_now_ns();
    if (code == GEMMD_OK)
        code = self_test(opened, options->without_kernels, fault);
    const uint64_t tested_ns = clock_now_ns();
    if (code == GEMMD_OK && opened->ops->warm != NULL)
        code = opened->ops->warm(opened, fault);
    if (code != GEMMD_OK) {
        device_close(opened);
        return code;
    }
    opened->info.open_ns = opened_ns - begun_ns;
    opened->info.test_ns = tested_ns - opened_ns;
    opened->info.warm_ns = clock_now_ns() - tested_ns;
    *device = opened;
    return GEMMD_OK;
}

bool device_connect(struct device *device, const struct device *other)
{
    return device->ops->connect == NULL || device->ops->connect(device, other);
}

void device_close(struct device *device)
{
    if (device == NULL)
        return;
    assert(device->busy == 0);
    device->ops->close(device);
}
