#include "tests/gpu/attention_together.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/device_attention.h"
#include "tests/product/random.h"

enum { ENTRIES = 8, GUARD = 256, OPERAND_POISON = 0xff, RESULT_POISON = 0x7b };

static const uint64_t entry_q[ENTRIES] = {5, 0, 97, 1, 0, 192, 33, 130};
static const uint64_t entry_kv[ENTRIES] = {9, 4, 60, 0, 0, 300, 33, 257};

static const struct {
    uint64_t heads, kv_heads, d, dv;
    bool causal, windowed, right_windowed, has_offset, slopes, sinks;
    float softcap;
} kinds[] = {
    {1, 1, 64, 64, .softcap = 0},
    {4, 2, 128, 128, .causal = true},
    {4, 4, 64, 64, .causal = true, .windowed = true, .slopes = true},
    {6, 2, 40, 24, .sinks = true},
    {4, 1, 128, 96, .causal = true, .sinks = true, .slopes = true},
    {2, 2, 256, 256, .right_windowed = true, .sinks = true},
    {8, 8, 33, 65, .windowed = true, .right_windowed = true, .slopes = true},
    {2, 1, 192, 128, .causal = true, .has_offset = true},
    {4, 2, 64, 64, .softcap = 2, .causal = true, .windowed = true, .sinks = true},
};

/* A ragged attention, and its entries as attentions of their own. */
struct ragged {
    struct attention_sample whole, entries[ENTRIES];
    int32_t lens_q[ENTRIES + 1], lens_kv[ENTRIES + 1];
};

struct place {
    void *memory;
    const struct attention_strides *strides;
    uint64_t row;
};

/* Copies the first `rows` rows of each head. */
static void copy_rows(uint64_t size, uint64_t heads, uint64_t rows, uint64_t width,
                      struct place from, struct place to)
{
    for (uint64_t head = 0; head < heads; head++)
        for (uint64_t i = 0; i < rows; i++)
            memcpy((char *)to.memory +
                       (head * to.strides->head + (to.row + i) * to.strides->row) * size,
                   (char *)from.memory +
                       (head * from.strides->head + (from.row + i) * from.strides->row) * size,
                   width * size);
}

/* Takes memory for a part of the whole, all of it poison. */
static bool allocate(struct attention_sample *whole, int part, uint64_t bytes)
{
    struct product_buffer *buffer = &whole->buffers[part];
    *buffer = (struct product_buffer){.bytes = 2 * GUARD + bytes, .offset = GUARD};
    buffer->data = malloc(buffer->bytes);
    if (buffer->data != NULL)
        memset(buffer->data, part < ATTENTION_O ? OPERAND_POISON : RESULT_POISON, buffer->bytes);
    return buffer->data != NULL;
}

static struct attention_problem problem_of(unsigned kind, enum gemmd_dtype dtype)
{
    static const float slopes[] = {0.5f, 0, 0.0625f, -0.25f, 0.1f, 1, 0.03f, 0.25f};
    static const float sinks[] = {0.5f, -INFINITY, 2, -30, 3.75f, 40, 0, -1};
    return (struct attention_problem){.dtype = dtype,
                                      .batch = 1,
                                      .heads = kinds[kind].heads,
                                      .kv_heads = kinds[kind].kv_heads,
                                      .d = kinds[kind].d,
                                      .dv = kinds[kind].dv,
                                      .causal = kinds[kind].causal,
                                      .windowed = kinds[kind].windowed,
                                      .window = 20,
                                      .right_windowed = kinds[kind].right_windowed,
                                      .window_right = 7,
                                      .has_offset = kinds[kind].has_offset,
                                      .offset = 3,
                                      .slopes = kinds[kind].slopes ? slopes : NULL,
                                      .sinks = kinds[kind].sinks ? sinks : NULL,
                                      .scale = 0.3f,
                                      .softcap = kinds[kind].softcap};
}

/* The whole without its rows. */
static bool create_whole(struct ragged *r, const struct attention_problem *like,
                         enum attention_layout layout, uint64_t gap)
{
    for (int e = 0; e < ENTRIES; e++) {
        r->lens_q[e + 1] = r->lens_q[e] + (int32_t)entry_q[e];
        r->lens_kv[e + 1] = r->lens_kv[e] + (int32_t)entry_kv[e];
    }
    struct attention_sample *whole = &r->whole;
    struct attention_problem *p = &whole->problem;
    *p = *like;
    p->ragged = true;
    p->batch = ENTRIES;
    p->lens_q = r->lens_q;
    p->lens_kv = r->lens_kv;
    p->sq = (uint64_t)r->lens_q[ENTRIES];
    p->skv = (uint64_t)r->lens_kv[ENTRIES];
    p->q_strides = attention_strides(layout, p->heads, p->sq, p->d + gap);
    p->k_strides = attention_strides(layout, p->kv_heads, p->skv, p->d + gap);
    p->v_strides = attention_strides(layout, p->kv_heads, p->skv, p->dv + gap);
    p->o_strides = attention_strides(layout, p->heads, p->sq, p->dv + 2 * gap);
    const uint64_t size = dtype_size(p->dtype);
    if (!allocate(whole, ATTENTION_Q, p->q_strides.batch * size) ||
        !allocate(whole, ATTENTION_K, p->k_strides.batch * size) ||
        !allocate(whole, ATTENTION_V, p->v_strides.batch * size) ||
        !allocate(whole, ATTENTION_O, p->o_strides.batch * size) ||
        !allocate(whole, ATTENTION_LSE, p->heads * p->sq * sizeof *p->lse))
        return false;
    p->q_strides.batch = p->k_strides.batch = p->v_strides.batch = p->o_strides.batch = 0;
    p->q = whole->buffers[ATTENTION_Q].data + GUARD;
    p->k = whole->buffers[ATTENTION_K].data + GUARD;
    p->v = whole->buffers[ATTENTION_V].data + GUARD;
    p->o = whole->buffers[ATTENTION_O].data + GUARD;
    p->lse = (float *)(void *)(whole->buffers[ATTENTION_LSE].data + GUARD);
    return true;
}

/* Draws an entry, and copies its rows to the whole's. */
static bool create_entry(struct ragged *r, int e, const struct attention_problem *like,
                         enum attention_layout layout, enum product_fill fill, uint64_t seed)
{
    static float present;
    const struct attention_problem *whole = &r->whole.problem;
    struct attention_problem its = *like;
    its.sq = entry_q[e];
    its.skv = entry_kv[e];
    its.lse = &present;
    if (its.sq == 0 || its.skv == 0)
        fill = PRODUCT_UNIFORM; /* there is no element to be infinite */
    if (!attention_sample_create(&r->entries[e], &its, layout, 0, fill, seed))
        return false;
    const struct attention_problem *p = &r->entries[e].problem;
    const uint64_t size = dtype_size(p->dtype);
    const uint64_t first_q = (uint64_t)r->lens_q[e], first_kv = (uint64_t)r->lens_kv[e];
    copy_rows(size, p->heads, p->sq, p->d, (struct place){(void *)p->q, &p->q_strides, 0},
              (struct place){(void *)whole->q, &whole->q_strides, first_q});
    copy_rows(size, p->kv_heads, p->skv, p->d, (struct place){(void *)p->k, &p->k_strides, 0},
              (struct place){(void *)whole->k, &whole->k_strides, first_kv});
    copy_rows(size, p->kv_heads, p->skv, p->dv, (struct place){(void *)p->v, &p->v_strides, 0},
              (struct place){(void *)whole->v, &whole->v_strides, first_kv});
    return true;
}

static void destroy(struct ragged *r)
{
    for (int e = 0; e < ENTRIES; e++)
        attention_sample_destroy(&r->entries[e]);
    attention_sample_destroy(&r->whole);
    free(r);
}

/* Runs an entry by itself, compares it with f64, and copies its rows to those of the whole. */
static bool run_entry(struct ragged *r, int e, const struct operation_kernel *kernel,
                      struct gemm_context *context, void *stream, char *why, uint64_t size)
{
    struct attention_sample *sample = &r->entries[e];
    struct device_attention device;
    const struct attention_problem *whole = &r->whole.problem, *p = &sample->problem;
    const uint64_t first = (uint64_t)r->lens_q[e];
    if (p->sq == 0)
        return true;
    snprintf(why, size, "no device memory");
    if (!device_attention_create(&device, sample, false, stream))
        return false;
    const bool right = device_attention_run(&device, sample, kernel, context, 1, why, size) &&
                       attention_sample_check(sample, NULL, why, size);
    device_attention_destroy(&device);
    copy_rows(dtype_size(p->dtype), p->heads, p->sq, p->dv, (struct place){p->o, &p->o_strides, 0},
              (struct place){whole->o, &whole->o_strides, first});
    for (uint64_t head = 0; head < p->heads; head++)
        memcpy(whole->lse + head * whole->sq + first, p->lse + head * p->sq,
               p->sq * sizeof *p->lse);
    return right;
}

static bool is_same(const struct product_buffer *buffer, const unsigned char *expected,
                    const char *name, char *why, uint64_t size)
{
    for (uint64_t i = 0; i < buffer->bytes; i++) {
        if (buffer->data[i] == expected[i])
            continue;
        snprintf(why, size, "byte %ld of %s is not that of the entries by themselves",
                 (long)i - GUARD, name);
        return false;
    }
    return true;
}

/* Runs the whole, after its entries, whose results lie in its O and lse. */
static bool run_whole(struct ragged *r, const struct operation_kernel *kernel,
                      struct gemm_context *context, void *stream, char *why, uint64_t size)
{
    const struct product_buffer *o = &r->whole.buffers[ATTENTION_O];
    const struct product_buffer *lse = &r->whole.buffers[ATTENTION_LSE];
    struct device_attention device;
    unsigned char *expected = malloc(o->bytes + lse->bytes);
    bool right = expected != NULL && device_attention_create(&device, &r->whole, false, stream);
    snprintf(why, size, "no memory");
    if (!right) {
        free(expected);
        return false;
    }
    memcpy(expected, o->data, o->bytes);
    memcpy(expected + o->bytes, lse->data, lse->bytes);
    for (uint32_t launches = 1; launches <= 4 && right; launches += 3)
        right = device_attention_run(&device, &r->whole, kernel, context, launches, why, size) &&
                is_same(o, expected, "O", why, size) &&
                is_same(lse, expected + o->bytes, "lse", why, size);
    right = right && device_attention_run_divided(&device, &r->whole, kernel, context, why, size) &&
            is_same(o, expected, "O, divided,", why, size) &&
            is_same(lse, expected + o->bytes, "lse, divided,", why, size);
    device_attention_destroy(&device);
    free(expected);
    return right;
}

static bool check_kind(unsigned number, const struct operation_kernel *kernel,
                       enum gemmd_dtype dtype, struct gemm_context *context, void *stream,
                       struct attention_together *result)
{
    const unsigned kinds_count = sizeof kinds / sizeof *kinds, kind = number % kinds_count;
    const enum attention_layout layout = number % 2 ? ATTENTION_BSHD : ATTENTION_BHSD;
    const enum product_fill fill = number >= kinds_count ? PRODUCT_SPECIAL : PRODUCT_UNIFORM;
    const struct attention_problem like = problem_of(kind, dtype);
    char why[256] = "", what[192];
    struct ragged *r = calloc(1, sizeof *r);
    bool right = r != NULL && create_whole(r, &like, layout, number % 3);
    for (int e = 0; e < ENTRIES && right; e++)
        right = create_entry(r, e, &like, layout, fill, 100 * number + (uint64_t)e);
    if (!right) {
        printf("no memory\n");
        if (r != NULL)
            destroy(r);
        return false;
    }
    if (kernel->takes(&r->whole.problem)) {
        for (int e = 0; e < ENTRIES && right; e++)
            right = run_entry(r, e, kernel, context, stream, why, sizeof why);
        right = right && run_whole(r, kernel, context, stream, why, sizeof why);
        if (right)
            result->passed++;
        else if (result->failed++ == 0) {
            attention_describe(&r->whole.problem, what, sizeof what);
            snprintf(result->first, sizeof result->first, "%s: %s", what, why);
        }
    }
    destroy(r);
    return true;
}

bool attention_ragged_check(const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                            struct gemm_context *context, void *stream, bool quick,
                            struct attention_together *result)
{
    const unsigned count = sizeof kinds / sizeof *kinds;
    *result = (struct attention_together){.passed = 0};
    for (unsigned number = 0; number < (quick ? 5 : 2 * count); number++)
        if (!check_kind(number, kernel, dtype, context, stream, result))
            return false;
    return true;
}
