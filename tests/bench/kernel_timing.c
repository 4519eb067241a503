/*
 * Own kernels and cuBLASLt on the same shapes, in turns: each round gives every participant a few
 * milliseconds, and a participant's figure is the median over the rounds. Operands are taken in
 * turn from sets that together are at least twice the L2.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/sm90.h"
#include "proto/dtype.h"
#include "tests/bench/cublaslt.h"
#include "tests/bench/device.h"
#include "tests/bench/kernels.h"
#include "tests/bench/parts.h"
#include "tests/bench/sensors.h"

enum { SETS_MAX = 96, ROUNDS = 9, ROUNDS_QUICK = 5, PARTICIPANTS_MAX = VARIANTS_MAX + 2 };

/* What the timing of one shape owns. */
struct shape_bench {
    struct gemm_problem problem; /* of set 0 */
    void *a, *b, *c, *expected;  /* `sets` matrices each; expected: one, cuBLASLt's */
    void *bias;                  /* of the fused kernels, or NULL */
    uint64_t a_bytes, b_bytes, c_bytes;
    uint32_t sets;
    struct lt_plan lt, lt_tight; /* tight: odd sizes as they are */
    bool has_tight;
    void *parts_memory[SETS_MAX]; /* of f32 operands, or NULL */
    struct sm90_parts parts[SETS_MAX];
    void *turned_memory[SETS_MAX]; /* of B for the kernels that want it along k, or NULL */
    struct gemm_problem stored[SETS_MAX], turned[SETS_MAX];
    struct sm90_launch *launches[VARIANTS_MAX]; /* `sets` each, or NULL */
};

/* Everything that lasts from shape to shape. */
struct timing {
    const struct bench_run *run;
    struct sm90_device device;
    struct lt lt;
    struct sensors sensors;
    cudaStream_t stream; /* kernels overlap in a stream of their own only */
    cudaEvent_t from[PARTICIPANTS_MAX], to[PARTICIPANTS_MAX];
    struct bench_difference *difference;
    unsigned long long *hash;
};

/* Participants: the variants, then cuBLASLt on padded and on tight operands. */
enum { LT = VARIANTS_MAX, LT_TIGHT = VARIANTS_MAX + 1 };

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(float *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_floats);
    return values[count / 2];
}

static void *at(void *base, uint64_t bytes, uint32_t set)
{
    return (char *)base + bytes * set;
}

static void enqueue(const struct timing *t, const struct shape_bench *s, int participant,
                    uint32_t set)
{
    if (participant == LT || participant == LT_TIGHT) {
        const struct lt_plan *plan = participant == LT ? &s->lt : &s->lt_tight;
        lt_enqueue(&t->lt, plan, plan->best, at(s->a, s->a_bytes, set), at(s->b, s->b_bytes, set),
                   at(s->c, s->c_bytes, set), t->stream);
    } else {
        sm90_enqueue(&s->launches[participant][set], t->stream);
    }
}

/* Milliseconds of one launch, from `count` of them. */
static float time_block(const struct timing *t, const struct shape_bench *s, int participant,
                        int count)
{
    float ms = 0;
    cudaEventRecord(t->from[0], t->stream);
    for (int i = 0; i < count; i++) {
        enqueue(t, s, participant, (uint32_t)i % s->sets);
    }
    cudaEventRecord(t->to[0], t->stream);
    cudaEventSynchronize(t->to[0]);
    cudaEventElapsedTime(&ms, t->from[0], t->to[0]);
    return ms / (float)count;
}

static int launches_for(float milliseconds, float each)
{
    const float count = milliseconds / fmaxf(each, 1e-3f);
    return count < 1 ? 1 : count > 2000 ? 2000 : (int)count;
}

/* The fastest of cuBLASLt's candidates; its first in *first. */
static void choose_candidate(const struct timing *t, const struct shape_bench *s,
                             struct lt_plan *plan, int participant, float *first)
{
    float best = INFINITY;
    int chosen = 0;
    for (int i = 0; i < plan->count; i++) {
        plan->best = i;
        float each = time_block(t, s, participant, 2);
        float times[3];
        for (int r = 0; r < 3; r++) {
            times[r] = time_block(t, s, participant, launches_for(2, each));
        }
        if (cudaGetLastError() != cudaSuccess) {
            continue;
        }
        each = median(times, 3);
        *first = i == 0 ? each : *first;
        if (each < best) {
            best = each;
            chosen = i;
        }
    }
    plan->best = chosen;
}

/* The problem as a kernel takes it: with operands as they are stored, or with B turned. */
static const struct gemm_problem *sets_for(const struct shape_bench *s,
                                           const struct sm90_kernel *kernel)
{
    return sm90_takes(kernel, s->stored) ? s->stored : s->turned;
}

/* The longest estimate of a kernel that is timed. */
static double limit_us(const struct bench_run *run, const struct shape_bench *s,
                       const struct sm90_kernel *kernels)
{
    double lowest = INFINITY;
    if (run->options->near_percent <= 0)
        return INFINITY;
    for (int v = 0; v < run->state->variants; v++) {
        const struct gemm_problem *p = sets_for(s, &kernels[v]);
        if (sm90_takes(&kernels[v], p))
            lowest = fmin(lowest, sm90_estimate_us(&kernels[v], p, &sm90_h100_sxm));
    }
    return lowest * (1 + run->options->near_percent / 100);
}

static bool set_up(struct timing *t, const struct bench_shape *shape, struct shape_bench *s)
{
    const struct bench_run *run = t->run;
    struct gemm_problem *p = &s->problem;
    memset(s, 0, sizeof *s);
    *p = (struct gemm_problem){.dtype = run->dtype,
                               .out = run->out,
                               .precision = run->precision,
                               .transb = run->transb,
                               .m = shape->m,
                               .n = shape->n,
                               .k = shape->k,
                               .batch = 1,
                               .alpha = 1};
    p->lda = bench_leading(p->k, p->dtype);
    p->ldb = bench_leading(p->transb ? p->k : p->n, p->dtype);
    p->ldc = bench_leading(p->n, p->out);
    const uint64_t element = dtype_size(p->dtype);
    const uint64_t a_elements = p->m * p->lda, b_elements = (p->transb ? p->n : p->k) * p->ldb;
    s->a_bytes = (a_elements * element + 255) / 256 * 256;
    s->b_bytes = (b_elements * element + 255) / 256 * 256;
    s->c_bytes = (p->m * p->ldc * dtype_size(p->out) + 255) / 256 * 256;
    const double enough =
        ceil(2 * run->state->l2_bytes / (double)(s->a_bytes + s->b_bytes + s->c_bytes));
    s->sets = enough < 2 ? 2 : enough > SETS_MAX ? SETS_MAX : (uint32_t)enough;
    if (cudaMalloc(&s->a, s->a_bytes * s->sets) != cudaSuccess ||
        cudaMalloc(&s->b, s->b_bytes * s->sets) != cudaSuccess ||
        cudaMalloc(&s->c, s->c_bytes * s->sets) != cudaSuccess ||
        cudaMalloc(&s->expected, s->c_bytes) != cudaSuccess ||
        bench_fill(s->a, s->a_bytes / element * s->sets, p->dtype, 1) != cudaSuccess ||
        bench_fill(s->b, s->b_bytes / element * s->sets, p->dtype, 2) != cudaSuccess) {
        return false;
    }
    p->a = s->a;
    p->b = s->b;
    p->c = s->c;
    if (run->options->fused) {
        if (cudaMalloc(&s->bias, p->n * dtype_size(p->out)) != cudaSuccess ||
            bench_fill(s->bias, p->n, p->out, 3) != cudaSuccess) {
            return false;
        }
        p->bias = s->bias;
        p->act = p->out == GEMMD_I32 ? GEMM_ACT_RELU : GEMM_ACT_GELU_TANH;
    }
    if (lt_plan_create(&t->lt, p, &s->lt) != CUBLAS_STATUS_SUCCESS) {
        snprintf(run->state->fault, WHY_MAX, "cuBLASLt has no candidate");
        return false;
    }
    if (shape->odd) {
        struct gemm_problem tight = *p;
        tight.lda = p->k;
        tight.ldb = p->transb ? p->k : p->n;
        tight.ldc = p->n;
        s->has_tight = lt_plan_create(&t->lt, &tight, &s->lt_tight) == CUBLAS_STATUS_SUCCESS;
    }
    for (uint32_t i = 0; i < s->sets; i++) {
        struct gemm_problem *set = &s->stored[i];
        *set = *p;
        set->a = at(s->a, s->a_bytes, i);
        set->b = at(s->b, s->b_bytes, i);
        set->c = at(s->c, s->c_bytes, i);
        if (!bench_make_parts(set, &s->parts_memory[i], &s->parts[i]) ||
            !bench_turn(set, &s->turned_memory[i], &s->turned[i])) {
            return false;
        }
    }
    const struct sm90_kernel *kernels = sm90_kernels(run->dtype, run->precision, GEMM_SCALES_NONE);
    const double limit = limit_us(run, s, kernels);
    for (int v = 0; v < run->state->variants; v++) {
        const struct gemm_problem *sets = sets_for(s, &kernels[v]);
        if (run->state->dead[v] || !sm90_takes(&kernels[v], sets) ||
            sm90_estimate_us(&kernels[v], sets, &sm90_h100_sxm) > limit) {
            continue;
        }
        s->launches[v] = malloc(SETS_MAX * sizeof *s->launches[v]);
        if (!s->launches[v]) {
            return false;
        }
        for (uint32_t i = 0; i < s->sets; i++) {
            const struct sm90_parts *parts = bench_is_in_parts(p) ? &s->parts[i] : NULL;
            if (sm90_prepare(&t->device, &kernels[v], &sets[i], parts, &s->launches[v][i]) !=
                cudaSuccess) {
                free(s->launches[v]);
                s->launches[v] = NULL;
                break;
            }
        }
    }
    return cudaDeviceSynchronize() == cudaSuccess;
}

static void tear_down(struct shape_bench *s)
{
    cudaFree(s->a);
    cudaFree(s->b);
    cudaFree(s->c);
    cudaFree(s->expected);
    cudaFree(s->bias);
    lt_plan_destroy(&s->lt);
    lt_plan_destroy(&s->lt_tight);
    for (uint32_t i = 0; i < s->sets; i++) {
        cudaFree(s->parts_memory[i]);
        cudaFree(s->turned_memory[i]);
    }
    for (int v = 0; v < VARIANTS_MAX; v++) {
        free(s->launches[v]);
    }
}

/* Launches variant `v` on set 0 again and again, every other time after a launch on another set,
 * and counts the launches with other bits than the first, whose sum is `hash`. False: a launch
 * failed.
 */
static bool repeat(struct timing *t, struct shape_bench *s, int unit, int v,
                   unsigned long long hash, int *changed)
{
    const struct gemm_problem *p = &s->problem;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < t->run->options->repeat && error == cudaSuccess; i++) {
        unsigned long long again = 0;
        if (i % 64 == 0) {
            bench_beat(t->run->state, unit, v);
        }
        cudaMemset(s->c, 0xFF, s->c_bytes);
        cudaMemset(t->hash, 0, sizeof again);
        cudaDeviceSynchronize();
        if (i % 2 == 1) {
            enqueue(t, s, v, s->sets - 1);
        }
        enqueue(t, s, v, 0);
        error = cudaStreamSynchronize(t->stream);
        bench_hash(s->c, dtype_size(p->out), p->m, p->n, p->ldc, t->hash);
        cudaMemcpy(&again, t->hash, sizeof again, cudaMemcpyDeviceToHost);
        *changed += again != hash;
    }
    return error == cudaSuccess;
}

/* One launch of each variant on set 0 against cuBLASLt's result; also finds whose launch faults. */
static bool compare_all(struct timing *t, struct shape_bench *s, int unit,
                        struct bench_shape_result *result)
{
    const struct gemm_problem *p = &s->problem;
    struct bench_state *state = t->run->state;
    bench_beat(state, unit, -1);
    cudaMemset(s->c, 0xFF, s->c_bytes);
    enqueue(t, s, LT, 0);
    cudaMemcpy(s->expected, s->c, s->c_bytes, cudaMemcpyDeviceToDevice);
    if (cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    for (int v = 0; v < state->variants; v++) {
        struct bench_difference difference = {.first_bad = UINT64_MAX};
        unsigned long long hash = 0;
        if (!s->launches[v]) {
            continue;
        }
        bench_beat(state, unit, v);
        cudaMemset(s->c, 0xFF, s->c_bytes);
        cudaMemcpy(t->difference, &difference, sizeof difference, cudaMemcpyHostToDevice);
        cudaMemset(t->hash, 0, sizeof hash);
        enqueue(t, s, v, 0);
        const cudaError_t error = cudaDeviceSynchronize();
        if (error != cudaSuccess) {
            state->dead[v] = true;
            snprintf(state->why[v], WHY_MAX, "shape %d: %s", unit, cudaGetErrorString(error));
            return false;
        }
        bench_compare(s->c, p->out, 1, p->m, p->n, p->ldc, 0, NULL, s->expected, INFINITY, 0,
                      t->difference);
        bench_hash(s->c, dtype_size(p->out), p->m, p->n, p->ldc, t->hash);
        cudaMemcpy(&difference, t->difference, sizeof difference, cudaMemcpyDeviceToHost);
        cudaMemcpy(&hash, t->hash, sizeof hash, cudaMemcpyDeviceToHost);
        result->error[v] =
            (float)sqrt(difference.squares / fmax(difference.reference_squares, 1e-300));
        result->hash[v] = hash;
        if (!repeat(t, s, unit, v, hash, &result->changed[v])) {
            state->dead[v] = true;
            snprintf(state->why[v], WHY_MAX, "shape %d: a repeated launch failed", unit);
            return false;
        }
    }
    return true;
}

static bool time_all(struct timing *t, struct shape_bench *s, int unit,
                     struct bench_shape_result *result)
{
    struct bench_state *state = t->run->state;
    const int rounds = t->run->options->quick ? ROUNDS_QUICK : ROUNDS;
    int participants[PARTICIPANTS_MAX] = {0}, counts[PARTICIPANTS_MAX] = {0}, count = 0;
    float times[PARTICIPANTS_MAX][ROUNDS];
    for (int i = 0; i < PARTICIPANTS_MAX; i++) {
        if (i == LT || (i == LT_TIGHT && s->has_tight) || (i < VARIANTS_MAX && s->launches[i])) {
            bench_beat(state, unit, i < VARIANTS_MAX ? i : -1);
            counts[count] = launches_for(4, time_block(t, s, i, 3));
            participants[count++] = i;
        }
    }
    bench_beat(state, unit, -1);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < count; i++) {
            cudaEventRecord(t->from[i], t->stream);
            for (int l = 0; l < counts[i]; l++) {
                enqueue(t, s, participants[i], (uint32_t)l % s->sets);
            }
            cudaEventRecord(t->to[i], t->stream);
        }
        if (r == rounds / 2) {
            result->clock_mhz = sensors_clock_mhz(&t->sensors); /* while the queue is full */
            result->power_watts = sensors_power_watts(&t->sensors);
        }
        if (cudaDeviceSynchronize() != cudaSuccess) {
            return false;
        }
        for (int i = 0; i < count; i++) {
            cudaEventElapsedTime(&times[i][r], t->from[i], t->to[i]);
            times[i][r] /= (float)counts[i];
        }
        bench_beat(state, unit, -1);
    }
    for (int i = 0; i < count; i++) {
        const float each = median(times[i], rounds);
        if (participants[i] == LT) {
            result->lt_milliseconds = each;
        } else if (participants[i] == LT_TIGHT) {
            result->lt_tight_milliseconds = each;
        } else {
            result->milliseconds[participants[i]] = each;
        }
    }
    return true;
}

/* Keeps the GPU busy until its clock has settled. */
static void warm_up(struct timing *t, struct shape_bench *s, double seconds)
{
    for (const double until = bench_now() + seconds; bench_now() < until;) {
        time_block(t, s, LT, launches_for(50, time_block(t, s, LT, 1)));
        bench_beat(t->run->state, t->run->state->unit, -1);
    }
}

static bool open_timing(const struct bench_run *run, struct timing *t)
{
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    memset(t, 0, sizeof *t);
    t->run = run;
    if (sm90_device_open(&t->device) != cudaSuccess ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
        lt_open(&t->lt) != CUBLAS_STATUS_SUCCESS || cudaStreamCreate(&t->stream) != cudaSuccess ||
        cudaMalloc((void **)&t->difference, sizeof *t->difference) != cudaSuccess ||
        cudaMalloc((void **)&t->hash, sizeof *t->hash) != cudaSuccess) {
        return false;
    }
    for (int i = 0; i < PARTICIPANTS_MAX; i++) {
        if (cudaEventCreate(&t->from[i]) != cudaSuccess ||
            cudaEventCreate(&t->to[i]) != cudaSuccess) {
            return false;
        }
    }
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    struct bench_state *state = run->state;
    state->l2_bytes = properties.l2CacheSize;
    snprintf(state->device, sizeof state->device, "%.60s, %d multiprocessors, L2 %d MiB",
             properties.name, properties.multiProcessorCount, properties.l2CacheSize >> 20);
    snprintf(state->libraries, sizeof state->libraries, "CUDA runtime %d, driver %d, cuBLASLt %zu",
             runtime, driver, cublasLtGetVersion());
    sensors_open(&t->sensors);
    return true;
}

bool bench_time(const struct bench_run *run)
{
    struct bench_state *state = run->state;
    struct timing t;
    bool warm = false;
    bench_beat(state, state->unit, -1);
    if (!open_timing(run, &t)) {
        snprintf(state->fault, WHY_MAX, "set-up: %s", cudaGetErrorString(cudaGetLastError()));
        return false;
    }
    for (int unit = state->unit; unit < state->shapes; unit++) {
        struct bench_shape_result *result = &state->result[unit];
        struct shape_bench s;
        if (bench_now() > state->deadline) {
            break;
        }
        bench_beat(state, unit, -1);
        if (result->done) {
            continue;
        }
        memset(result, 0, sizeof *result);
        if (!set_up(&t, &state->shape[unit], &s)) {
            tear_down(&s);
            return false;
        }
        if (!warm) {
            warm_up(&t, &s, 1.5);
            warm = true;
        }
        choose_candidate(&t, &s, &s.lt, LT, &result->lt_first_milliseconds);
        bench_beat(state, unit, -1);
        float first = 0;
        if (s.has_tight) {
            choose_candidate(&t, &s, &s.lt_tight, LT_TIGHT, &first);
        }
        result->lt_best = s.lt.best;
        result->lt_count = s.lt.count;
        result->sets = s.sets;
        const struct sm90_kernel *chosen = sm90_choose(&s.problem, &t.device.card);
        result->chosen =
            chosen != NULL
                ? (int)(chosen - sm90_kernels(run->dtype, run->precision, GEMM_SCALES_NONE))
                : -1;
        if (!compare_all(&t, &s, unit, result) || !time_all(&t, &s, unit, result)) {
            return false;
        }
        result->done = true;
        tear_down(&s);
    }
    return true; /* the process ends here, and with it everything that is still open */
}
