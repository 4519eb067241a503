/*
 * gemmd-bench-cpu: times of the CPU backend's kernels, for tests/bench/cpu.py.
 *
 * Usage: gemmd-bench-cpu [THREADS [KERNEL]]
 *
 * Reads a line "LEAST_MS CASE ..." each, and answers with a line: milliseconds a call of the kernel
 * that `auto`, or KERNEL, chooses; -1 if there is none. Repeats a case until LEAST_MS have passed;
 * a case that was asked before keeps its operands, which are random. Cases:
 *
 *   matmul DTYPE M N K
 *   conv BATCH CHANNELS SIDE FILTERS TAPS STRIDE PAD GROUPS NHWC
 *   attention HEADS QUERIES KEYS SIZE
 *   softmax ROWS LENGTH
 *   reduce OP AXIS ROWS LENGTH
 *
 * With one thread, times are CPU times of the thread, otherwise of the clock.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/openblas_core.h"
#include "kernels/operations.h"
#include "proto/dtype.h"

enum { ALIGNMENT = 64, WORD = 16 };

struct bench_case {
    struct task task;
    void *memory[OPERATION_PARTS_MAX], *workspace;
};

static clockid_t timer;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(timer, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static bool read_matmul(const char *text, struct gemm_problem *p)
{
    char dtype[WORD];
    *p = (struct gemm_problem){.batch = 1, .alpha = 1};
    if (sscanf(text, "%15s %lu %lu %lu", dtype, &p->m, &p->n, &p->k) != 4 ||
        !dtype_from_name(dtype, &p->dtype))
        return false;
    p->out = p->dtype == GEMMD_I8 ? GEMMD_I32 : p->dtype;
    gemm_problem_contiguous(p);
    return true;
}

static bool read_conv(const char *text, struct conv_problem *p)
{
    struct conv_shape s = {.dilation_h = 1, .dilation_w = 1};
    unsigned nhwc;
    if (sscanf(text, "%lu %lu %lu %lu %lu %lu %lu %lu %u", &s.batch, &s.channels, &s.height,
               &s.filters, &s.r, &s.stride_h, &s.pad_top, &s.groups, &nhwc) != 9)
        return false;
    s.width = s.height;
    s.s = s.r;
    s.stride_w = s.stride_h;
    s.pad_bottom = s.pad_left = s.pad_right = s.pad_top;
    s.layout = nhwc != 0 ? CONV_NHWC : CONV_NCHW;
    s.w_layout = nhwc != 0 ? CONV_KRSC : CONV_KCRS;
    if (conv_shape_settle(&s, NULL) != GEMMD_OK)
        return false;
    *p = (struct conv_problem){.dtype = GEMMD_F32, .out = GEMMD_F32, .shape = s, .alpha = 1};
    return true;
}

static bool read_attention(const char *text, struct attention_problem *p)
{
    *p = (struct attention_problem){.dtype = GEMMD_F32, .batch = 1};
    if (sscanf(text, "%lu %lu %lu %lu", &p->heads, &p->sq, &p->skv, &p->d) != 4)
        return false;
    p->kv_heads = p->heads;
    p->dv = p->d;
    p->scale = 1 / sqrtf((float)p->d);
    p->q_strides = p->o_strides = attention_strides(ATTENTION_BHSD, p->heads, p->sq, p->d);
    p->k_strides = p->v_strides = attention_strides(ATTENTION_BHSD, p->heads, p->skv, p->d);
    return true;
}

static bool read_softmax(const char *text, struct softmax_problem *p)
{
    struct array_shape shape = {.rank = 2};
    if (sscanf(text, "%lu %lu", &shape.dims[0], &shape.dims[1]) != 2)
        return false;
    softmax_problem_of(p, &shape, 0);
    p->dtype = p->out = GEMMD_F32;
    return true;
}

static bool read_reduce(const char *text, struct reduce_problem *p)
{
    struct array_shape shape = {.rank = 2};
    char op[WORD];
    unsigned axis;
    int number = 0;
    if (sscanf(text, "%15s %u %lu %lu", op, &axis, &shape.dims[0], &shape.dims[1]) != 4)
        return false;
    while (number < REDUCE_OP_COUNT && strcmp(reduce_op_name((enum reduce_op)number), op) != 0)
        number++;
    if (number == REDUCE_OP_COUNT)
        return false;
    reduce_problem_of(p, &shape, axis, shape.dims[1]);
    p->op = (enum reduce_op)number;
    p->dtype = GEMMD_F32;
    p->out = reduce_default_out(p->op, p->dtype);
    return true;
}

static bool case_read(const char *line, struct bench_case *c)
{
    union operation_problem *p = &c->task.problem;
    char name[WORD];
    int length = 0;
    if (sscanf(line, "%15s %n", name, &length) != 1)
        return false;
    const char *text = line + length;
    if (strcmp(name, "matmul") == 0) {
        c->task.operation = &operation_gemm;
        return read_matmul(text, &p->gemm);
    }
    if (strcmp(name, "conv") == 0) {
        c->task.operation = &operation_conv2d;
        return read_conv(text, &p->conv2d);
    }
    if (strcmp(name, "attention") == 0) {
        c->task.operation = &operation_attention;
        return read_attention(text, &p->attention);
    }
    if (strcmp(name, "softmax") == 0) {
        c->task.operation = &operation_softmax;
        return read_softmax(text, &p->softmax);
    }
    c->task.operation = &operation_reduce;
    return strcmp(name, "reduce") == 0 && read_reduce(text, &p->reduce);
}

static void *allocate(uint64_t bytes)
{
    void *memory = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (memory == NULL) {
        fprintf(stderr, "gemmd-bench-cpu: no memory\n");
        exit(1);
    }
    return memory;
}

/* Random numbers in [-1, 1], or integers from -100 to 100. */
static void fill(enum gemmd_dtype dtype, void *memory, uint64_t bytes)
{
    static uint64_t seed = 1;
    for (uint64_t i = 0; i < bytes / dtype_size(dtype); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint32_t random = (uint32_t)(seed >> 33);
        const float value = (float)random * 0x1p-30f - 1;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == GEMMD_F32)
            ((float *)memory)[i] = value;
        else if (dtype == GEMMD_F64)
            ((double *)memory)[i] = (double)value;
        else if (dtype == GEMMD_I8)
            ((int8_t *)memory)[i] = (int8_t)(random % 201 - 100);
        else if (dtype == GEMMD_BF16)
            ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
        else /* f16: of magnitudes from 0.25 to 1 */
            ((uint16_t *)memory)[i] = (uint16_t)((random & 0x8000) | (0x3400 + random % 0x800));
    }
}

static bool case_open(const char *line, const char *kernel, struct bench_case *c)
{
    static const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation *operation;
    struct operation_part parts[OPERATION_PARTS_MAX] = {{0}};
    uint64_t bytes;
    *c = (struct bench_case){0};
    if (!case_read(line, c))
        return false;
    operation = c->task.operation;
    if (operation_select(operation, &cpu, kernel, &c->task.problem, &c->task.kernel, NULL) !=
            GEMMD_OK ||
        !operation_parts(operation, &c->task.problem, parts) ||
        !c->task.kernel->workspace_bytes(&c->task.problem, &bytes))
        return false;
    c->workspace = allocate(bytes);
    for (uint32_t i = 0; i < operation->operands + operation->results; i++) {
        if (parts[i].bytes == 0)
            continue;
        c->memory[i] = allocate(parts[i].bytes);
        if (i < operation->operands)
            fill(operation->dtype(&c->task.problem), c->memory[i], parts[i].bytes);
        operation_point(operation, &c->task.problem, i, c->memory[i]);
    }
    return true;
}

static void case_close(struct bench_case *c)
{
    for (uint32_t i = 0; i < OPERATION_PARTS_MAX; i++)
        free(c->memory[i]);
    free(c->workspace);
    *c = (struct bench_case){0};
}

static double case_time(struct gemm_context *context, const struct bench_case *c, double least_ms)
{
    uint64_t count = 0;
    const double start = now_ms();
    double elapsed;
    do {
        if (operation_run(c->task.kernel, context, &c->task.problem, c->workspace) != GEMMD_OK)
            return -1;
        count++;
        elapsed = now_ms() - start;
    } while (elapsed < least_ms);
    return elapsed / (double)count;
}

int main(int argc, char **argv)
{
    struct gemm_context *context;
    struct fault fault;
    struct bench_case now = {0};
    char line[256], before[256] = "";
    bool is_open = false;
    openblas_core_set(argv);
    const uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    timer = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    if (gemm_context_create(GEMM_BACKEND_CPU, NULL, threads, &context, &fault) != GEMMD_OK) {
        fprintf(stderr, "gemmd-bench-cpu: %s\n", fault.detail);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        const char *text = strchr(line, ' ');
        if (text == NULL)
            return 1;
        if (strcmp(text, before) != 0) {
            case_close(&now);
            memcpy(before, text, strlen(text) + 1);
            is_open = case_open(text + 1, argc > 2 ? argv[2] : "auto", &now);
        }
        printf("%.9g\n", is_open ? case_time(context, &now, atof(line)) : -1);
        fflush(stdout);
    }
    case_close(&now);
    gemm_context_destroy(context);
    return 0;
}
