/*
 * sensors.h - the GPU's clock and power, through NVML where it can be loaded.
 */
#ifndef TESTS_BENCH_SENSORS_H
#define TESTS_BENCH_SENSORS_H

struct sensors {
    void *library, *device;
    int (*clock)(void *device, int type, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
};

/* Leaves `sensors` empty where there is no NVML; readings are then 0. */
void sensors_open(struct sensors *sensors);
void sensors_close(struct sensors *sensors);
unsigned sensors_clock_mhz(const struct sensors *sensors);
unsigned sensors_power_watts(const struct sensors *sensors);

#endif
