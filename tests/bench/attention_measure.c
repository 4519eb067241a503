/* One cell after another: operands, the check of every kernel, then each in turns: a kernel's
 * figure is the median over the rounds. Operands are taken in turn from sets that together are at
 * least twice the L2. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/bench/attention.h"
#include "tests/bench/device.h"
#include "tests/bench/kernels.h"
#include "tests/bench/sensors.h"

enum { SETS_MAX = 64, ROUNDS = 7, POISON = 0xff, SLOW_MS = 60 };
static const float BLOCK_MS = 4;

struct measuring {
    struct attention_state *state;
    cudaStream_t stream;
    cudaEvent_t from, to;
    struct gemm_context *context;
    struct bench_difference *difference;
    struct sensors sensors;
    double l2_bytes;
    bool warm;
};

/* What one cell owns. */
struct cell_bench {
    const struct attention_cell *cell;
    struct attention_problem problem;                   /* of set 0 */
    void *q, *k, *v, *o, *alone, *expected, *workspace; /* `sets` of the first four */
    uint64_t q_bytes, k_bytes, o_bytes, o_rows;
    uint32_t sets;
};

static void beat(struct attention_state *state, int kernel)
{
    state->kernel = kernel;
    state->heartbeat++;
}

static bool succeeded(struct attention_state *state, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    snprintf(state->fault, sizeof state->fault, "%s: %s", what, cudaGetErrorString(error));
    return false;
}

static bool open_device(struct measuring *m)
{
    struct attention_state *state = m->state;
    struct cudaDeviceProp properties;
    struct fault fault = {0};
    if (!succeeded(state, cudaGetDeviceProperties(&properties, 0), "the device") ||
        !succeeded(state, cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking), "stream") ||
        !succeeded(state, cudaEventCreate(&m->from), "an event") ||
        !succeeded(state, cudaEventCreate(&m->to), "an event") ||
        !succeeded(state, cudaMalloc((void **)&m->difference, sizeof *m->difference), "memory"))
        return false;
    if (gemm_context_create(GEMM_BACKEND_CUDA, m->stream, 0, &m->context, &fault) != GEMMD_OK) {
        snprintf(state->fault, sizeof state->fault, "%.150s", fault.detail);
        return false;
    }
    snprintf(state->device, sizeof state->device, "%.95s", properties.name);
    m->l2_bytes = properties.l2CacheSize;
    sensors_open(&m->sensors);
    return true;
}

static void *at(void *base, uint64_t bytes, uint32_t set)
{
    return (char *)base + bytes * set;
}

static bool set_up(struct measuring *m, const struct attention_cell *cell, struct cell_bench *c)
{
    struct attention_state *state = m->state;
    *c = (struct cell_bench){.cell = cell, .problem = attention_cell_problem(cell, state->dtype)};
    struct attention_problem *p = &c->problem;
    /* Sharper than usual, so that weights differ and a wrong one shows. */
    p->scale = 4 / sqrtf((float)p->d);
    c->o_rows = p->batch * p->heads * p->sq;
    c->q_bytes = c->o_bytes = c->o_rows * p->d * dtype_size(p->dtype);
    c->k_bytes = p->batch * p->kv_heads * p->skv * p->d * dtype_size(p->dtype);
    const double sets = ceil(2 * m->l2_bytes / (double)(2 * (c->q_bytes + c->k_bytes)));
    c->sets = sets < 2 ? 2 : sets > SETS_MAX ? SETS_MAX : (uint32_t)sets;
    uint64_t workspace = 256;
    for (int i = 0; i < state->kernels; i++) {
        const struct attention_own *own = &state->own[i];
        if (!attention_own_takes(own, p))
            continue;
        const uint64_t bytes = attention_own_workspace_bytes(own, cell, p);
        if (bytes > workspace)
            workspace = bytes;
    }
    const struct {
        void **memory;
        uint64_t bytes;
    } parts[] = {{&c->q, c->q_bytes * c->sets}, {&c->k, c->k_bytes * c->sets},
                 {&c->v, c->k_bytes * c->sets}, {&c->o, c->o_bytes * c->sets},
                 {&c->alone, c->o_bytes},       {&c->expected, c->o_bytes},
                 {&c->workspace, workspace}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!succeeded(state, cudaMalloc(parts[i].memory, parts[i].bytes), "memory"))
            return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!succeeded(state,
                       bench_fill(*parts[i].memory, parts[i].bytes / dtype_size(p->dtype), p->dtype,
                                  i + 1),
                       "operands"))
            return false;
    p->q = c->q;
    p->k = c->k;
    p->v = c->v;
    p->o = c->o;
    return succeeded(state, cudaDeviceSynchronize(), "operands");
}

static void tear_down(struct cell_bench *c)
{
    void *const parts[] = {c->q, c->k, c->v, c->o, c->alone, c->expected, c->workspace};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)cudaFree(parts[i]);
}

static bool enqueue(const struct measuring *m, const struct cell_bench *c,
                    const struct attention_own *own, uint32_t set)
{
    struct attention_problem p = c->problem;
    p.q = at(c->q, c->q_bytes, set);
    p.k = at(c->k, c->k_bytes, set);
    p.v = at(c->v, c->k_bytes, set);
    p.o = at(c->o, c->o_bytes, set);
    return attention_own_launch(own, c->cell, m->context, &p, c->workspace) == GEMMD_OK;
}

/* Milliseconds of one of `count`; negative if one failed. */
static float time_block(const struct measuring *m, const struct cell_bench *c,
                        const struct attention_own *own, int count)
{
    float ms = 0;
    bool done = cudaEventRecord(m->from, m->stream) == cudaSuccess;
    for (int i = 0; i < count && done; i++)
        done = enqueue(m, c, own, (uint32_t)i % c->sets);
    done = done && cudaEventRecord(m->to, m->stream) == cudaSuccess &&
           cudaEventSynchronize(m->to) == cudaSuccess &&
           cudaEventElapsedTime(&ms, m->from, m->to) == cudaSuccess;
    return done ? ms / (float)count : -1;
}

/* Elements of `rows` rows in which two results of set 0 differ by more than these. */
static bool compare(const struct measuring *m, const struct cell_bench *c, const void *result,
                    const void *expected, uint64_t rows, double atol, double rtol,
                    struct bench_difference *difference)
{
    const struct attention_problem *p = &c->problem;
    *difference = (struct bench_difference){.first_bad = UINT64_MAX};
    return cudaMemcpy(m->difference, difference, sizeof *difference, cudaMemcpyHostToDevice) ==
               cudaSuccess &&
           bench_compare(result, p->dtype, 1, rows, p->dv, p->dv, 0, NULL, expected, atol, rtol,
                         m->difference) == cudaSuccess &&
           cudaMemcpy(difference, m->difference, sizeof *difference, cudaMemcpyDeviceToHost) ==
               cudaSuccess;
}

static void complain(struct measuring *m, int kernel, const char *cell, const char *text)
{
    struct attention_state *state = m->state;
    if (state->wrong[kernel]++ == 0)
        snprintf(state->why[kernel], sizeof state->why[kernel], "%s: %s", cell, text);
}

/* The whole of set 0 against `tiled`, and its last entry computed alone, bit for bit. False if the
 * device failed. */
static bool check(struct measuring *m, struct cell_bench *c, int kernel, const char *cell)
{
    struct attention_state *state = m->state;
    const struct attention_own *own = &state->own[kernel];
    struct bench_difference difference;
    char text[96];
    const bool bf16 = state->dtype == GEMMD_BF16;
    /* Twice what rounding the weights and the result to the type loses. */
    const double atol = bf16 ? 2e-3 : 2.5e-4, rtol = bf16 ? 0x1p-7 : 0x1p-10;
    if (cudaMemset(c->o, POISON, c->o_bytes) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || !enqueue(m, c, own, 0) ||
        !succeeded(state, cudaStreamSynchronize(m->stream), own->name) ||
        !compare(m, c, c->o, c->expected, c->o_rows, atol, rtol, &difference))
        return false;
    state->checked[kernel]++;
    if (difference.bad > 0) {
        snprintf(text, sizeof text, "%llu of %llu elements wrong, %llu: %g, not %g", difference.bad,
                 (unsigned long long)(c->o_rows * c->problem.dv), difference.first_bad,
                 difference.first_got, difference.first_wanted);
        complain(m, kernel, cell, text);
        return true;
    }
    struct attention_problem last = c->problem;
    const uint64_t entry = last.batch - 1, bytes = dtype_size(last.dtype);
    last.batch = 1;
    last.q = at(c->q, entry * last.q_strides.batch * bytes, 1);
    last.k = at(c->k, entry * last.k_strides.batch * bytes, 1);
    last.v = at(c->v, entry * last.v_strides.batch * bytes, 1);
    last.o = c->alone;
    if (cudaMemset(c->alone, POISON, c->o_bytes) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess ||
        attention_own_run(own, m->context, &last, c->workspace) != GEMMD_OK ||
        !succeeded(state, cudaStreamSynchronize(m->stream), own->name) ||
        !compare(m, c, c->alone, at(c->o, entry * last.o_strides.batch * bytes, 1),
                 last.heads * last.sq, 0, 0, &difference))
        return false;
    if (difference.bad > 0) {
        snprintf(text, sizeof text, "%llu elements of an entry are not what it gets alone",
                 difference.bad);
        complain(m, kernel, cell, text);
    }
    return true;
}

static int launches_for(float milliseconds, float each)
{
    const float count = milliseconds / fmaxf(each, 1e-3f);
    return count < 1 ? 1 : count > 1000 ? 1000 : (int)count;
}

/* A second of work, once, so that the clock has settled. */
static void warm_up(struct measuring *m, const struct cell_bench *c,
                    const struct attention_own *own)
{
    for (float ms = 0; !m->warm && ms >= 0 && ms < 1000;) {
        const int launches = launches_for(50, time_block(m, c, own, 2));
        const float each = time_block(m, c, own, launches);
        ms = each < 0 ? -1 : ms + each * (float)launches;
    }
    m->warm = true;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool time_all(struct measuring *m, const struct cell_bench *c,
                     struct attention_result *result, const bool ready[])
{
    struct attention_state *state = m->state;
    float times[ATTENTION_OWN_MAX][ROUNDS];
    int launches[ATTENTION_OWN_MAX] = {0}, rounds[ATTENTION_OWN_MAX] = {0};
    for (int k = 0; k < state->kernels; k++) {
        if (!ready[k])
            continue;
        beat(state, k);
        warm_up(m, c, &state->own[k]);
        const float each = time_block(m, c, &state->own[k], 1);
        launches[k] = launches_for(BLOCK_MS, time_block(m, c, &state->own[k], each < 5 ? 3 : 1));
        rounds[k] = each > SLOW_MS ? 1 : ROUNDS;
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int k = 0; k < state->kernels; k++) {
            if (r >= rounds[k])
                continue;
            beat(state, k);
            times[k][r] = time_block(m, c, &state->own[k], launches[k]);
            if (!succeeded(state, cudaGetLastError(), state->own[k].name) || times[k][r] < 0)
                return false;
        }
    }
    for (int k = 0; k < state->kernels; k++) {
        if (rounds[k] == 0)
            continue;
        qsort(times[k], (size_t)rounds[k], sizeof times[k][0], compare_floats);
        result->milliseconds[k] = times[k][rounds[k] / 2];
    }
    return true;
}

/* The index of the kernel that gives the reference. */
static int reference_of(const struct attention_state *state)
{
    int k = 0;
    while (k < state->kernels && strcmp(state->own[k].name, "tiled") != 0)
        k++;
    return k;
}

static bool measure_cell(struct measuring *m, int cell)
{
    struct attention_state *state = m->state;
    const char *name = state->cell_list[cell].name;
    struct cell_bench c;
    bool ready[ATTENTION_OWN_MAX] = {false};
    beat(state, -1);
    bool done = set_up(m, &state->cell_list[cell], &c);
    if (done) {
        const int reference = reference_of(state);
        beat(state, reference);
        done = reference < state->kernels && enqueue(m, &c, &state->own[reference], 0) &&
               succeeded(state, cudaStreamSynchronize(m->stream), "the reference") &&
               succeeded(state, cudaMemcpy(c.expected, c.o, c.o_bytes, cudaMemcpyDeviceToDevice),
                         "a copy");
    }
    for (int k = 0; k < state->kernels && done; k++) {
        if (state->dead[k] || !attention_own_takes(&state->own[k], &c.problem) ||
            !attention_own_launches(&state->own[k], c.cell))
            continue;
        beat(state, k);
        const int wrong = state->wrong[k];
        done = check(m, &c, k, name);
        ready[k] = done && state->wrong[k] == wrong;
    }
    struct attention_result *result = &state->result[cell];
    if (done && !state->check_only)
        done = time_all(m, &c, result, ready);
    result->clock_mhz = sensors_clock_mhz(&m->sensors);
    result->power_watts = sensors_power_watts(&m->sensors);
    result->done = done;
    tear_down(&c);
    return done;
}

bool attention_measure(struct attention_state *state)
{
    struct measuring m = {.state = state};
    bool done = open_device(&m);
    state->started = done;
    for (; done && state->cell < state->cells && bench_now() < state->deadline; state->cell++)
        done = measure_cell(&m, state->cell);
    if (done)
        state->done = true;
    return done;
}
