#include "tests/gpu/attention_together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention_grouped.h"
#include "kernels/operations.h"
#include "tests/gpu/device_attention.h"
#include "tests/product/random.h"

enum { BATCH_MAX = 2, DRAWS_MAX = 100, HEADS_MAX = 129 * 4 };

/* A group of random attentions, and the bytes that each attention has by itself. */
struct mix {
    uint32_t count;
    struct attention_sample samples[ATTENTION_GROUP_MAX];
    struct device_attention devices[ATTENTION_GROUP_MAX];
    unsigned char *alone[ATTENTION_GROUP_MAX]; /* O, then lse, each with the bytes around it */
    int32_t lens[ATTENTION_GROUP_MAX][2 * BATCH_MAX];
};

/* The properties that all attentions of a mix have in common, and their largest lengths. */
static const struct {
    uint32_t count;
    uint64_t d, dv, sq_max, skv_max;
    bool causal, windowed, capped;
    uint64_t kv_heads; /* or one more */
} kinds[] = {
    {2, 64, 64, 400, 400, false, false, false, 1},
    {4, 128, 128, 300, 300, true, false, false, 1},
    {40, 64, 64, 60, 60, true, false, false, 1},
    {4, 128, 128, 150, 150, true, true, false, 1},
    {4, 96, 80, 150, 150, false, true, false, 1},
    {4, 192, 192, 150, 150, true, false, true, 1},
    {4, 256, 256, 150, 150, true, false, false, 1},
    {4, 72, 136, 150, 150, false, false, true, 1},
    {300, 64, 64, 20, 20, true, false, false, 1},
    {12, 128, 128, 4, 1500, true, false, false, 1},
    {4, 256, 256, 150, 150, false, false, false, 1},
    {4, 192, 192, 150, 150, false, false, false, 1},
    {3, 128, 128, 200, 400, false, false, false, 1},
    {4, 96, 96, 150, 300, true, false, false, 1},
    {24, 64, 64, 400, 400, true, false, false, 1},
    {24, 64, 64, 400, 400, false, true, false, 1},
    {4, 64, 64, 9, 900, true, false, false, 128},
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    return random_next(seed) % below;
}

/* Draws an attention that the kernel takes. False if DRAWS_MAX attempts found none. */
static bool draw_member(struct mix *mix, uint32_t number, unsigned kind,
                        const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                        uint64_t *seed)
{
    static const uint64_t groups[] = {1, 1, 2, 4};
    static const float scales[] = {0.125f, 0.3f, -2, 0.0625f};
    static const float slopes[HEADS_MAX] = {0.5f, 0.25f, 0.0625f}, sinks[HEADS_MAX] = {1, -2, 3};
    static float present;
    for (int i = 0; i < DRAWS_MAX; i++) {
        const bool few = draw(seed, 3) == 0;
        struct attention_problem p = {.dtype = dtype,
                                      .batch = 1 + draw(seed, BATCH_MAX),
                                      .kv_heads = kinds[kind].kv_heads + draw(seed, 2),
                                      .sq = 1 + draw(seed, few ? 8 : kinds[kind].sq_max),
                                      .skv = 1 + draw(seed, kinds[kind].skv_max),
                                      .d = kinds[kind].d,
                                      .dv = kinds[kind].dv,
                                      .causal = kinds[kind].causal,
                                      .windowed = kinds[kind].windowed,
                                      .window = kinds[kind].windowed ? draw(seed, 100) : 0,
                                      .scale = scales[draw(seed, 4)],
                                      .softcap = kinds[kind].capped ? 1 + (float)number : 0,
                                      .lse = &present};
        const enum attention_layout layout = draw(seed, 2) ? ATTENTION_BSHD : ATTENTION_BHSD;
        const uint64_t gap = draw(seed, 3) * 8;
        p.heads = p.kv_heads * groups[draw(seed, 4)];
        for (uint64_t e = 0; e < p.batch; e++) {
            mix->lens[number][e] = (int32_t)draw(seed, p.sq + 1);
            mix->lens[number][p.batch + e] = (int32_t)draw(seed, p.skv + 1);
        }
        if (draw(seed, 3) == 0) {
            p.lens_q = mix->lens[number];
            p.lens_kv = p.lens_q + p.batch;
        }
        const uint64_t terms = draw(seed, 8); /* mostly none */
        p.slopes = terms == 1 || terms == 2 ? slopes : NULL;
        p.sinks = terms == 2 || terms == 3 ? sinks : NULL;
        p.right_windowed = terms == 4;
        p.window_right = draw(seed, 100);
        p.q_strides = attention_strides(layout, p.heads, p.sq, p.d + gap);
        p.k_strides = attention_strides(layout, p.kv_heads, p.skv, p.d + gap);
        p.v_strides = attention_strides(layout, p.kv_heads, p.skv, p.dv + gap);
        p.o_strides = attention_strides(layout, p.heads, p.sq, p.dv + gap);
        if (!kernel->takes(&p))
            continue;
        return attention_sample_create(&mix->samples[number], &p, layout, gap,
                                       draw(seed, 3) == 0 ? PRODUCT_SPECIAL : PRODUCT_UNIFORM,
                                       random_next(seed));
    }
    return false;
}

static void keep(struct mix *mix, uint32_t i)
{
    const struct product_buffer *o = &mix->samples[i].buffers[ATTENTION_O];
    const struct product_buffer *lse = &mix->samples[i].buffers[ATTENTION_LSE];
    memcpy(mix->alone[i], o->data, o->bytes);
    memcpy(mix->alone[i] + o->bytes, lse->data, lse->bytes);
}

static bool is_kept(const struct mix *mix, uint32_t i)
{
    const struct product_buffer *o = &mix->samples[i].buffers[ATTENTION_O];
    const struct product_buffer *lse = &mix->samples[i].buffers[ATTENTION_LSE];
    return memcmp(mix->alone[i], o->data, o->bytes) == 0 &&
           memcmp(mix->alone[i] + o->bytes, lse->data, lse->bytes) == 0;
}

static void say(struct attention_together *result, const struct mix *mix, uint32_t i,
                const char *why)
{
    char what[256];
    if (result->failed++ > 0)
        return;
    attention_describe(&mix->samples[i].problem, what, sizeof what);
    snprintf(result->first, sizeof result->first, "number %u of %u, %s: %s", i, mix->count, what,
             why);
}

static void destroy(struct mix *mix)
{
    for (uint32_t i = 0; i < mix->count; i++) {
        free(mix->alone[i]);
        if (mix->devices[i].stream != NULL)
            device_attention_destroy(&mix->devices[i]);
        attention_sample_destroy(&mix->samples[i]);
    }
    free(mix);
}

/* Draws the attentions of a mix, and computes each by itself. False if an attention cannot be
 * computed. */
static bool compute_alone(struct mix *mix, unsigned kind, const struct operation_kernel *kernel,
                          enum gemmd_dtype dtype, struct gemm_context *context, void *stream,
                          struct attention_together *result)
{
    uint64_t seed = 100 * kind + (uint64_t)dtype + 1;
    char why[256] = "";
    while (mix->count < kinds[kind].count &&
           draw_member(mix, mix->count, kind, kernel, dtype, &seed)) {
        const uint32_t i = mix->count++;
        const struct attention_sample *sample = &mix->samples[i];
        mix->alone[i] =
            malloc(sample->buffers[ATTENTION_O].bytes + sample->buffers[ATTENTION_LSE].bytes);
        if (mix->alone[i] == NULL ||
            !device_attention_create(&mix->devices[i], sample, false, stream) ||
            !device_attention_run(&mix->devices[i], &mix->samples[i], kernel, context, 1, why,
                                  sizeof why)) {
            say(result, mix, i, why);
            return false;
        }
        keep(mix, i);
    }
    return true;
}

static bool check_kind(unsigned kind, const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                       struct gemm_context *context, void *stream,
                       struct attention_together *result)
{
    char why[256] = "";
    struct mix *mix = calloc(1, sizeof *mix);
    if (mix == NULL)
        return false;
    bool done = compute_alone(mix, kind, kernel, dtype, context, stream, result);
    if (done && mix->count > 0) {
        done = device_attention_run_group(mix->devices, mix->samples, mix->count, kernel, context,
                                          why, sizeof why);
        if (!done)
            say(result, mix, 0, why);
    }
    for (uint32_t i = 0; i < mix->count && done; i++) {
        if (is_kept(mix, i))
            result->passed++;
        else
            say(result, mix, i, "other bytes than alone");
    }
    destroy(mix);
    return done;
}

bool attention_shared_launch_check(const struct operation_kernel *kernel, enum gemmd_dtype dtype,
                                   struct gemm_context *context, void *stream, bool quick,
                                   struct attention_together *result)
{
    *result = (struct attention_together){.passed = 0};
    if (kernel->run_group == NULL)
        return true;
    for (unsigned kind = 0; kind < (quick ? 3 : sizeof kinds / sizeof *kinds); kind++)
        if (!check_kind(kind, kernel, dtype, context, stream, result))
            return false;
    return true;
}
