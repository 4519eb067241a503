/*
 * gemmd-bench conv: the time of every convolution kernel and of every tile configuration of
 * `implicit` on the layers of conv_layers.c, and the one that would be chosen. Correctness is the
 * matter of gemmd-gpu-conv-check.
 *
 * A kernel's figure is the median over rounds in which all kernels take turns. Operands are taken
 * in turn from sets that together are at least twice the L2.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/dtype.h"
#include "proto/revision.h"
#include "tests/bench/conv.h"
#include "tests/bench/device.h"

enum { SETS_MAX = 16, ROUNDS = 7, ALIGNMENT = 256, LAUNCHES_MAX = 200 };
enum { LIST_MAX = 256, NAME_MAX_BYTES = 64 };
static const double BLOCK_MS = 4;

struct conv_bench {
    const struct conv_options *options;
    cudaStream_t stream;
    cudaEvent_t from, to;
    struct gemm_context *context;
    FILE *out;
    double l2_bytes, until;
};

/* A layer with its operands: `sets` of X and Y one after another, one W. */
struct layer_bench {
    const struct conv_layer *layer;
    struct conv_problem problem;
    char *x, *y, *w, *workspace;
    uint64_t x_step, y_step;
    uint32_t sets;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t aligned_bytes(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool conv_bench_open(struct conv_bench *b)
{
    struct cudaDeviceProp properties;
    struct fault fault = {.detail = "no GPU"};
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
        cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreate(&b->from) != cudaSuccess || cudaEventCreate(&b->to) != cudaSuccess ||
        gemm_context_create(GEMM_BACKEND_CUDA, b->stream, 0, &b->context, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd-bench conv: %s\n", fault.detail);
        return false;
    }
    b->l2_bytes = properties.l2CacheSize;
    return true;
}

static void layer_close(struct layer_bench *l)
{
    (void)cudaFree(l->x);
    (void)cudaFree(l->y);
    (void)cudaFree(l->w);
    (void)cudaFree(l->workspace);
}

/* The workspace of the kernel that needs the most. */
static uint64_t workspace_of(const struct conv_problem *p, const struct conv_own own[], int count)
{
    uint64_t most = 0;
    for (int i = 0; i < count; i++) {
        uint64_t bytes;
        if (conv_own_takes(&own[i], p) && own[i].kernel->workspace_bytes(p, &bytes) && bytes > most)
            most = bytes;
    }
    return most;
}

static bool layer_open(const struct conv_bench *b, struct layer_bench *l,
                       const struct conv_own own[], int count)
{
    struct conv_problem *p = &l->problem;
    const uint64_t size = dtype_size(p->dtype);
    uint64_t x, y, w;
    if (!conv_shape_x(&p->shape, &x) || !conv_shape_y(&p->shape, &y) ||
        !conv_shape_w(&p->shape, &w))
        return false;
    l->x_step = aligned_bytes(x * size);
    l->y_step = aligned_bytes(y * dtype_size(p->out));
    const double sets = ceil(2 * b->l2_bytes / (double)(l->x_step + l->y_step));
    l->sets = sets < 2 ? 2 : sets > SETS_MAX ? SETS_MAX : (uint32_t)sets;
    if (cudaMalloc((void **)&l->x, l->x_step * l->sets) != cudaSuccess ||
        cudaMalloc((void **)&l->y, l->y_step * l->sets) != cudaSuccess ||
        cudaMalloc((void **)&l->w, w * size) != cudaSuccess ||
        cudaMalloc((void **)&l->workspace, workspace_of(p, own, count) + ALIGNMENT) != cudaSuccess)
        return false;
    for (uint32_t set = 0; set < l->sets; set++)
        if (bench_fill(l->x + set * l->x_step, x, p->dtype, set + 1) != cudaSuccess)
            return false;
    return bench_fill(l->w, w, p->dtype, 99) == cudaSuccess &&
           cudaDeviceSynchronize() == cudaSuccess;
}

/* The time of `launches` launches, in ms each; negative if one failed. */
static double time_launches(struct conv_bench *b, const struct layer_bench *l,
                            const struct conv_own *own, uint32_t launches)
{
    float ms = 0;
    (void)cudaEventRecord(b->from, b->stream);
    for (uint32_t i = 0; i < launches; i++) {
        struct conv_problem p = l->problem;
        p.x = l->x + i % l->sets * l->x_step;
        p.y = l->y + i % l->sets * l->y_step;
        p.w = l->w;
        if (conv_own_run(own, b->context, &p, l->workspace) != GEMMD_OK)
            return -1;
    }
    (void)cudaEventRecord(b->to, b->stream);
    if (cudaEventSynchronize(b->to) != cudaSuccess ||
        cudaEventElapsedTime(&ms, b->from, b->to) != cudaSuccess)
        return -1;
    return (double)ms / launches;
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_both(const struct conv_bench *b, const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
    if (b->out != NULL) {
        fputs(text, b->out);
        fflush(b->out);
    }
}

/* A line for a layer: the chosen kernel, its rate, and the rate of each kernel. */
static void print_layer(const struct conv_bench *b, const struct layer_bench *l,
                        const struct conv_own own[], int count, const double ms[])
{
    static const struct gemm_device hopper = {.backend = GEMM_BACKEND_CUDA,
                                              .compute_capability = 90};
    const double flops = conv_flops(&l->problem);
    const struct operation_kernel *chosen = NULL;
    struct fault fault;
    char line[1024];
    int at, best = -1, picked = -1;
    (void)operation_select(&operation_conv2d, &hopper, "auto", &l->problem, &chosen, &fault);
    for (int i = 0; i < count; i++) {
        if (ms[i] > 0 && (best < 0 || ms[i] < ms[best]))
            best = i;
        if (own[i].kernel == chosen && own[i].tile == NULL)
            picked = i;
    }
    if (best < 0 || picked < 0 || ms[picked] <= 0) {
        snprintf(line, sizeof line, "| %s | failed | | | |\n", l->layer->name);
        print_both(b, line);
        return;
    }
    at = snprintf(line, sizeof line, "| %s | %s | %.4f | %.1f | %s %.1f |", l->layer->name,
                  own[picked].name, ms[picked], flops / ms[picked] / 1e9, own[best].name,
                  flops / ms[best] / 1e9);
    for (int i = 0; i < count; i++)
        if (ms[i] > 0)
            at += snprintf(line + at, sizeof line - (size_t)at, " %s %.1f", own[i].name,
                           flops / ms[i] / 1e9);
    snprintf(line + at, sizeof line - (size_t)at, " |\n");
    print_both(b, line);
}

static bool measure_layer(struct conv_bench *b, struct layer_bench *l)
{
    struct conv_own own[CONV_OWN_MAX];
    double times[CONV_OWN_MAX][ROUNDS], ms[CONV_OWN_MAX] = {0};
    uint32_t launches[CONV_OWN_MAX] = {0};
    const int count = conv_own_list(l->problem.dtype, own);
    bool done = layer_open(b, l, own, count);
    for (int i = 0; i < count && done; i++) {
        if (!conv_own_takes(&own[i], &l->problem) ||
            (b->options->kernels != NULL && strstr(own[i].name, b->options->kernels) == NULL))
            continue;
        const double first = time_launches(b, l, &own[i], 2);
        const double each = first > 0 ? time_launches(b, l, &own[i], 2) : -1;
        if (each <= 0) {
            printf("%s failed on %s\n", own[i].name, l->layer->name);
            done = cudaDeviceSynchronize() == cudaSuccess;
            continue;
        }
        const double wanted = BLOCK_MS / each;
        launches[i] = wanted < 1 ? 1 : wanted > LAUNCHES_MAX ? LAUNCHES_MAX : (uint32_t)wanted;
    }
    for (int round = 0; round < ROUNDS && done; round++)
        for (int i = 0; i < count; i++)
            if (launches[i] > 0)
                times[i][round] = time_launches(b, l, &own[i], launches[i]);
    for (int i = 0; i < count && done; i++)
        if (launches[i] > 0) {
            qsort(times[i], ROUNDS, sizeof times[i][0], compare_times);
            ms[i] = times[i][ROUNDS / 2];
        }
    if (done)
        print_layer(b, l, own, count, ms);
    else
        printf("%s could not be measured: %s\n", l->layer->name,
               cudaGetErrorString(cudaGetLastError()));
    layer_close(l);
    return done;
}

/* A second of work, so that the clock has settled. */
static void warm_up(struct conv_bench *b)
{
    const struct conv_own own = {.name = "implicit", .kernel = &conv_cuda_implicit};
    struct layer_bench l = {.layer = &conv_layers[1],
                            .problem = conv_layer_problem(&conv_layers[1], GEMMD_BF16, false)};
    const double until = seconds_now() + 1;
    if (layer_open(b, &l, &own, 1))
        while (seconds_now() < until && time_launches(b, &l, &own, 20) > 0)
            ;
    layer_close(&l);
}

/* Reads layers of one group, a line "images channels side filters taps stride padding" each, which
 * becomes the layer's name. The number of layers; 0: the file cannot be read. */
static unsigned read_list(const char *path, struct conv_layer layers[LIST_MAX],
                          char names[LIST_MAX][NAME_MAX_BYTES])
{
    unsigned count = 0;
    FILE *from = fopen(path, "r");
    if (from == NULL) {
        perror(path);
        return 0;
    }
    while (count < LIST_MAX && fgets(names[count], NAME_MAX_BYTES, from) != NULL) {
        unsigned long long v[7];
        names[count][strcspn(names[count], "\n")] = '\0';
        if (names[count][0] == '#')
            continue;
        if (sscanf(names[count], "%llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6]) != 7) {
            fprintf(stderr, "%s: not a layer: %s\n", path, names[count]);
            count = 0;
            break;
        }
        layers[count] = (struct conv_layer){.name = names[count],
                                            .batch = v[0],
                                            .channels = v[1],
                                            .side = v[2],
                                            .filters = v[3],
                                            .taps = v[4],
                                            .groups = 1,
                                            .stride = v[5],
                                            .padding = v[6]};
        count++;
    }
    fclose(from);
    return count;
}

/* Times the layers with one type. False: a launch failed. */
static bool measure_type(struct conv_bench *b, enum gemmd_dtype dtype,
                         const struct conv_layer layers[], unsigned count)
{
    const struct conv_options *options = b->options;
    char text[512];
    snprintf(text, sizeof text,
             "\n## Convolutions, %s, %s, gemmd " GEMMD_VERSION " (%s)\n\nTFLOP/s of every "
             "kernel; `chosen` is what kernel=auto takes.\n\n| layer | chosen | ms | TFLOP/s | "
             "best | all |\n|---|---|---|---|---|---|\n",
             dtype_name(dtype), options->nchw ? "nchw" : "nhwc", gemmd_revision);
    print_both(b, text);
    bool done = true;
    for (unsigned i = 0; i < count && done; i++) {
        struct layer_bench l = {.layer = &layers[i],
                                .problem = conv_layer_problem(&layers[i], dtype, options->nchw)};
        if (seconds_now() > b->until ||
            (options->layers != NULL && strstr(l.layer->name, options->layers) == NULL))
            continue;
        done = measure_layer(b, &l);
    }
    return done;
}

int bench_conv(const struct conv_options *options)
{
    static struct conv_layer listed[LIST_MAX];
    static char names[LIST_MAX][NAME_MAX_BYTES];
    struct conv_bench b = {.options = options, .until = seconds_now() + options->seconds};
    const unsigned count =
        options->list != NULL ? read_list(options->list, listed, names) : conv_layer_count;
    char types[128];
    if (count == 0 || !conv_bench_open(&b))
        return 1;
    snprintf(types, sizeof types, "%s", options->dtypes);
    b.out = options->out != NULL ? fopen(options->out, "w") : NULL;
    warm_up(&b);
    bool done = true;
    char *rest;
    for (char *name = strtok_r(types, ",", &rest); name != NULL && done;
         name = strtok_r(NULL, ",", &rest)) {
        enum gemmd_dtype dtype;
        done = dtype_from_name(name, &dtype) &&
               measure_type(&b, dtype, options->list != NULL ? listed : conv_layers, count);
    }
    if (b.out != NULL)
        fclose(b.out);
    gemm_context_destroy(b.context);
    return done ? 0 : 1;
}
