/*
 * cpu_onednn: times of oneDNN's primitives, for tests/bench/cpu.py, which compiles this file.
 *
 * Reads a line "LEAST_MS CASE ..." each, and answers with a line: milliseconds a call, or -1 if
 * oneDNN 2 has no such primitive. Repeats a case until LEAST_MS have passed; a case that was asked
 * before is kept. Cases:
 *
 *   matmul DTYPE M N K
 *   conv BATCH CHANNELS SIDE FILTERS TAPS STRIDE PAD GROUPS NHWC
 *   softmax ROWS LENGTH
 *   reduce sum|mean|max AXIS ROWS LENGTH
 *
 * With OMP_NUM_THREADS=1 times are CPU times of the thread, otherwise of the clock. A convolution
 * is tried with plain layouts of X and Y, and with those that oneDNN prefers, conversions included;
 * the faster one counts. Weights are laid out beforehand.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 3, ARGUMENTS = 3 };

struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count;
};

/* A computation of up to three primitives: two conversions around the main one. */
struct plan {
    struct step steps[STEPS];
    int count;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static clockid_t timer = CLOCK_MONOTONIC;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(timer, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Memory of a layout, with small random values in each byte but the last of each element, so that
 * floats are neither subnormal nor huge. */
static dnnl_memory_t memory_of(const dnnl_memory_desc_t *layout)
{
    dnnl_memory_t memory;
    void *data;
    const size_t bytes = dnnl_memory_desc_get_size(layout);
    if (dnnl_memory_create(&memory, layout, engine, DNNL_MEMORY_ALLOCATE) != dnnl_success ||
        dnnl_memory_get_data_handle(memory, &data) != dnnl_success)
        exit(1);
    if (layout->data_type == dnnl_f32)
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)data)[i] = (float)(rand() % 2001 - 1000) * 1e-3f;
    else if (layout->data_type == dnnl_bf16 || layout->data_type == dnnl_f16)
        for (size_t i = 0; i < bytes / 2; i++)
            ((unsigned short *)data)[i] = (unsigned short)(0x3c00 + rand() % 256);
    else
        for (size_t i = 0; i < bytes; i++)
            ((char *)data)[i] = (char)(rand() % 200 - 100);
    return memory;
}

static void add_step(struct plan *plan, dnnl_primitive_desc_t description, int count,
                     const dnnl_exec_arg_t arguments[])
{
    struct step *step = &plan->steps[plan->count++];
    if (dnnl_primitive_create(&step->primitive, description) != dnnl_success)
        exit(1);
    memcpy(step->arguments, arguments, (size_t)count * sizeof *arguments);
    step->count = count;
}

static void add_reorder(struct plan *plan, dnnl_memory_t from,
                        const dnnl_memory_desc_t *from_layout, dnnl_memory_t to,
                        const dnnl_memory_desc_t *to_layout)
{
    dnnl_primitive_desc_t description;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (dnnl_reorder_primitive_desc_create(&description, from_layout, engine, to_layout, engine,
                                           NULL) != dnnl_success)
        exit(1);
    add_step(plan, description, 2, arguments);
}

static bool describe(const void *op, dnnl_primitive_desc_t *description)
{
    return dnnl_primitive_desc_create(description, op, NULL, engine, NULL) == dnnl_success;
}

static bool plan_matmul(const char *text, struct plan *plan)
{
    char name[8];
    long m, n, k;
    if (sscanf(text, "%7s %ld %ld %ld", name, &m, &n, &k) != 4)
        return false;
    const dnnl_data_type_t type = strcmp(name, "f32") == 0    ? dnnl_f32
                                  : strcmp(name, "bf16") == 0 ? dnnl_bf16
                                  : strcmp(name, "f16") == 0  ? dnnl_f16
                                                              : dnnl_s8;
    const dnnl_dims_t a = {m, k}, b = {k, n}, c = {m, n};
    dnnl_memory_desc_t al, bl, cl;
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t description;
    dnnl_memory_desc_init_by_tag(&al, 2, a, type, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&bl, 2, b, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&cl, 2, c, type == dnnl_s8 ? dnnl_s32 : type, dnnl_ab);
    if (dnnl_matmul_desc_init(&op, &al, &bl, NULL, &cl) != dnnl_success ||
        !describe(&op, &description))
        return false;
    const dnnl_memory_desc_t *weights =
        dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(&al)},
                                         {DNNL_ARG_WEIGHTS, memory_of(weights)},
                                         {DNNL_ARG_DST, memory_of(&cl)}};
    add_step(plan, description, 3, arguments);
    return true;
}

/* `converted`: oneDNN chooses the layouts of X and Y. */
static bool plan_conv(const char *text, bool converted, struct plan *plan)
{
    long batch, channels, side, filters, taps, step, pad, groups, nhwc;
    if (sscanf(text, "%ld %ld %ld %ld %ld %ld %ld %ld %ld", &batch, &channels, &side, &filters,
               &taps, &step, &pad, &groups, &nhwc) != 9)
        return false;
    const long out = (side + 2 * pad - taps) / step + 1;
    const dnnl_dims_t x = {batch, channels, side, side}, y = {batch, filters, out, out};
    const dnnl_dims_t plain_w = {filters, channels, taps, taps};
    const dnnl_dims_t group_w = {groups, filters / groups, channels / groups, taps, taps};
    const dnnl_dims_t strides = {step, step}, pads = {pad, pad};
    const dnnl_format_tag_t tag = nhwc != 0 ? dnnl_nhwc : dnnl_nchw;
    dnnl_memory_desc_t xl, wl, yl, plain_x, plain_y;
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t description;
    dnnl_memory_desc_init_by_tag(&plain_x, 4, x, dnnl_f32, tag);
    dnnl_memory_desc_init_by_tag(&plain_y, 4, y, dnnl_f32, tag);
    dnnl_memory_desc_init_by_tag(&xl, 4, x, dnnl_f32, converted ? dnnl_format_tag_any : tag);
    dnnl_memory_desc_init_by_tag(&yl, 4, y, dnnl_f32, converted ? dnnl_format_tag_any : tag);
    dnnl_memory_desc_init_by_tag(&wl, groups > 1 ? 5 : 4, groups > 1 ? group_w : plain_w, dnnl_f32,
                                 dnnl_format_tag_any);
    if (dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
                                           &xl, &wl, NULL, &yl, strides, pads,
                                           pads) != dnnl_success ||
        !describe(&op, &description))
        return false;
    xl = *dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0);
    yl = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    const dnnl_memory_t from = memory_of(&plain_x), to = memory_of(&plain_y);
    const bool moves_x = !dnnl_memory_desc_equal(&xl, &plain_x);
    const bool moves_y = !dnnl_memory_desc_equal(&yl, &plain_y);
    const dnnl_memory_t in = moves_x ? memory_of(&xl) : from,
                        result = moves_y ? memory_of(&yl) : to;
    if (moves_x)
        add_reorder(plan, from, &plain_x, in, &xl);
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, in},
        {DNNL_ARG_WEIGHTS,
         memory_of(dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0))},
        {DNNL_ARG_DST, result}};
    add_step(plan, description, 3, arguments);
    if (moves_y)
        add_reorder(plan, result, &yl, to, &plain_y);
    return true;
}

static bool plan_softmax(const char *text, struct plan *plan)
{
    dnnl_dims_t sizes = {0};
    dnnl_memory_desc_t layout;
    dnnl_softmax_v2_desc_t op;
    dnnl_primitive_desc_t description;
    if (sscanf(text, "%ld %ld", &sizes[0], &sizes[1]) != 2)
        return false;
    dnnl_memory_desc_init_by_tag(&layout, 2, sizes, dnnl_f32, dnnl_ab);
    if (dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_inference, dnnl_softmax_accurate,
                                          &layout, &layout, 1) != dnnl_success ||
        !describe(&op, &description))
        return false;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(&layout)},
                                         {DNNL_ARG_DST, memory_of(&layout)}};
    add_step(plan, description, 2, arguments);
    return true;
}

static bool plan_reduce(const char *text, struct plan *plan)
{
    char name[8];
    int axis;
    dnnl_dims_t sizes = {0}, results = {0};
    dnnl_memory_desc_t x, y;
    dnnl_reduction_desc_t op;
    dnnl_primitive_desc_t description;
    if (sscanf(text, "%7s %d %ld %ld", name, &axis, &sizes[0], &sizes[1]) != 4)
        return false;
    results[0] = axis == 0 ? 1 : sizes[0];
    results[1] = axis == 0 ? sizes[1] : 1;
    dnnl_memory_desc_init_by_tag(&x, 2, sizes, dnnl_f32, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&y, 2, results, dnnl_f32, dnnl_ab);
    const dnnl_alg_kind_t kind = strcmp(name, "sum") == 0    ? dnnl_reduction_sum
                                 : strcmp(name, "mean") == 0 ? dnnl_reduction_mean
                                                             : dnnl_reduction_max;
    if (dnnl_reduction_desc_init(&op, kind, &x, &y, 0, 0) != dnnl_success ||
        !describe(&op, &description))
        return false;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(&x)},
                                         {DNNL_ARG_DST, memory_of(&y)}};
    add_step(plan, description, 2, arguments);
    return true;
}

static double plan_time(const struct plan *plan, double least_ms)
{
    long count = 0;
    const double start = now_ms();
    do {
        for (int i = 0; i < plan->count; i++)
            dnnl_primitive_execute(plan->steps[i].primitive, stream, plan->steps[i].count,
                                   plan->steps[i].arguments);
        dnnl_stream_wait(stream);
        count++;
    } while (now_ms() - start < least_ms);
    return (now_ms() - start) / (double)count;
}

/* The plans of a case; those of convolutions are two. Memory of the case before is not given back:
 * the program ends with its benchmark. */
static int make_plans(const char *text, struct plan plans[2])
{
    memset(plans, 0, 2 * sizeof *plans);
    if (strncmp(text, "matmul ", 7) == 0)
        return plan_matmul(text + 7, plans);
    if (strncmp(text, "softmax ", 8) == 0)
        return plan_softmax(text + 8, plans);
    if (strncmp(text, "reduce ", 7) == 0)
        return plan_reduce(text + 7, plans);
    if (strncmp(text, "conv ", 5) == 0 && plan_conv(text + 5, false, &plans[0]))
        return plan_conv(text + 5, true, &plans[1]) ? 2 : 1;
    return 0;
}

int main(int argc, char **argv)
{
    char line[256], before[256] = "";
    struct plan plans[2];
    int count = 0;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        const dnnl_version_t *version = dnnl_version();
        printf("%d.%d.%d\n", version->major, version->minor, version->patch);
        return 0;
    }
    const char *threads = getenv("OMP_NUM_THREADS");
    if (threads != NULL && strcmp(threads, "1") == 0)
        timer = CLOCK_THREAD_CPUTIME_ID;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        return 1;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *text = strchr(line, ' ');
        const double least_ms = atof(line);
        if (text == NULL)
            return 1;
        if (strcmp(text + 1, before) != 0) {
            strcpy(before, text + 1);
            count = make_plans(before, plans);
        }
        double best = -1;
        for (int i = 0; i < count; i++) {
            const double time = plan_time(&plans[i], least_ms);
            best = best < 0 || time < best ? time : best;
        }
        printf("%.9g\n", best);
        fflush(stdout);
    }
    return 0;
}
