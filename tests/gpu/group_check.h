/*
 * group_check.h - what the parts of gemmd-gpu-group-check share.
 */
#ifndef TESTS_GPU_GROUP_CHECK_H
#define TESTS_GPU_GROUP_CHECK_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "kernels/operations.h"

struct group_bench {
    cudaStream_t stream;
    struct gemm_context *context;
    const struct operation_kernel *kernel; /* grouped */
    bool quick;
    uint32_t share, shares; /* products whose number leaves `share` when divided */
};

/* Prints what failed, if it did. */
bool group_succeeded(cudaError_t error, const char *what);
/* Copies between any two memories, and has copied when it returns. cudaMemcpy alone may return
 * while up to 64 KiB are still on their way to the device, and the bench's stream waits for no
 * other. */
bool group_copy(void *to, const void *from, uint64_t bytes);

static inline double group_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Sorts. */
double group_median(double *values, uint32_t count);

/* Random products of every type and option, alone and in random shared launches, from host and
 * device memory. */
void group_check_bytes(struct group_bench *bench, uint64_t *passed, uint64_t *failed);

/* Errors of f32 results next to those of chains. */
void group_check_error(struct group_bench *bench, uint64_t *passed, uint64_t *failed);

/* Rows of requests stacked on one B, next to each request alone. */
void group_check_stacks(struct group_bench *bench, uint64_t *passed, uint64_t *failed);

/* Times, printed. False if something failed. */
bool group_time_latency(struct group_bench *bench);
bool group_time_throughput(struct group_bench *bench);
bool group_time_crossover(struct group_bench *bench);
bool group_time_stacks(struct group_bench *bench);

#endif
