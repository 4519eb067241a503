#include "tests/bench/sensors.h"

#include <dlfcn.h>
#include <string.h>

enum { NVML_CLOCK_SM = 1 };

/* A function's address as dlsym gives it, into a pointer of the function's type. */
static int find(void *library, const char *name, void *function, size_t bytes)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, bytes);
    return symbol != NULL;
}

void sensors_open(struct sensors *sensors)
{
    memset(sensors, 0, sizeof *sensors);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        return;
    }
    int (*init)(void);
    int (*handle)(unsigned, void **);
    if (find(library, "nvmlInit_v2", &init, sizeof init) &&
        find(library, "nvmlDeviceGetHandleByIndex_v2", &handle, sizeof handle) &&
        find(library, "nvmlDeviceGetClockInfo", &sensors->clock, sizeof sensors->clock) &&
        find(library, "nvmlDeviceGetPowerUsage", &sensors->power, sizeof sensors->power) &&
        init() == 0 && handle(0, &sensors->device) == 0) {
        sensors->library = library;
        return;
    }
    dlclose(library);
    memset(sensors, 0, sizeof *sensors);
}

void sensors_close(struct sensors *sensors)
{
    if (sensors->library) {
        dlclose(sensors->library);
    }
    memset(sensors, 0, sizeof *sensors);
}

unsigned sensors_clock_mhz(const struct sensors *sensors)
{
    unsigned mhz = 0;
    return sensors->library && sensors->clock(sensors->device, NVML_CLOCK_SM, &mhz) == 0 ? mhz : 0;
}

unsigned sensors_power_watts(const struct sensors *sensors)
{
    unsigned milliwatts = 0;
    return sensors->library && sensors->power(sensors->device, &milliwatts) == 0 ? milliwatts / 1000
                                                                                 : 0;
}
