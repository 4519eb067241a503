/* Every kernel on every case: fresh operands, a poisoned result with poisoned surroundings, and a
 * reference summed in f64. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/sm90.h"
#include "proto/dtype.h"
#include "tests/bench/device.h"
#include "tests/bench/kernels.h"
#include "tests/bench/parts.h"

enum { POISON = 0xA5, GUARD_BYTES = 4096 };

/* The memory of one case. */
struct operands {
    void *a, *b, *bias, *c0, *c;
    void *parts_memory; /* of f32 operands, or NULL */
    struct sm90_parts parts;
    double *reference;
    struct bench_difference *difference; /* device */
    unsigned long long *touched;         /* device */
    uint64_t c_bytes;
};

static void operands_free(struct operands *o)
{
    cudaFree(o->a);
    cudaFree(o->b);
    cudaFree(o->bias);
    cudaFree(o->parts_memory);
    cudaFree(o->c0);
    cudaFree(o->c);
    cudaFree(o->reference);
    cudaFree(o->difference);
    cudaFree(o->touched);
}

static bool filled(void **data, uint64_t elements, enum gemmd_dtype dtype, uint32_t seed)
{
    return cudaMalloc(data, elements * dtype_size(dtype) + 16) == cudaSuccess &&
           bench_fill(*data, elements, dtype, seed) == cudaSuccess;
}

/* A kernel may write a row of C up to the next multiple of 16 bytes (sm90.h). */
static uint64_t owned_columns(uint64_t n, enum gemmd_dtype out)
{
    const uint64_t multiple = 16 / dtype_size(out);
    return (n + multiple - 1) / multiple * multiple;
}

static bool set_up(const struct bench_run *run, const struct bench_case *c, uint32_t seed,
                   struct gemm_problem *p, struct operands *o)
{
    const enum gemmd_dtype out = c->f32_out ? GEMMD_F32 : run->out;
    *p = (struct gemm_problem){.dtype = run->dtype,
                               .out = out,
                               .precision = run->precision,
                               .act = c->act,
                               .transa = c->transa,
                               .transb = c->transb,
                               .m = c->m,
                               .n = c->n,
                               .k = c->k,
                               .batch = c->batch,
                               .alpha = c->alpha,
                               .beta = c->beta};
    /* The surplus columns hold numbers too: reading them would show. */
    p->lda = bench_leading(c->transa ? c->m : c->k, run->dtype);
    p->ldb = bench_leading(c->transb ? c->k : c->n, run->dtype);
    p->ldc = owned_columns(c->n, out) + 16 / dtype_size(out); /* the last are not the kernel's */
    p->ldc0 = p->ldc;
    p->stride_a = p->lda * (c->transa ? c->k : c->m);
    p->stride_b = p->ldb * (c->transb ? c->n : c->k);
    p->stride_c = p->ldc * c->m;
    p->stride_c0 = p->stride_c;
    memset(o, 0, sizeof *o);
    o->c_bytes = p->stride_c * c->batch * dtype_size(out) + GUARD_BYTES;
    const bool ok = filled(&o->a, p->stride_a * c->batch, run->dtype, seed) &&
                    filled(&o->b, p->stride_b * c->batch, run->dtype, seed + 1) &&
                    filled(&o->bias, c->n, out, seed + 2) &&
                    filled(&o->c0, p->stride_c * c->batch, out, seed + 3) &&
                    cudaMalloc(&o->c, o->c_bytes) == cudaSuccess &&
                    cudaMalloc((void **)&o->reference, c->batch * c->m * c->n * 8) == cudaSuccess &&
                    cudaMalloc((void **)&o->difference, sizeof *o->difference) == cudaSuccess &&
                    cudaMalloc((void **)&o->touched, sizeof *o->touched) == cudaSuccess;
    if (!ok) {
        return false;
    }
    p->a = o->a;
    p->b = o->b;
    p->bias = c->bias ? o->bias : NULL;
    p->c0 = o->c0;
    p->c = o->c;
    const struct bench_product product = {.dtype = p->dtype,
                                          .out = p->out,
                                          .act = (int)p->act,
                                          .transa = p->transa,
                                          .transb = p->transb,
                                          .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .batch = p->batch,
                                          .lda = p->lda,
                                          .ldb = p->ldb,
                                          .ldc0 = p->ldc0,
                                          .stride_a = p->stride_a,
                                          .stride_b = p->stride_b,
                                          .stride_c0 = p->stride_c0,
                                          .alpha = p->alpha,
                                          .beta = p->beta,
                                          .a = p->a,
                                          .b = p->b,
                                          .bias = p->bias,
                                          .c0 = p->c0};
    return bench_make_parts(p, &o->parts_memory, &o->parts) &&
           bench_reference(&product, o->reference) == cudaSuccess &&
           cudaDeviceSynchronize() == cudaSuccess;
}

/* How far a result may be off: what rounding to `out` costs, and what the sum may lose, from the
 * type's own arithmetic on operands in [-1, 1]. Integers: nothing, unless they end as floats. */
static void bounds(const struct gemm_problem *p, double *atol, double *rtol)
{
    const double k = (double)p->k, scale = fabs(p->alpha);
    *rtol = p->out == GEMMD_BF16 ? 0x1p-8 : p->out == GEMMD_F16 ? 0x1p-10 : 4e-6;
    switch (p->dtype) {
    case GEMMD_I8:
        *atol = p->out == GEMMD_I32 ? 0 : 1e-3;
        *rtol = p->out == GEMMD_I32 ? 0 : 4e-6;
        break;
    case GEMMD_F32: /* tf32: 11 bits of each operand */
        *atol = bench_is_in_parts(p) ? scale * 1.6e-7 * k + 1e-6 : scale * 1.5e-3 * sqrt(k) + 1e-5;
        break;
    case GEMMD_F8_E4M3: /* about 25 times what the sums of 128 lose in the mean */
        *atol = scale * 1e-3 * sqrt(k) + 1e-5;
        break;
    default: /* a few times what a chain of FMAs loses where the result is f32 */
        *atol = scale * (p->out == GEMMD_F32 ? 1.6e-7 : 2e-6) * k + 1e-5;
    }
}

static void describe(char *why, const struct bench_case *c, const struct bench_difference *d,
                     unsigned long long touched)
{
    const uint64_t i = d->first_bad;
    snprintf(
        why, WHY_MAX,
        "%llux%llux%llu b%llu %c%c alpha %g beta %g bias %d act %d f32 %d: %llu bad of %llu, "
        "first at b%llu (%llu, %llu) got %g wanted %g, relative error %.2e, %llu bytes outside",
        (unsigned long long)c->m, (unsigned long long)c->n, (unsigned long long)c->k,
        (unsigned long long)c->batch, c->transa ? 'T' : 'N', c->transb ? 'T' : 'N', c->alpha,
        c->beta, c->bias, (int)c->act, c->f32_out, d->bad,
        (unsigned long long)(c->batch * c->m * c->n),
        d->bad ? (unsigned long long)(i / (c->m * c->n)) : 0ull,
        d->bad ? (unsigned long long)(i / c->n % c->m) : 0ull,
        d->bad ? (unsigned long long)(i % c->n) : 0ull, d->first_got, d->first_wanted,
        sqrt(d->squares / fmax(d->reference_squares, 1e-300)), touched);
}

/* One kernel on one case; false if the device did not survive it. */
static bool check_one(const struct bench_run *run, const struct sm90_device *device,
                      const struct sm90_kernel *kernel, int variant, const struct bench_case *c,
                      const struct gemm_problem *p, const struct operands *o)
{
    struct bench_state *state = run->state;
    struct sm90_launch launch;
    struct bench_difference difference = {.first_bad = UINT64_MAX};
    unsigned long long touched = 0;
    double atol, rtol;
    cudaError_t error =
        sm90_prepare(device, kernel, p, bench_is_in_parts(p) ? &o->parts : NULL, &launch);
    if (error != cudaSuccess) {
        state->wrong[variant]++;
        snprintf(state->why[variant], WHY_MAX, "not prepared: %s", cudaGetErrorString(error));
        return true;
    }
    bounds(p, &atol, &rtol);
    cudaMemset(o->c, POISON, o->c_bytes);
    cudaMemcpy(o->difference, &difference, sizeof difference, cudaMemcpyHostToDevice);
    cudaMemset(o->touched, 0, sizeof *o->touched);
    error = sm90_enqueue(&launch, 0);
    if (error == cudaSuccess) {
        error = cudaDeviceSynchronize();
    }
    if (error != cudaSuccess) {
        state->dead[variant] = true;
        snprintf(state->why[variant], WHY_MAX, "%llux%llux%llu: %s", (unsigned long long)c->m,
                 (unsigned long long)c->n, (unsigned long long)c->k, cudaGetErrorString(error));
        return error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration;
    }
    bench_compare(o->c, p->out, p->batch, p->m, p->n, p->ldc, p->stride_c, o->reference, NULL, atol,
                  rtol, o->difference);
    bench_outside(o->c, o->c_bytes, dtype_size(p->out), p->batch, p->m, owned_columns(p->n, p->out),
                  p->ldc, p->stride_c, POISON, o->touched);
    cudaMemcpy(&difference, o->difference, sizeof difference, cudaMemcpyDeviceToHost);
    error = cudaMemcpy(&touched, o->touched, sizeof touched, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        snprintf(state->fault, WHY_MAX, "comparison: %s", cudaGetErrorString(error));
        return false;
    }
    if (difference.bad || touched) {
        if (state->wrong[variant]++ == 0) {
            describe(state->why[variant], c, &difference, touched);
        }
    }
    state->checked[variant]++;
    return true;
}

bool bench_check(const struct bench_run *run)
{
    struct bench_state *state = run->state;
    const struct sm90_kernel *kernels = sm90_kernels(run->dtype, run->precision, GEMM_SCALES_NONE);
    struct sm90_device device;
    cudaError_t error = sm90_device_open(&device);
    if (error != cudaSuccess) {
        snprintf(state->fault, WHY_MAX, "device: %s", cudaGetErrorString(error));
        return false;
    }
    for (int unit = state->unit; unit < state->cases; unit++) {
        const struct bench_case *c = &state->cases_list[unit];
        struct gemm_problem problem;
        struct operands operands;
        bench_beat(state, unit, -1);
        if (!set_up(run, c, (uint32_t)(bench_now() * 1e6) + (uint32_t)unit, &problem, &operands)) {
            snprintf(state->fault, WHY_MAX, "case %d: %s", unit,
                     cudaGetErrorString(cudaGetLastError()));
            operands_free(&operands);
            return false;
        }
        for (int v = 0; v < state->variants; v++) {
            if (state->dead[v] || !sm90_takes(&kernels[v], &problem)) {
                continue;
            }
            bench_beat(state, unit, v);
            if (!check_one(run, &device, &kernels[v], v, c, &problem, &operands)) {
                return false;
            }
        }
        operands_free(&operands);
    }
    return true;
}
