/*
 * gemmd-gpu-copy-check - how operands get from the host to the device.
 *
 * Rows of an odd number of bytes that a kernel wants at multiples of 128: copied as they are and
 * moved apart there, copied row by row by the copy engine (cudaMemcpy2DAsync), or read from the
 * host's memory by the kernel that moves them apart. Then bodies that land at a socket's pace, in
 * steps of several sizes: what is left to wait for after the last byte. Every way's bytes are
 * compared. Exit status 1 if anything is wrong.
 *   --quick  little of everything, for a run under compute-sanitizer
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/move/move.h"
#include "server/device/cuda/copy.h"

enum way { AS_IT_IS, MOVED_APART, BY_ROWS, BY_KERNEL, WAYS };
static const char *const way_names[WAYS] = {"as it is, no gaps", "then moved apart (served)",
                                            "cudaMemcpy2DAsync", "kernel on host memory"};

enum { RUNS = 11, ELEMENT_BYTES = 2 };
/* A socket gives one I/O thread about so much. */
static const double RECEIVED_BYTES_A_US = 4000;

struct bench {
    cudaStream_t stream;
    unsigned char *host, *range; /* pinned; device: where rows go, then where they land */
    uint64_t bytes;              /* of each of the three */
    uint64_t passed, failed;
    bool quick;
};

static bool succeeded(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        printf("%s: %s (%s)\n", what, cudaGetErrorString(error), cudaGetErrorName(error));
    return error == cudaSuccess;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double values[RUNS])
{
    qsort(values, RUNS, sizeof *values, compare);
    return values[RUNS / 2];
}

/* Rows of `width` elements, 128 bytes or a multiple apart; with no gaps if `apart` is false. */
static struct copy_in plan_of(const struct bench *bench, uint64_t rows, uint64_t width, bool apart)
{
    const uint64_t row_bytes = width * ELEMENT_BYTES;
    struct copy_in plan = {.count = 1, .copy_stream = COPY_IN_NO_STREAM};
    plan.operands[0] = (struct copy_in_operand){.from = bench->host,
                                                .to = bench->range,
                                                .bytes = rows * row_bytes,
                                                .row_bytes = apart ? row_bytes : 0,
                                                .to_pitch = (row_bytes + 127) / 128 * 128,
                                                .element_bytes = ELEMENT_BYTES,
                                                .staging = bench->range + bench->bytes};
    return plan;
}

static bool copy_all(struct bench *bench, struct copy_in *plan, uint64_t received)
{
    struct copy_in_piece piece;
    while (copy_in_next(plan, received, &piece))
        if (cuda_copy_piece(bench->stream, &piece) != GEMMD_OK)
            return false;
    return true;
}

static bool enqueue(struct bench *bench, enum way way, uint64_t rows, uint64_t width)
{
    struct copy_in plan = plan_of(bench, rows, width, way != AS_IT_IS);
    const struct copy_in_operand *o = &plan.operands[0];
    if (way == BY_ROWS)
        return succeeded(cudaMemcpy2DAsync(o->to, o->to_pitch, o->from, o->row_bytes, o->row_bytes,
                                           rows, cudaMemcpyHostToDevice, bench->stream),
                         way_names[way]);
    const struct realign_job job = {.from = o->from,
                                    .to = o->to,
                                    .rows = rows,
                                    .width = width,
                                    .batch = 1,
                                    .ld_from = width,
                                    .ld_to = o->to_pitch / ELEMENT_BYTES,
                                    .element_bytes = ELEMENT_BYTES};
    if (way == BY_KERNEL)
        return realign_launch(bench->stream, &job) == GEMMD_OK;
    return copy_all(bench, &plan, UINT64_MAX);
}

/* Over before it returns: the stream does not wait for what others enqueue. */
static bool poison(struct bench *bench)
{
    return succeeded(cudaMemset(bench->range, 0xee, 2 * bench->bytes), "poisoning") &&
           succeeded(cudaDeviceSynchronize(), "poisoning");
}

/* Whether the rows are on the device, `pitch` bytes apart. */
static void check(struct bench *bench, const char *what, uint64_t rows, uint64_t row_bytes,
                  uint64_t pitch)
{
    unsigned char *there = malloc(rows * row_bytes);
    bool right = there != NULL &&
                 succeeded(cudaMemcpy2D(there, row_bytes, bench->range, pitch, row_bytes, rows,
                                        cudaMemcpyDeviceToHost),
                           "the copy back") &&
                 memcmp(there, bench->host, rows * row_bytes) == 0;
    if (!right)
        printf("wrong: %s, %" PRIu64 " rows of %" PRIu64 " bytes\n", what, rows, row_bytes);
    bench->passed += right;
    bench->failed += !right;
    free(there);
}

static void compare_ways(struct bench *bench, uint64_t rows, uint64_t width)
{
    const uint64_t row_bytes = width * ELEMENT_BYTES, pitch = (row_bytes + 127) / 128 * 128;
    for (int i = 0; i < WAYS; i++) {
        const enum way way = (enum way)i;
        double us[RUNS];
        bool done = poison(bench);
        for (int run = 0; run < RUNS && done; run++) {
            const double begun_us = now_us();
            done = enqueue(bench, way, rows, width) &&
                   succeeded(cudaStreamSynchronize(bench->stream), way_names[way]);
            us[run] = now_us() - begun_us;
        }
        check(bench, way_names[way], rows, row_bytes, way == AS_IT_IS ? row_bytes : pitch);
        if (done)
            printf("  %6" PRIu64 " x %-6" PRIu64 " %-26s %9.1f us  %6.2f GB/s\n", rows, width,
                   way_names[way], median(us), (double)(rows * row_bytes) / median(us) * 1e-3);
    }
}

/* A body that lands at a socket's pace, `step` bytes a copy (0: all at the end). The median of what
 * is left after the last byte, and of what the calls before it took the thread that made them. */
static void receive(struct bench *bench, uint64_t rows, uint64_t width, bool apart, uint64_t step)
{
    const uint64_t bytes = rows * width * ELEMENT_BYTES, part = 256 << 10;
    double left_us[RUNS], calls_us[RUNS];
    bool done = poison(bench);
    for (int run = 0; run < RUNS && done; run++) {
        struct copy_in plan = plan_of(bench, rows, width, apart);
        uint64_t said = 0;
        calls_us[run] = 0;
        for (uint64_t received = 0; received < bytes && done;) {
            const double until_us = now_us() + (double)part / RECEIVED_BYTES_A_US;
            while (now_us() < until_us)
                ;
            received = received + part < bytes ? received + part : bytes;
            if (step == 0 || received - said < step || received == bytes)
                continue;
            const double begun_us = now_us();
            said = received;
            done = copy_all(bench, &plan, received);
            calls_us[run] += now_us() - begun_us;
        }
        const double last_us = now_us();
        done = done && copy_all(bench, &plan, UINT64_MAX) &&
               succeeded(cudaStreamSynchronize(bench->stream), "a body");
        left_us[run] = now_us() - last_us;
    }
    const uint64_t row_bytes = width * ELEMENT_BYTES;
    check(bench, "a body in steps", rows, row_bytes,
          apart ? (row_bytes + 127) / 128 * 128 : row_bytes);
    if (done)
        printf("  %6" PRIu64 " x %-6" PRIu64 " %s steps of %5" PRIu64
               " KiB: %8.1f us left, calls before took %7.1f us\n",
               rows, width, apart ? "apart" : "as is", step >> 10, median(left_us),
               median(calls_us));
}

static void check_all(struct bench *bench)
{
    static const uint64_t shapes[][2] = {{4097, 4097}, {4095, 4099}, {1001, 1001}, {333, 777},
                                         {30000, 513}, {513, 30001}, {100000, 33}, {64, 1000001}};
    static const uint64_t steps[] = {0, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20};
    const uint32_t shape_count = bench->quick ? 3 : sizeof shapes / sizeof *shapes;
    const uint32_t step_count = sizeof steps / sizeof *steps;
    puts("rows of 2-byte elements, 128 bytes or a multiple apart:");
    for (uint32_t i = 0; i < shape_count; i++)
        compare_ways(bench, shapes[i][0], shapes[i][1]);
    puts("bodies that land at 4 GB/s:");
    for (uint32_t i = 0; i < step_count; i++) {
        receive(bench, 2048, 2048, false, steps[i]); /* 8 MiB, as 1024^3 of f32 */
        receive(bench, 2049, 2049, true, steps[i]);
        if (bench->quick)
            continue;
        receive(bench, 8192, 8192, false, steps[i]); /* 128 MiB, as 4096^3 of f32 */
        receive(bench, 8193, 8193, true, steps[i]);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = {.bytes = UINT64_C(160) << 20};
    int status = EXIT_FAILURE;
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick") != 0)) {
        fprintf(stderr, "unknown option '%s'; there is --quick\n", argv[argc - 1]);
        return 2;
    }
    bench.quick = argc == 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log that is cut off has what was done */
    if (!succeeded(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking), "a stream") ||
        !succeeded(cudaHostAlloc((void **)&bench.host, bench.bytes, cudaHostAllocMapped),
                   "pinned memory") ||
        !succeeded(cudaMalloc((void **)&bench.range, 2 * bench.bytes), "device memory"))
        goto out;
    for (uint64_t i = 0; i < bench.bytes; i++)
        bench.host[i] = (unsigned char)(i * 31 + i / 4099);
    check_all(&bench);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", bench.passed, bench.failed);
    status = bench.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
out:
    (void)cudaFree(bench.range);
    (void)cudaFreeHost(bench.host);
    if (bench.stream != NULL)
        (void)cudaStreamDestroy(bench.stream);
    return status;
}
