/*
 * gemmd-gpu-reduce-check - every kernel of reductions and softmaxes on the GPU against the naive
 * kernel of the CPU, which computes in f64.
 *
 * Each problem is computed with the result's memory poisoned, and the bytes around the result must
 * stay as they were. Problems that a kernel computes in groups must have the same bytes in a group,
 * and the first of many rows the same bytes as alone. One line for each kernel, type and
 * operation; exit status 1 if a result was wrong.
 *
 * usage: gemmd-gpu-reduce-check [--quick] [--kernels NAME] [--share I/N]
 *   --quick      little of everything, for a run under compute-sanitizer
 *   --share I/N  every N-th problem from the I-th on, counted from 0: as much as one of N runs of
 * the check that go on at the same time should do
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/share.h"
#include "tests/gpu/streams.h"
#include "tests/product/random.h"

enum { GUARD = 256, POISON = 0x5b, FEW_ROWS = 100 };

static struct {
    struct gemm_context *gpu, *cpu;
    cudaStream_t stream;
    const char *kernel; /* NULL: all */
    bool quick;
    uint32_t share, shares; /* problems whose number leaves `share` when divided */
    uint32_t problems, wrong, right;
} check;

/* Elements of f32, bf16 and f64 at the edge of the range. */
enum edge {
    EDGE_NONE,
    EDGE_GREAT, /* their sum, or that of their squares, is out of range; the result is not */
    EDGE_SMALL, /* their squares are 0 or subnormal */
    EDGE_MIXED, /* of any magnitude */
    EDGE_OFFSET /* of a softmax: a great number, and small multiples of its unit of rounding */
};

struct sample {
    struct task task;
    unsigned char *x, *y; /* on the host: operand; result and the guards around it */
    int32_t *lens;        /* on the host; NULL: none */
    unsigned char *there; /* in device memory: X, lens, Y with guards, workspace */
    uint64_t x_bytes, y_bytes, lens_bytes;
    uint64_t shift; /* elements from an aligned place to X */
    bool special;   /* some elements are NaN or infinite, or the least and greatest integer */
    enum edge edge;
    double magnitude; /* no element of a reduction of floats is greater */
    double *wanted;   /* [results] */
    uint64_t results;
    double largest; /* magnitude of a scaled element */
};

static _Noreturn void stop(const char *why)
{
    fprintf(stderr, "gemmd-gpu-reduce-check: %s: %s\n", why,
            cudaGetErrorString(cudaGetLastError()));
    exit(2);
}

static void need(bool is_so, const char *what)
{
    if (!is_so)
        stop(what);
}

static void narrow_into(enum gemmd_dtype dtype, double value, unsigned char *to)
{
    const float single = (float)value;
    const int32_t integer = (int32_t)value;
    if (dtype == GEMMD_F64)
        memcpy(to, &value, sizeof value);
    else if (dtype == GEMMD_I8)
        *to = (unsigned char)integer;
    else if (dtype == GEMMD_I32)
        memcpy(to, &integer, sizeof integer);
    else
        convert_narrow(dtype, &single, to, 1);
}

/* Computes the sums of elements, squares or exponentials of f64 anew in long double: those of the
 * CPU's kernel, a chain of f64, may be as far from the true sums as a result is allowed to be. */
static void sum_precisely(struct sample *s)
{
    const struct reduce_problem *p = &s->task.problem.reduce;
    const double *x = (const double *)(const void *)s->x;
    for (uint64_t i = 0; i < p->outer * p->mid * p->width; i++) {
        const uint64_t row = i / p->width;
        const double *first =
            x + row / p->mid * p->outer_stride + row % p->mid * p->mid_stride + i % p->width;
        long double sum = 0;
        for (uint64_t j = 0; j < p->length; j++) {
            const long double value = first[j * p->length_stride];
            sum += p->op == REDUCE_NORM2       ? value * value
                   : p->op == REDUCE_LOGSUMEXP ? expl(value) /* of at most 1 */
                                               : value;
        }
        s->wanted[i / p->y_width * p->y_leading + i % p->y_width] =
            (double)(p->op == REDUCE_NORM2       ? sqrtl(sum)
                     : p->op == REDUCE_LOGSUMEXP ? logl(sum)
                     : p->op == REDUCE_MEAN      ? sum / (long double)p->length
                                                 : sum);
    }
}

/* One of a few hundred elements of a special sample. */
static double special_element(enum gemmd_dtype dtype, uint64_t kind)
{
    static const double floats[] = {NAN, INFINITY, -INFINITY, -0.0};
    static const double narrow[] = {INT8_MIN, INT8_MAX, INT8_MIN, 0};
    static const double wide[] = {INT32_MIN, INT32_MAX, INT32_MIN, 0};
    return dtype == GEMMD_I8    ? narrow[kind % 4]
           : dtype == GEMMD_I32 ? wide[kind % 4]
                                : floats[kind % 4];
}

/* An element at the edge of the range, from a random number in [-1, 1) and random bits. */
static double edge_element(const struct sample *s, enum gemmd_dtype dtype, double uniform,
                           uint64_t bits)
{
    const bool is_f64 = dtype == GEMMD_F64;
    const double unit = is_f64 ? 0x1p-52 : dtype == GEMMD_F32 ? 0x1p-23 : 0x1p-7;
    switch (s->edge) {
    case EDGE_MIXED:
        return ldexp(uniform, is_f64 ? (int)(bits % 2000) - 1060 : (int)(bits % 250) - 140);
    case EDGE_OFFSET:
        return (is_f64 ? 0x1p1000 : 0x1p100) * (1 + unit * (double)(bits % 4));
    default:
        return s->magnitude * uniform;
    }
}

/* Fills X, and computes what is wanted with the naive kernel of the CPU. */
static void sample_prepare(struct sample *s, enum gemmd_dtype dtype, uint64_t seed)
{
    const struct operation *operation = s->task.operation;
    const struct operation_kernel *const *cpu = operation_kernels(operation, GEMM_BACKEND_CPU);
    const uint64_t size = dtype_size(dtype), count = s->x_bytes / size;
    uint64_t state = seed;
    while (strcmp((*cpu)->name, "naive") != 0)
        cpu++;
    s->x = malloc(s->x_bytes);
    s->y = malloc(s->y_bytes + (uint64_t)2 * GUARD);
    s->wanted = malloc(s->results * sizeof *s->wanted);
    need(s->x != NULL && s->y != NULL && s->wanted != NULL, "no memory");
    for (uint64_t i = 0; i < count; i++) {
        const double uniform = random_unit(&state);
        const uint64_t drawn = s->special ? random_next(&state) % 1200 : 4;
        narrow_into(dtype,
                    s->edge != EDGE_NONE ? edge_element(s, dtype, uniform, random_next(&state))
                    : drawn < 4          ? special_element(dtype, drawn)
                    : dtype == GEMMD_I8  ? floor(127 * uniform)
                    : dtype == GEMMD_I32 ? floor(2e9 * uniform)
                                         : uniform,
                    s->x + i * size);
    }
    struct task host = s->task;
    if (operation == &operation_reduce) {
        host.problem.reduce.x = s->x;
        host.problem.reduce.y = s->wanted;
        host.problem.reduce.out = GEMMD_F64;
    } else {
        host.problem.softmax.x = s->x;
        host.problem.softmax.y = s->wanted;
        host.problem.softmax.lens = s->lens;
        host.problem.softmax.out = GEMMD_F64;
    }
    need(operation_run(*cpu, check.cpu, &host.problem, NULL) == GEMMD_OK, "the reference failed");
    if (s->task.operation == &operation_reduce && host.problem.reduce.dtype == GEMMD_F64 &&
        (host.problem.reduce.op == REDUCE_SUM || host.problem.reduce.op == REDUCE_MEAN ||
         host.problem.reduce.op == REDUCE_NORM2 || host.problem.reduce.op == REDUCE_LOGSUMEXP))
        sum_precisely(s);
}

static void sample_free(struct sample *s)
{
    free(s->x);
    free(s->y);
    free(s->lens);
    free(s->wanted);
    (void)cudaFree(s->there);
}

/* The bytes from an aligned place to X. */
static uint64_t shift_bytes(const struct sample *s)
{
    return s->shift * dtype_size(s->task.operation->dtype(&s->task.problem));
}

static uint64_t room_of_x(const struct sample *s)
{
    return (shift_bytes(s) + s->x_bytes + 511) / 256 * 256;
}

/* Copies the operands to the device, and poisons the result. Returns the workspace. */
static void *sample_upload(struct sample *s, const struct operation_kernel *kernel,
                           union operation_problem *problem)
{
    const uint64_t x = room_of_x(s), lens = (s->lens_bytes + 511) / 256 * 256;
    const uint64_t y = (s->y_bytes + 2 * GUARD + 511) / 256 * 256;
    uint64_t workspace = 0;
    need(kernel->workspace_bytes(&s->task.problem, &workspace), "the workspace overflows");
    (void)cudaFree(s->there);
    need(cudaMalloc((void **)&s->there, x + lens + y + workspace + 256) == cudaSuccess, "memory");
    need(cudaMemset(s->there, POISON, x + lens + y + workspace) == cudaSuccess, "poison");
    need(cudaMemcpy(s->there + shift_bytes(s), s->x, s->x_bytes, cudaMemcpyHostToDevice) ==
             cudaSuccess,
         "X");
    if (s->lens != NULL)
        need(cudaMemcpy(s->there + x, s->lens, s->lens_bytes, cudaMemcpyHostToDevice) ==
                 cudaSuccess,
             "lengths");
    *problem = s->task.problem;
    if (s->task.operation == &operation_reduce) {
        problem->reduce.x = s->there + shift_bytes(s);
        problem->reduce.y = s->there + x + lens + GUARD;
    } else {
        problem->softmax.x = s->there + shift_bytes(s);
        problem->softmax.y = s->there + x + lens + GUARD;
        if (s->lens != NULL)
            problem->softmax.lens = (const int32_t *)(const void *)(s->there + x);
    }
    return s->there + x + lens + y;
}

static void sample_download(struct sample *s)
{
    const uint64_t x = room_of_x(s), lens = (s->lens_bytes + 511) / 256 * 256;
    need(cudaStreamSynchronize(check.stream) == cudaSuccess, "a kernel");
    need(cudaMemcpy(s->y, s->there + x + lens, s->y_bytes + (uint64_t)2 * GUARD,
                    cudaMemcpyDeviceToHost) == cudaSuccess,
         "the result");
}

/* How far element `i` may be from what is wanted. */
static double tolerance(const struct sample *s, uint64_t i)
{
    const double wanted = fabs(s->wanted[i]);
    if (s->task.operation == &operation_softmax) {
        const struct softmax_problem *p = &s->task.problem.softmax;
        const double unit = softmax_error(p->length, s->largest, p->log ? wanted : log(wanted)) *
                            (p->dtype == GEMMD_F64 ? 0x1p-29 : 1);
        return unit * (p->log ? 1 + wanted : wanted + 0x1p-126);
    }
    const struct reduce_problem *p = &s->task.problem.reduce;
    const double n = (double)p->length;
    const double unit =
        reduce_sum_roundings(p->length) * (p->dtype == GEMMD_F64 ? 0x1p-53 : 0x1p-24);
    const double few = p->dtype == GEMMD_F64 ? 0x1p-50 : 0x1p-21;
    switch (p->op) {
    case REDUCE_SUM:
        return p->dtype == GEMMD_I8 || p->dtype == GEMMD_I32 ? 0 : unit * n * s->magnitude;
    case REDUCE_MEAN:
        return p->dtype == GEMMD_I8 || p->dtype == GEMMD_I32 ? 0 : (unit + few) * s->magnitude;
    case REDUCE_NORM2:
        return (unit + few) * wanted;
    case REDUCE_LOGSUMEXP:
        return 4 * unit + few * (1 + wanted);
    default:
        return 0;
    }
}

static double rounding(enum gemmd_dtype out, double wanted)
{
    switch (out) {
    case GEMMD_F16:
        return 0x1p-11 * wanted + 0x1p-25;
    case GEMMD_BF16:
        return 0x1p-8 * wanted + 0x1p-134;
    case GEMMD_F32:
        return 0x1p-24 * wanted + 0x1p-149;
    default:
        return 0x1p-53 * wanted;
    }
}

static enum gemmd_dtype out_of(const struct sample *s)
{
    return s->task.operation == &operation_reduce ? s->task.problem.reduce.out
                                                  : s->task.problem.softmax.out;
}

static bool is_right(const struct sample *s, char *why, size_t room)
{
    const enum gemmd_dtype out = out_of(s);
    for (uint64_t i = 0; i < GUARD; i++)
        if (s->y[i] != POISON || s->y[GUARD + s->y_bytes + i] != POISON) {
            snprintf(why, room, "bytes around the result were changed");
            return false;
        }
    for (uint64_t i = 0; i < s->results; i++) {
        double got, wanted = s->wanted[i];
        convert_to_f64(out, s->y + GUARD + i * dtype_size(out), &got, 1);
        if (out == GEMMD_I32 || out == GEMMD_I8)
            wanted = (double)(int32_t)(uint32_t)(int64_t)wanted;
        const double allowed = tolerance(s, i) + rounding(out, fabs(wanted));
        if (got == wanted || (isnan(got) && isnan(wanted)) ||
            (isfinite(wanted) && fabs(got - wanted) <= allowed))
            continue;
        snprintf(why, room, "element %llu is %.9g, not %.9g (%.3g allowed)", (unsigned long long)i,
                 got, wanted, allowed);
        return false;
    }
    return true;
}

static void describe(const struct sample *s, char *out, size_t room)
{
    if (s->task.operation == &operation_reduce) {
        const struct reduce_problem *p = &s->task.problem.reduce;
        snprintf(out, room, "%s of %s to %s, outer %llu, length %llu, width %llu",
                 reduce_op_name(p->op), dtype_name(p->dtype), dtype_name(p->out),
                 (unsigned long long)p->outer, (unsigned long long)p->length,
                 (unsigned long long)p->width);
        return;
    }
    const struct softmax_problem *p = &s->task.problem.softmax;
    snprintf(out, room, "%ssoftmax of %s to %s, %llu rows of %llu%s", p->log ? "log-" : "",
             dtype_name(p->dtype), dtype_name(p->out), (unsigned long long)p->rows,
             (unsigned long long)p->length, s->lens != NULL ? " with lengths" : "");
}

static void record(const struct sample *s, const char *kernel, bool right, const char *why)
{
    char what[160];
    check.right += right;
    check.wrong += !right;
    if (right)
        return;
    describe(s, what, sizeof what);
    printf("WRONG %s %s: %s: %s\n", s->task.operation->name, kernel, what, why);
    fflush(stdout);
}

/* A group of the problem with itself, in which each member must have the bytes that it has alone.
 */
static void check_group(struct sample *s, const struct operation_kernel *kernel,
                        union operation_problem *problem)
{
    enum { MEMBERS = 70 };
    unsigned char *alone = malloc(s->y_bytes);
    struct operation_member members[MEMBERS];
    if (alone == NULL)
        stop("no memory");
    memcpy(alone, s->y + GUARD, s->y_bytes);
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i] = (struct operation_member){problem, NULL};
    (void)sample_upload(s, kernel, problem);
    need(kernel->run_group(check.gpu, members, MEMBERS) == GEMMD_OK, "a group");
    sample_download(s);
    record(s, kernel->name, memcmp(alone, s->y + GUARD, s->y_bytes) == 0,
           "a group has other bytes");
    free(alone);
}

/* The first of many rows, whose bytes must be those that they have among the others. */
static void check_first_rows(const struct sample *s, const struct operation_kernel *kernel)
{
    const bool is_reduction = s->task.operation == &operation_reduce;
    const uint64_t rows =
        is_reduction ? s->task.problem.reduce.outer : s->task.problem.softmax.rows;
    struct sample few = *s;
    union operation_problem problem;
    if (rows < FEW_ROWS)
        return;
    few.there = NULL;
    few.y_bytes = s->y_bytes / rows * 2;
    few.y = malloc(few.y_bytes + (uint64_t)2 * GUARD);
    need(few.y != NULL, "no memory");
    if (is_reduction)
        few.task.problem.reduce.outer = 2;
    else
        few.task.problem.softmax.rows = 2;
    void *workspace = sample_upload(&few, kernel, &problem);
    need(operation_run(kernel, check.gpu, &problem, workspace) == GEMMD_OK, "few rows");
    sample_download(&few);
    record(s, kernel->name, memcmp(few.y + GUARD, s->y + GUARD, few.y_bytes) == 0,
           "the first rows have other bytes alone");
    (void)cudaFree(few.there);
    free(few.y);
}

static void check_kernel(struct sample *s, const struct operation_kernel *kernel)
{
    union operation_problem problem;
    char why[160] = "";
    void *workspace = sample_upload(s, kernel, &problem);
    need(operation_run(kernel, check.gpu, &problem, workspace) == GEMMD_OK, kernel->name);
    sample_download(s);
    record(s, kernel->name, is_right(s, why, sizeof why), why);
    check_first_rows(s, kernel);
    if (operation_is_small(s->task.operation, kernel, &s->task.problem))
        check_group(s, kernel, &problem);
}

static bool is_checked(const struct sample *s, const struct operation_kernel *kernel)
{
    const struct gemm_device device = streams_device();
    return (check.kernel == NULL || strcmp(check.kernel, kernel->name) == 0) &&
           operation_kernel_runs_on(s->task.operation, kernel, &device) &&
           kernel->takes(&s->task.problem);
}

/* Checks all kernels that take the problem. */
static void check_sample(struct sample *s, enum gemmd_dtype dtype, uint64_t seed)
{
    const struct operation_kernel *const *k =
        operation_kernels(s->task.operation, GEMM_BACKEND_CUDA);
    if (check.problems++ % check.shares != check.share)
        return;
    for (; *k != NULL; k++) {
        if (!is_checked(s, *k))
            continue;
        if (s->x == NULL)
            sample_prepare(s, dtype, seed);
        check_kernel(s, *k);
    }
}

static void check_reduce(enum reduce_op op, enum gemmd_dtype dtype, enum gemmd_dtype out,
                         const struct array_shape *shape, uint32_t axis, uint64_t shift,
                         enum edge edge, uint64_t seed)
{
    const bool is_f64 = dtype == GEMMD_F64;
    struct sample s = {.task = {.operation = &operation_reduce},
                       .shift = shift,
                       .special = shift > 0 && edge == EDGE_NONE,
                       .edge = edge,
                       .magnitude = 1};
    struct reduce_problem *p = &s.task.problem.reduce;
    if (!reduce_offers(op, dtype, out))
        return;
    reduce_problem_of(p, shape, axis, shape->dims[shape->rank - 1]);
    p->op = op;
    p->dtype = dtype;
    p->out = out;
    if (edge == EDGE_GREAT)
        s.magnitude =
            (is_f64 ? 1.7e308 : 3.3e38) / (op == REDUCE_NORM2 ? sqrt((double)p->length) : 1);
    else if (edge == EDGE_SMALL)
        s.magnitude = is_f64 ? 1e-200 : 1e-30;
    else if (edge == EDGE_MIXED)
        s.magnitude = is_f64 ? 0x1p940 : 0x1p110;
    s.results = reduce_results(p);
    s.x_bytes = s.results * p->length * dtype_size(dtype);
    s.y_bytes = s.results * dtype_size(out);
    check_sample(&s, dtype, seed);
    sample_free(&s);
}

static void check_softmax(enum gemmd_dtype dtype, enum gemmd_dtype out, uint64_t rows,
                          uint64_t length, int variant, double scale, enum edge edge, uint64_t seed)
{
    const struct array_shape shape = {2, {rows, length}};
    struct sample s = {.task = {.operation = &operation_softmax}, .edge = edge, .largest = scale};
    struct softmax_problem *p = &s.task.problem.softmax;
    static const int32_t some;
    if (!softmax_offers(dtype, out))
        return;
    softmax_problem_of(p, &shape, variant & 2 ? 1 : 0);
    p->dtype = dtype;
    p->out = out;
    p->scale = scale;
    if (edge == EDGE_OFFSET)
        s.largest = INFINITY; /* the bound must hold that does not grow with the offset */
    p->log = variant & 1;
    s.results = rows * length;
    s.x_bytes = s.results * dtype_size(dtype);
    s.y_bytes = s.results * dtype_size(out);
    if (variant & 2) {
        s.lens_bytes = rows * sizeof *s.lens;
        s.lens = malloc(s.lens_bytes);
        need(s.lens != NULL, "no memory");
        for (uint64_t i = 0; i < rows; i++)
            s.lens[i] = (int32_t)(i % 3 == 0 ? length : i % 3 == 1 ? length * i / (rows + 1) : 0);
        p->lens = &some;
    }
    check_sample(&s, dtype, seed);
    sample_free(&s);
}

static void check_all(void)
{
    static const uint64_t lengths[] = {1,     2,     7,     31,     32,     64,     127,   128,
                                       129,   255,   511,   512,    513,    1000,   1024,  1025,
                                       2047,  4096,  4100,  8191,   8192,   9999,   16384, 16385,
                                       32769, 65536, 99999, 131072, 131073, 262145, 300001};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    for (uint32_t i = 0; i < LENGTHS; i++) {
        const uint64_t n = lengths[i], rows = n > 4096 ? 5 : n > 256 ? 67 : 300;
        if (check.quick && i % 4 != 0)
            continue;
        for (int d = 0; d < GEMMD_DTYPE_COUNT; d++)
            for (int o = 0; o < GEMMD_DTYPE_COUNT; o++) {
                const enum gemmd_dtype dtype = (enum gemmd_dtype)d, out = (enum gemmd_dtype)o;
                const uint64_t seed = ((uint64_t)d << 8 | (uint64_t)o) + n;
                for (int op = 0; op < REDUCE_OP_COUNT; op++) {
                    const struct array_shape last = {2, {rows, n}}, first = {2, {n, rows}},
                                             middle = {3, {3, n, 37}};
                    check_reduce((enum reduce_op)op, dtype, out, &last, 1, 0, EDGE_NONE, seed);
                    check_reduce((enum reduce_op)op, dtype, out, &first, 0, 0, EDGE_NONE, seed + 1);
                    if (n <= 8192)
                        check_reduce((enum reduce_op)op, dtype, out, &middle, 1, 0, EDGE_NONE,
                                     seed + 2);
                }
                for (int variant = 0; variant < 4; variant++)
                    check_softmax(dtype, out, rows, n, variant, 8, EDGE_NONE, seed);
            }
        printf("length %llu: %u right, %u wrong so far\n", (unsigned long long)n, check.right,
               check.wrong);
        fflush(stdout);
    }
}

/* Widths around those of a tile of columns and of a thread's loads, in arrays that begin anywhere,
 * with special elements. */
static void check_widths(void)
{
    static const uint64_t lengths[] = {1, 9, 517},
                          widths[] = {1,   2,   3,   5,   31,  32,  61,  63,  64,  65,
                                      123, 124, 125, 127, 128, 129, 249, 251, 257, 1003};
    for (uint32_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (uint32_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int d = 0; d < GEMMD_DTYPE_COUNT && !(check.quick && (i + l) % 4 != 0); d++)
                for (int o = 0; o < REDUCE_OP_COUNT; o++) {
                    const enum reduce_op op = (enum reduce_op)o;
                    const enum gemmd_dtype dtype = (enum gemmd_dtype)d;
                    const enum gemmd_dtype out = reduce_default_out(op, dtype);
                    const uint64_t n = lengths[l], shift = 1 + (i + l) % 4;
                    const struct array_shape first = {2, {n, widths[i]}},
                                             middle = {3, {3, n, widths[i]}},
                                             last = {2, {widths[i], n}};
                    check_reduce(op, dtype, out, &first, 0, shift, EDGE_NONE, i + n);
                    check_reduce(op, dtype, out, &middle, 1, shift, EDGE_NONE, i + n + 1);
                    check_reduce(op, dtype, out, &last, 1, shift, EDGE_NONE, i + n + 2);
                }
    printf("widths: %u right, %u wrong so far\n", check.right, check.wrong);
    fflush(stdout);
}

/* So many long rows that a device computes those of the kernel `clustered` in several turns, and
 * that `shuffle` does not divide them over blocks. */
static void check_many_long_rows(void)
{
    static const uint64_t sizes[][2] = {{600, 16392}, {301, 40963}, {150, 131064}};
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int variant = check.quick ? 3 : 0; variant < 4; variant++)
                check_softmax(dtypes[d], dtypes[d], sizes[i][0], sizes[i][1], variant, 8, EDGE_NONE,
                              i + d);
    for (int d = 0; d < GEMMD_DTYPE_COUNT; d++)
        for (int o = 0; o < REDUCE_OP_COUNT; o++) {
            const enum gemmd_dtype dtype = (enum gemmd_dtype)d;
            const enum reduce_op op = (enum reduce_op)o;
            const struct array_shape rows = {2, {600, 70000 / dtype_size(dtype)}};
            check_reduce(op, dtype, reduce_default_out(op, dtype), &rows, 1, o % 2 == 1, EDGE_NONE,
                         7);
        }
    printf("many long rows: %u right, %u wrong so far\n", check.right, check.wrong);
}

/* Sums, squares and scores that leave the range of f32 or f64 where the results do not, in rows and
 * columns of each shape of threads; results below the least normal number. */
static void check_edges(void)
{
    static const uint64_t lengths[] = {2, 7, 64, 250, 1000, 4100, 16390, 40000, 140000};
    static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_BF16, GEMMD_F64};
    static const enum reduce_op ops[] = {REDUCE_SUM, REDUCE_MEAN, REDUCE_NORM2};
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            const uint64_t n = lengths[i], seed = 100 * i + d;
            const enum gemmd_dtype dtype = dtypes[d];
            const struct array_shape last = {2, {9, n}}, first = {2, {n, 70}};
            if (check.quick && i % 3 != 0)
                continue;
            for (uint32_t o = 0; o < sizeof ops / sizeof *ops; o++)
                for (int e = EDGE_GREAT; e <= EDGE_MIXED; e++) {
                    const enum edge edge = (enum edge)e;
                    if (ops[o] != REDUCE_NORM2 && edge == EDGE_GREAT)
                        continue; /* GPUs add such elements to infinity (PROTOCOL.md) */
                    check_reduce(ops[o], dtype, dtype, &last, 1, (uint64_t)(e % 2), edge, seed);
                    check_reduce(ops[o], dtype, dtype, &first, 0, (uint64_t)(e % 2), edge, seed);
                }
            for (int variant = 0; variant < 4; variant++) {
                check_softmax(dtype, dtype, 9, n, variant, 0.3, EDGE_OFFSET, seed);
                check_softmax(dtype, dtype, 9, n, variant, 1e-29, EDGE_OFFSET, seed);
                check_softmax(dtype, dtype, 9, n, variant, 50, EDGE_NONE, seed);
            }
        }
    printf("edges of the range: %u right, %u wrong so far\n", check.right, check.wrong);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct fault fault = {.detail = ""};
    check.shares = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            check.quick = true;
        else if (strcmp(argv[i], "--kernels") == 0 && i + 1 < argc)
            check.kernel = argv[++i];
        else if (strcmp(argv[i], "--share") != 0 || i + 1 == argc ||
                 !share_parse(argv[++i], &check.share, &check.shares))
            return fprintf(stderr, "usage: %s [--quick] [--kernels NAME] [--share I/N]\n",
                           argv[0]) < 0
                       ? 1
                       : 2;
    }
    if (cudaStreamCreate(&check.stream) != cudaSuccess ||
        gemm_context_create(GEMM_BACKEND_CUDA, check.stream, 0, &check.gpu, &fault) != GEMMD_OK ||
        gemm_context_create(GEMM_BACKEND_CPU, NULL, 0, &check.cpu, &fault) != GEMMD_OK)
        stop(fault.detail[0] != '\0' ? fault.detail : "no GPU");
    check_all();
    check_widths();
    check_many_long_rows();
    check_edges();
    gemm_context_destroy(check.gpu);
    gemm_context_destroy(check.cpu);
    printf("%u passed, %u failed\n", check.right, check.wrong);
    return check.wrong > 0 || check.right == 0 ? 1 : 0;
}
