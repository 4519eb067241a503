#include "server/daemon_devices.h"

#include <inttypes.h>

#include "server/base/cores.h"
#include "server/device/device_open.h"
#include "server/device/memory/memory_limit.h"
#include "server/observe/log.h"

enum gemmd_error daemon_devices_choose_backend(const struct config *config,
                                               enum gemm_backend *backend, struct fault *fault)
{
    uint32_t count = 0;
    *backend = GEMM_BACKEND_CPU;
    if (config->backend == CONFIG_BACKEND_CPU)
        return GEMMD_OK;
    device_choice_show(config->devices);
    enum gemmd_error code = device_count(GEMM_BACKEND_CUDA, &count, fault);
    if (code != GEMMD_OK)
        return code;
    if (count > 0)
        *backend = GEMM_BACKEND_CUDA;
    else if (config->backend == CONFIG_BACKEND_CUDA)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "backend", "%s", device_cuda_absence());
    return GEMMD_OK;
}

/* Logs the kernels that failed their self-test and are not served. */
static void log_left_out(struct log *log, const struct device *device)
{
    const struct device_left_out *list;
    const uint32_t count = device_left_out(device, &list);
    for (uint32_t i = 0; i < count; i++)
        log_event(log, CONFIG_LOG_ERROR, "the %s kernel %s is not served by device %d: %s",
                  list[i].operation, list[i].kernel, (int)device_info(device)->index,
                  list[i].reason);
}

void daemon_devices_warn_of_memory(const struct config *config, struct log *log,
                                   const struct executors *executors, enum gemm_backend backend)
{
    const uint64_t limit_bytes = memory_limit_bytes();
    /* An option is at most 16 TiB, so the sum does not overflow. */
    uint64_t option_bytes = config->pinned_bytes + config->job_bytes;
    for (uint32_t i = 0; i < executors->count && backend == GEMM_BACKEND_CPU; i++) {
        const struct arena *arena = device_arena(executors->list[i].device);
        if (arena != NULL)
            option_bytes += arena_capacity_bytes(arena) + config->tensor_bytes;
    }
    if (limit_bytes != 0 && option_bytes > limit_bytes)
        log_event(log, CONFIG_LOG_WARNING,
                  "--pinned-bytes, --job-bytes%s are %" PRIu64 " bytes together, and this process "
                  "may use %" PRIu64
                  "; lower them, or the system may end the daemon when they fill",
                  backend == GEMM_BACKEND_CPU ? ", --device-bytes and --tensor-bytes" : "",
                  option_bytes, limit_bytes);
}

/* The threads of one of `count` devices of the CPU backend. */
static uint32_t threads_of_each(const struct config *config, uint32_t count)
{
    if (config->cpu_threads != 0)
        return config->cpu_threads;
    const uint32_t each = cores_usable() / count;
    return each > 1 ? each : 1;
}

/* The memory of one of `count` devices; 0: the device's own default. */
static uint64_t memory_of_each(const struct config *config, enum gemm_backend backend,
                               uint32_t count)
{
    if (backend == GEMM_BACKEND_CPU && count > 1 && config->device_bytes == 0)
        return memory_limit_bytes() / 4 / count;
    return config->device_bytes;
}

static void connect_devices(struct log *log, const struct executors *executors)
{
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct device_info *info = device_info(executors->list[i].device);
        for (uint32_t j = 0; j < executors->count; j++)
            if (i != j && !device_connect(executors->list[i].device, executors->list[j].device))
                log_event(log, CONFIG_LOG_WARNING,
                          "device %d cannot copy from device %d directly, so that copies go "
                          "through the host",
                          (int)info->index, (int)device_info(executors->list[j].device)->index);
        if (info->link_bytes > 0)
            log_event(log, CONFIG_LOG_INFO,
                      "device %d copies from other devices at %.1f GB/s or more", (int)info->index,
                      info->link_bytes / 1e9);
    }
}

uint64_t daemon_devices_host_nodes(enum gemm_backend backend, const struct device_choice *choice)
{
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        const int32_t node = device_host_node(backend, choice->index[i]);
        if (node < 0 || node > 63)
            return 0;
        nodes |= UINT64_C(1) << node;
    }
    return nodes;
}

enum gemmd_error daemon_devices_open(const struct config *config, struct log *log,
                                     struct executors *executors, enum gemm_backend backend,
                                     const struct device_choice *choice, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    const struct device_options options = {
        .backend = backend,
        .streams = config->streams,
        .cpu_threads = threads_of_each(config, choice->count),
        .cpu_pauses = config->cpu_pauses,
        .memory_bytes = memory_of_each(config, backend, choice->count),
        .tensor_bytes = config->tensor_bytes,
        .without_kernels = config->without_kernels,
    };
    struct device_opening openings[DEVICES_MAX];
    for (uint32_t i = 0; i < choice->count; i++) {
        openings[i].options = options;
        openings[i].options.index = choice->index[i];
    }
    devices_open(openings, choice->count);
    for (uint32_t i = 0; i < choice->count; i++) {
        const struct device_opening *opening = &openings[i];
        if (opening->code == GEMMD_OK) { /* closed with the daemon, even if another one fails */
            executors->list[executors->count++].device = opening->device;
            log_left_out(log, opening->device);
            continue;
        }
        if (code == GEMMD_OK)
            *fault = opening->fault;
        if (opening->code == GEMMD_ERR_DEVICE_LOST && choice->count > 1)
            log_event(log, CONFIG_LOG_ERROR,
                      "device %" PRId32 " is left out, since it does not compute: %s",
                      opening->options.index, opening->fault.detail);
        else if (code == GEMMD_OK)
            code = opening->code;
    }
    if (code == GEMMD_OK && executors->count == 0)
        code = GEMMD_ERR_DEVICE_LOST;
    if (code == GEMMD_OK)
        connect_devices(log, executors);
    return code;
}
