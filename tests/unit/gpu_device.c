#include "gpu_device.h"

#include <check.h>
#include <time.h>

#include "proto/dtype.h"

struct device *open_gpu(void)
{
    struct device_options options = {.backend = GEMM_BACKEND_CUDA,
                                     .streams = STREAMS,
                                     .memory_bytes = UINT64_C(1) << 30,
                                     .tensor_bytes = UINT64_C(64) << 20};
    struct device *device = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    return device;
}

unsigned char *take_host(uint64_t bytes)
{
    struct fault fault = {.detail = ""};
    unsigned char *memory = device_host_alloc(GEMM_BACKEND_CUDA, bytes, &fault);
    ck_assert_msg(memory != NULL, "%s", fault.detail);
    return memory;
}

struct work *wait_for_one(struct device *device)
{
    struct work *work;
    while ((work = device_poll(device)) == NULL)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    return work;
}

void run(struct device *device, struct work *work)
{
    device_submit(device, work);
    ck_assert_ptr_eq(wait_for_one(device), work);
}

void move(struct device *device, enum gemmd_dtype dtype, unsigned char *host, unsigned char *there,
          uint64_t rows, uint64_t columns, uint64_t leading, bool in)
{
    const uint64_t bytes = columns * dtype_size(dtype), pitch = leading * dtype_size(dtype);
    struct work_copy copy = {.from = in ? host : there,
                             .to = in ? there : host,
                             .rows = rows,
                             .row_bytes = bytes,
                             .from_pitch = in ? bytes : pitch,
                             .to_pitch = in ? pitch : bytes};
    struct work work = {.copies = {copy}, .copy_count = 1};
    run(device, &work);
    ck_assert_msg(work.status == GEMMD_OK, "%s", work.fault.detail);
}
