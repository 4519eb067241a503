/*
 * What a launch for a few costs: 64³ products of f32 in mapped host memory, from the call to the
 * host's knowing that they are done, which it can learn in several ways.
 */
#include <cuda.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/group_check.h"
#include "tests/product/random.h"

enum { SIDE = 64, MOST = 64, WARM = 200, RUNS = 3001 };

enum way { TIMED_EVENTS, PLAIN_EVENT, STREAM_QUERY, WRITTEN_FLAG, WAYS };
static const char *const way_names[] = {"two timed events", "one plain event", "stream query",
                                        "flag written by the stream"};

typedef CUresult write_value(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned flags);

struct latency {
    struct group_bench *bench;
    struct gemm_problem problems[MOST];
    struct operation_member list[MOST];
    cudaEvent_t begun, ended, plain;
    _Atomic uint32_t *flag;
    uint32_t value;
    write_value *write;
};

/* One launch; false if it failed. `*called_us` is what the calls took. */
static bool launch(struct latency *l, uint32_t count, enum way way, double *called_us,
                   double *total_us)
{
    cudaStream_t stream = l->bench->stream;
    cudaError_t error = cudaSuccess;
    const double begun_us = group_now_us();
    if (way == TIMED_EVENTS)
        error = cudaEventRecord(l->begun, stream);
    if (error != cudaSuccess ||
        l->bench->kernel->run_group(l->bench->context, l->list, count) != GEMMD_OK)
        return false;
    if (way == TIMED_EVENTS)
        error = cudaEventRecord(l->ended, stream);
    else if (way == PLAIN_EVENT)
        error = cudaEventRecord(l->plain, stream);
    else if (way == WRITTEN_FLAG &&
             l->write(stream, (CUdeviceptr)(uintptr_t)l->flag, ++l->value, 0) != CUDA_SUCCESS)
        return false;
    *called_us = group_now_us() - begun_us;
    if (error != cudaSuccess)
        return false;
    do {
        if (way == TIMED_EVENTS)
            error = cudaEventQuery(l->ended);
        else if (way == PLAIN_EVENT)
            error = cudaEventQuery(l->plain);
        else if (way == STREAM_QUERY)
            error = cudaStreamQuery(stream);
        else
            error = atomic_load_explicit(l->flag, memory_order_acquire) == l->value
                        ? cudaSuccess
                        : cudaErrorNotReady;
    } while (error == cudaErrorNotReady);
    float ms;
    if (way == TIMED_EVENTS && error == cudaSuccess)
        error = cudaEventElapsedTime(&ms, l->begun, l->ended);
    *total_us = group_now_us() - begun_us;
    return group_succeeded(error, "a launch");
}

static bool measure(struct latency *l, uint32_t count, enum way way)
{
    static double called[RUNS], total[RUNS];
    double unused;
    if (way == WRITTEN_FLAG && l->write == NULL)
        return true;
    for (uint32_t i = 0; i < WARM; i++)
        if (!launch(l, count, way, &unused, &unused))
            return false;
    for (uint32_t i = 0; i < RUNS; i++)
        if (!launch(l, count, way, &called[i], &total[i]))
            return false;
    const double call_us = group_median(called, RUNS), total_us = group_median(total, RUNS);
    printf("  %2u x 64³ from host memory, %-26s  calls %5.2f us, done after %6.2f us (p99 %6.2f)\n",
           count, way_names[way], call_us, total_us, total[RUNS * 99 / 100]);
    return true;
}

bool group_time_latency(struct group_bench *bench)
{
    const uint64_t matrix = SIDE * SIDE;
    struct latency *l = calloc(1, sizeof *l);
    float *memory = NULL;
    void *flag = NULL, *entry = NULL;
    uint64_t seed = 1;
    bool done = l != NULL &&
                group_succeeded(cudaHostAlloc((void **)&memory, MOST * 3 * matrix * sizeof *memory,
                                              cudaHostAllocMapped),
                                "cudaHostAlloc") &&
                group_succeeded(cudaHostAlloc(&flag, 64, cudaHostAllocMapped), "cudaHostAlloc") &&
                group_succeeded(cudaEventCreate(&l->begun), "cudaEventCreate") &&
                group_succeeded(cudaEventCreate(&l->ended), "cudaEventCreate") &&
                group_succeeded(cudaEventCreateWithFlags(&l->plain, cudaEventDisableTiming),
                                "cudaEventCreate");
    if (!done)
        goto out;
    l->bench = bench;
    l->flag = flag;
    atomic_store(l->flag, 0);
    enum cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &entry, 12000, cudaEnableDefault,
                                         &found) == cudaSuccess &&
        found == cudaDriverEntryPointSuccess)
        *(void **)&l->write = entry;
    for (uint64_t i = 0; i < MOST * 3 * matrix; i++)
        memory[i] = (float)random_unit(&seed);
    for (uint32_t i = 0; i < MOST; i++) {
        float *a = memory + i * 3 * matrix;
        l->problems[i] = (struct gemm_problem){.dtype = GEMMD_F32,
                                               .out = GEMMD_F32,
                                               .m = SIDE,
                                               .n = SIDE,
                                               .k = SIDE,
                                               .batch = 1,
                                               .alpha = 1,
                                               .a = a,
                                               .b = a + matrix,
                                               .c = a + 2 * matrix};
        gemm_problem_contiguous(&l->problems[i]);
        l->list[i] = (struct operation_member){&l->problems[i], NULL};
    }
    printf("latency of one launch, medians of %d:\n", RUNS);
    static const uint32_t counts[] = {1, 4, 16, 40, 64};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (unsigned way = 0; way < WAYS && done; way++)
            done = measure(l, counts[i], (enum way)way);
out:
    if (l != NULL) {
        (void)cudaEventDestroy(l->begun);
        (void)cudaEventDestroy(l->ended);
        (void)cudaEventDestroy(l->plain);
    }
    (void)cudaFreeHost(memory);
    (void)cudaFreeHost(flag);
    free(l);
    return done;
}
