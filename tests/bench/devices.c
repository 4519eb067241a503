/* See devices.h. */
#include "tests/bench/devices.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/revision.h"
#include "tests/bench/device.h"

enum { DEVICES_MAX = 16, ROUNDS = 5, COPIED_PRODUCTS = 64 };
static const uint64_t COPY_BYTES = UINT64_C(256) << 20;
static const uint64_t LARGEST_BYTES = UINT64_C(2) * 16384 * 16384; /* a bf16 matrix */

/* A device with its own stream, context and memory. */
struct one {
    int number;
    cudaStream_t stream, back; /* back: for copies to the host beside those of `stream` */
    struct gemm_context *context;
    struct gemm_device device;
    void *host, *host_back; /* COPY_BYTES of pinned memory each */
    void *a, *b, *c, *workspace;
    size_t workspace_bytes;
};

struct devices {
    struct one list[DEVICES_MAX];
    int count;
    FILE *out; /* NULL: only standard output */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "gemmd-bench: %s: %s\n", what, cudaGetErrorString(error));
    exit(EXIT_FAILURE); /* a benchmark has nothing to clean up */
}

static void on(const struct one *one)
{
    check(cudaSetDevice(one->number), "cudaSetDevice");
}

static void print_row(struct devices *devices, const char *what, double alone, double together,
                      const char *unit)
{
    FILE *to[] = {stdout, devices->out};
    for (int i = 0; i < 2; i++)
        if (to[i] != NULL)
            fprintf(to[i], "| %s | %.1f | %.1f | %s | %.2f |\n", what, alone, together, unit,
                    together / alone);
}

static void open_device(struct one *one, int number)
{
    struct fault fault;
    int major = 0, minor = 0;
    one->number = number;
    on(one);
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number), "attribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number), "attribute");
    one->device = (struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                       .compute_capability = (uint32_t)(10 * major + minor)};
    check(cudaStreamCreateWithFlags(&one->stream, cudaStreamNonBlocking), "stream");
    check(cudaStreamCreateWithFlags(&one->back, cudaStreamNonBlocking), "stream");
    check(cudaHostAlloc(&one->host, COPY_BYTES, cudaHostAllocPortable), "pinned memory");
    check(cudaHostAlloc(&one->host_back, COPY_BYTES, cudaHostAllocPortable), "pinned memory");
    check(cudaMalloc(&one->a, LARGEST_BYTES), "device memory");
    check(cudaMalloc(&one->b, LARGEST_BYTES), "device memory");
    check(cudaMalloc(&one->c, LARGEST_BYTES), "device memory");
    check(bench_fill(one->a, LARGEST_BYTES / 2, GEMMD_BF16, 1), "operands");
    check(bench_fill(one->b, LARGEST_BYTES / 2, GEMMD_BF16, 2), "operands");
    check(cudaDeviceSynchronize(), "operands");
    if (gemm_context_create(GEMM_BACKEND_CUDA, one->stream, 0, &one->context, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd-bench: %s\n", fault.detail);
        exit(EXIT_FAILURE);
    }
}

static void synchronize(struct devices *devices, int count)
{
    for (int i = 0; i < count; i++) {
        on(&devices->list[i]);
        check(cudaStreamSynchronize(devices->list[i].stream), "synchronize");
        check(cudaStreamSynchronize(devices->list[i].back), "synchronize");
    }
}

/* What the first `count` devices do at the same time. `index` is the number of this device among
 * them. */
typedef void enqueue_fn(struct devices *devices, int index, int count, const void *argument);

/* The shortest time of ROUNDS rounds, after one that is not counted, in seconds. */
static double shortest_s(struct devices *devices, int count, enqueue_fn *enqueue,
                         const void *argument)
{
    double shortest = 1e9;
    for (int round = 0; round <= ROUNDS; round++) {
        synchronize(devices, count);
        const double from = now_s();
        for (int i = 0; i < count; i++) {
            on(&devices->list[i]);
            enqueue(devices, i, count, argument);
        }
        synchronize(devices, count);
        const double seconds = now_s() - from;
        if (round > 0 && seconds < shortest)
            shortest = seconds;
    }
    return shortest;
}

static void to_device(struct devices *devices, int index, int count, const void *argument)
{
    (void)count, (void)argument;
    struct one *one = &devices->list[index];
    check(cudaMemcpyAsync(one->a, one->host, COPY_BYTES, cudaMemcpyHostToDevice, one->stream),
          "copy");
}

static void to_host(struct devices *devices, int index, int count, const void *argument)
{
    (void)count, (void)argument;
    struct one *one = &devices->list[index];
    check(cudaMemcpyAsync(one->host, one->a, COPY_BYTES, cudaMemcpyDeviceToHost, one->stream),
          "copy");
}

static void both_ways(struct devices *devices, int index, int count, const void *argument)
{
    struct one *one = &devices->list[index];
    to_device(devices, index, count, argument);
    check(cudaMemcpyAsync(one->host_back, one->b, COPY_BYTES, cudaMemcpyDeviceToHost, one->back),
          "copy");
}

/* The copies of COPIED_PRODUCTS products of f32 with square operands of the side `argument`,
 * without the products: both operands to the device, and beside the next one's operands the result
 * back. The bytes rotate over all of the pinned memory, so that they do not stay in the host's
 * caches. */
static void copies_of_products(struct devices *devices, int index, int count, const void *argument)
{
    (void)count;
    struct one *one = &devices->list[index];
    const uint64_t side = *(const uint64_t *)argument, bytes = 4 * side * side;
    for (uint64_t i = 0; i < COPIED_PRODUCTS; i++) {
        for (uint64_t operand = 0; operand < 2; operand++) {
            const uint64_t at = (2 * i + operand) * bytes % COPY_BYTES;
            check(cudaMemcpyAsync((char *)one->a + at, (const char *)one->host + at, bytes,
                                  cudaMemcpyHostToDevice, one->stream),
                  "copy");
        }
        const uint64_t at = i * bytes % COPY_BYTES;
        check(cudaMemcpyAsync((char *)one->host_back + at, (const char *)one->b + at, bytes,
                              cudaMemcpyDeviceToHost, one->back),
              "copy");
    }
}

/* To the next device, from each of the first `count`. */
static void to_the_next(struct devices *devices, int index, int count, const void *argument)
{
    (void)count, (void)argument;
    struct one *one = &devices->list[index];
    const struct one *next = &devices->list[(index + 1) % devices->count];
    check(cudaMemcpyPeerAsync(next->c, next->number, one->a, one->number, COPY_BYTES, one->stream),
          "copy");
}

/* The rows of one product, of which every device computes a part, with its own copy of B. */
static void part_of_product(struct devices *devices, int index, int count, const void *argument)
{
    struct one *one = &devices->list[index];
    const uint64_t side = *(const uint64_t *)argument;
    struct gemm_problem problem = {.dtype = GEMMD_BF16,
                                   .out = GEMMD_BF16,
                                   .m = side / (uint64_t)count,
                                   .n = side,
                                   .k = side,
                                   .batch = 1,
                                   .alpha = 1,
                                   .a = one->a,
                                   .b = one->b,
                                   .c = one->c};
    gemm_problem_contiguous(&problem);
    const struct operation_kernel *kernel;
    struct fault fault;
    uint64_t bytes;
    if (operation_select(&operation_gemm, &one->device, "auto", &problem, &kernel, &fault) !=
            GEMMD_OK ||
        !kernel->workspace_bytes(&problem, &bytes)) {
        fprintf(stderr, "gemmd-bench: no kernel takes the product\n");
        exit(EXIT_FAILURE);
    }
    if (bytes > one->workspace_bytes) {
        check(cudaFree(one->workspace), "device memory");
        check(cudaMalloc(&one->workspace, bytes), "device memory");
        one->workspace_bytes = bytes;
    }
    if (operation_run(kernel, one->context, &problem, one->workspace) != GEMMD_OK)
        check(cudaErrorUnknown, kernel->name);
}

static void measure(struct devices *devices)
{
    const double gigabytes = 1e-9 * (double)COPY_BYTES;
    const int all = devices->count;
    const struct {
        const char *what;
        enqueue_fn *enqueue;
        int copies;
    } rows[] = {{"host to device", to_device, 1},
                {"device to host", to_host, 1},
                {"both ways at once, sum", both_ways, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        print_row(devices, rows[i].what,
                  rows[i].copies * gigabytes / shortest_s(devices, 1, rows[i].enqueue, NULL),
                  all * rows[i].copies * gigabytes /
                      shortest_s(devices, all, rows[i].enqueue, NULL),
                  "GB/s");
    for (uint64_t side = 1024; side <= 4096; side *= 4) {
        char what[80];
        snprintf(what, sizeof what, "copies of f32 %ju³, operands in and results out",
                 (uintmax_t)side);
        print_row(devices, what,
                  COPIED_PRODUCTS / shortest_s(devices, 1, copies_of_products, &side),
                  all * COPIED_PRODUCTS / shortest_s(devices, all, copies_of_products, &side),
                  "products/s");
    }
    if (all > 1)
        print_row(devices, "device to the next device",
                  gigabytes / shortest_s(devices, 1, to_the_next, NULL),
                  all * gigabytes / shortest_s(devices, all, to_the_next, NULL), "GB/s");
    for (uint64_t side = 4096; side <= 16384; side *= 2) {
        char what[80];
        const double flops = 2e-12 * (double)side * (double)side * (double)side;
        snprintf(what, sizeof what, "bf16 %ju³, rows divided, B on every device", (uintmax_t)side);
        print_row(devices, what, flops / shortest_s(devices, 1, part_of_product, &side),
                  flops / shortest_s(devices, all, part_of_product, &side), "TFLOP/s");
    }
}

int bench_devices(const char *out)
{
    static struct devices devices;
    struct cudaDeviceProp properties;
    if (cudaGetDeviceCount(&devices.count) != cudaSuccess || devices.count == 0) {
        fprintf(stderr, "gemmd-bench: there is no GPU\n");
        return 2;
    }
    if (devices.count > DEVICES_MAX)
        devices.count = DEVICES_MAX;
    if (out != NULL && (devices.out = fopen(out, "w")) == NULL) {
        perror(out);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < devices.count; i++)
        open_device(&devices.list[i], i);
    for (int i = 0; i < devices.count; i++) {
        on(&devices.list[i]);
        for (int j = 0; j < devices.count; j++)
            if (i != j && cudaDeviceEnablePeerAccess(j, 0) != cudaSuccess)
                (void)cudaGetLastError(); /* copies go through the host then */
    }
    check(cudaGetDeviceProperties(&properties, 0), "properties");
    FILE *to[] = {stdout, devices.out};
    for (int i = 0; i < 2; i++)
        if (to[i] != NULL)
            fprintf(to[i],
                    "%d devices, %s, gemmd %s\n\nShortest of %d rounds; copies of %ju MiB.\n\n"
                    "| what | one device | all at once | unit | ratio |\n|---|---|---|---|---|\n",
                    devices.count, properties.name, gemmd_revision, ROUNDS,
                    (uintmax_t)COPY_BYTES >> 20);
    measure(&devices);
    if (devices.out != NULL && fclose(devices.out) != 0) {
        perror(out);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
