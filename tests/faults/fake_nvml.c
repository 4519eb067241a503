/*
 * fake_nvml.c - stands in for NVIDIA's NVML (libnvidia-ml.so.1), for test_gpu_metrics.py.
 *
 * The library reports two GPUs. The environment variable FAKE_NVML says how they behave:
 * "error": nvmlInit_v2 fails; "partial": the power, the energy and the ECC errors are not
 * supported; "hang": the temperature of a GPU is never answered; "lost": every figure fails.
 * fake_nvml_old is built from the same file without the functions that OLD_NVML leaves out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/observe/nvml_abi.h"

enum { UNKNOWN = 999, NOT_SUPPORTED = 3, TIMEOUT = 10, LOST = 15, GPUS = 2 };

struct nvml_device {
    const char *uuid;
    unsigned xids; /* XIDs that were reported */
};
static struct nvml_device gpus[GPUS] = {{"GPU-00000000-0000-0000-0000-00000000000a", 0},
                                        {"GPU-00000000-0000-0000-0000-00000000000b", 0}};

static int behaves(const char *how)
{
    const char *chosen = getenv("FAKE_NVML");
    return chosen != NULL && strcmp(chosen, how) == 0;
}

static int status(void)
{
    return behaves("lost") ? LOST : NVML_OK;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return behaves("error") ? UNKNOWN : NVML_OK;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
    return NVML_OK;
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = GPUS;
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
    *device = &gpus[index];
    return NVML_OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *device)
{
    for (int i = 0; i < GPUS; i++)
        if (strcmp(gpus[i].uuid, uuid) == 0) {
            *device = &gpus[i];
            return NVML_OK;
        }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetUUID(nvml_device device, char *out, unsigned capacity);
int nvmlDeviceGetUUID(nvml_device device, char *out, unsigned capacity)
{
    snprintf(out, capacity, "%s", device->uuid);
    return NVML_OK;
}

int nvmlDeviceGetName(nvml_device device, char *out, unsigned capacity);
int nvmlDeviceGetName(nvml_device device, char *out, unsigned capacity)
{
    (void)device;
    snprintf(out, capacity, "Fake \"GPU\"");
    return NVML_OK;
}

int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory);
int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    (void)device;
    *memory = (struct nvml_memory){.total = 1000000, .free = 600000, .used = 400000};
    return status();
}

#ifndef OLD_NVML
int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *used);
int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *used)
{
    (void)device;
    *used = (struct nvml_utilization){.gpu = 75, .memory = 25};
    return status();
}

int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 350500;
    return behaves("partial") ? NOT_SUPPORTED : status();
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules);
int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *millijoules)
{
    (void)device;
    *millijoules = 1234567;
    return behaves("partial") ? NOT_SUPPORTED : status();
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 700000;
    return status();
}

int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *celsius)
{
    (void)device;
    while (behaves("hang"))
        pause();
    *celsius = 61;
    return sensor == NVML_TEMPERATURE_GPU ? status() : NOT_SUPPORTED;
}

int nvmlDeviceGetClockInfo(nvml_device device, int clock, unsigned *megahertz);
int nvmlDeviceGetClockInfo(nvml_device device, int clock, unsigned *megahertz)
{
    (void)device;
    *megahertz = clock == NVML_CLOCK_SM ? 1755 : 2619;
    return status();
}

int nvmlDeviceGetMaxClockInfo(nvml_device device, int clock, unsigned *megahertz);
int nvmlDeviceGetMaxClockInfo(nvml_device device, int clock, unsigned *megahertz)
{
    (void)device;
    *megahertz = clock == NVML_CLOCK_SM ? 1980 : 2619;
    return status();
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, unsigned long long *reasons);
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 0x4; /* the power limit */
    return status();
}

int nvmlDeviceGetTotalEccErrors(nvml_device device, int type, int counter,
                                unsigned long long *errors);
int nvmlDeviceGetTotalEccErrors(nvml_device device, int type, int counter,
                                unsigned long long *errors)
{
    (void)device;
    (void)counter;
    *errors = type == NVML_ECC_CORRECTED ? 7 : 0;
    return behaves("partial") ? NOT_SUPPORTED : status();
}

int nvmlDeviceGetPcieThroughput(nvml_device device, int counter, unsigned *kilobytes);
int nvmlDeviceGetPcieThroughput(nvml_device device, int counter, unsigned *kilobytes)
{
    (void)device;
    *kilobytes = counter == NVML_PCIE_SENT ? 100 : 200;
    return status();
}

int nvmlEventSetCreate(nvml_event_set *set);
int nvmlEventSetCreate(nvml_event_set *set)
{
    static char events;
    *set = (nvml_event_set)(void *)&events;
    return NVML_OK;
}

int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types, nvml_event_set set);
int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types, nvml_event_set set)
{
    (void)device;
    (void)set;
    return types == NVML_EVENT_XID ? NVML_OK : NOT_SUPPORTED;
}

/* The second GPU has had a page fault (XID 31), has fallen off the bus (XID 79) twice, and nothing
 * else happens. */
int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *event, unsigned timeout_ms);
int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *event, unsigned timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    if (gpus[1].xids == 3)
        return TIMEOUT;
    *event = (struct nvml_event){
        .device = &gpus[1], .type = NVML_EVENT_XID, .data = gpus[1].xids == 0 ? 31 : 79};
    gpus[1].xids++;
    return NVML_OK;
}
#endif
