/*
 * nvml_abi.h - the part of NVML's binary interface that nvml.c uses. Used by nvml.c only.
 *
 * NVML (libnvidia-ml.so.1) comes with NVIDIA's driver and is loaded at run time, so its header is
 * not needed to build the daemon. The values and structs are those of NVIDIA's NVML API reference.
 * The interface is stable: NVIDIA adds functions with a suffix (_v2) where one changes.
 */
#ifndef SERVER_OBSERVE_NVML_ABI_H
#define SERVER_OBSERVE_NVML_ABI_H

#include <stdint.h>

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

enum { NVML_OK = 0, NVML_UUID_TEXT = 96, NVML_NAME_TEXT = 96 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
enum { NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };
enum { NVML_EVENT_XID = 8 };

struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_event {
    nvml_device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* X(member, symbol, parameters, needed): the functions; `needed`: nothing works without it. */
#define NVML_FUNCTIONS(X)                                                                          \
    X(init, "nvmlInit_v2", (void), 1)                                                              \
    X(shutdown, "nvmlShutdown", (void), 1)                                                         \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *), 1)                                             \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *), 1)                     \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *), 1)                      \
    X(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned), 1)                               \
    X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned), 0)                               \
    X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device, struct nvml_utilization *), 0)   \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *), 0)                   \
    X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *), 0)                              \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device, unsigned *), 0)                \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", (nvml_device, unsigned long long *), 0)       \
    X(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *), 0)                  \
    X(clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *), 0)                          \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", (nvml_device, int, unsigned *), 0)                   \
    X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *),  \
      0)                                                                                           \
    X(ecc, "nvmlDeviceGetTotalEccErrors", (nvml_device, int, int, unsigned long long *), 0)        \
    X(pcie, "nvmlDeviceGetPcieThroughput", (nvml_device, int, unsigned *), 0)                      \
    X(event_set, "nvmlEventSetCreate", (nvml_event_set *), 0)                                      \
    X(event_register, "nvmlDeviceRegisterEvents",                                                  \
      (nvml_device, unsigned long long, nvml_event_set), 0)                                        \
    X(event_wait, "nvmlEventSetWait_v2", (nvml_event_set, struct nvml_event *, unsigned), 0)

#define NVML_MEMBER(member, symbol, parameters, needed) int(*member) parameters;
struct nvml_functions {
    NVML_FUNCTIONS(NVML_MEMBER)
};

#endif
