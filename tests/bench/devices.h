/*
 * devices.h - gemmd-bench devices: what the GPUs of a host, their buses and the links between them
 * allow, without a daemon. The figures bound those of tests/bench/devices.sh.
 */
#ifndef TESTS_BENCH_DEVICES_H
#define TESTS_BENCH_DEVICES_H

/* Prints the table, and writes it to the file `out` too unless `out` is NULL. Returns the exit
 * status: 2 on a host without a GPU. */
int bench_devices(const char *out);

#endif
