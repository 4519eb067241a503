/* Pools of random products that are computed by themselves and in random shared
 * launches. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/gpu/group_check.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { POOL = 400, COMPANIES = 8, SHOWN = 10 };
static const uint64_t SPAN_BYTES = UINT64_C(512) << 20;

enum where { HOST, DEVICE, WHERE_COUNT };
static const char *const where_names[] = {"host", "device"};

/* A product whose operands were put into both memories. */
struct placed {
    struct product product;
    struct gemm_problem problems[WHERE_COUNT];
    unsigned char *c[WHERE_COUNT]; /* with what surrounds it */
    unsigned char *alone;          /* the same as it was when computed alone */
};

struct pool {
    struct group_bench *bench;
    struct placed placed[POOL];
    uint32_t count;
    unsigned char *spans[WHERE_COUNT];
    uint64_t used;
    uint64_t seed, passed, failed;
};

static void fail(struct pool *pool, const struct gemm_problem *problem, const char *what)
{
    char text[256];
    product_describe(problem, text, sizeof text);
    if (pool->failed++ < SHOWN)
        printf("FAILED: %s: %s\n", text, what);
}

/* Mostly small, with the neighbours of what a tile, a warp's part and a slab are. */
static uint64_t draw_side(uint64_t *seed)
{
    static const uint64_t sides[] = {1,  2,  3,  5,  8,  15, 16, 17, 24,  31,  32,  33,
                                     40, 48, 63, 64, 65, 72, 96, 97, 127, 128, 129, 200};
    return sides[random_next(seed) % (sizeof sides / sizeof sides[0])];
}

static bool draw(struct pool *pool, const struct case_types *types, uint32_t option,
                 struct placed *placed)
{
    struct gemm_problem like = {.dtype = types->dtype, .out = types->out};
    uint64_t *seed = &pool->seed;
    if (!case_set_options(&like, option))
        return false;
    like.m = draw_side(seed);
    like.n = draw_side(seed);
    like.k = random_next(seed) % 16 == 0 ? 700 : draw_side(seed);
    if (like.dtype == GEMMD_F32 && random_next(seed) % 2 == 0)
        like.precision = GEMM_PRECISION_TF32;
    const uint64_t kind = random_next(seed) % 8, gap = random_next(seed) % 4;
    const enum product_fill fill = kind == 0   ? PRODUCT_SPECIAL
                                   : kind == 1 ? PRODUCT_EXTREME
                                               : PRODUCT_UNIFORM;
    if (!product_create(&placed->product, &like,
                        gap == 3   ? 5
                        : gap == 2 ? 1
                                   : 0,
                        fill, random_next(seed))) {
        fail(pool, &like, "no memory");
        return false;
    }
    return true;
}

/* At any address that suits an element. */
static bool place(struct pool *pool, struct placed *placed)
{
    const struct gemm_problem *p = &placed->product.problem;
    for (unsigned where = 0; where < WHERE_COUNT; where++)
        placed->problems[where] = *p;
    for (unsigned part = 0; part < PRODUCT_PARTS; part++) {
        const struct product_buffer *buffer = &placed->product.buffers[part];
        if (buffer->data == NULL)
            continue;
        const uint64_t size =
            dtype_size(part == PRODUCT_A || part == PRODUCT_B ? p->dtype : p->out);
        const uint64_t at = pool->used + random_next(&pool->seed) % 32 * size;
        pool->used = (at + buffer->bytes + 255) / 256 * 256;
        if (pool->used > SPAN_BYTES) {
            fail(pool, p, "the pool is full");
            return false;
        }
        for (unsigned where = 0; where < WHERE_COUNT; where++) {
            struct gemm_problem *q = &placed->problems[where];
            unsigned char *to = pool->spans[where] + at;
            const void **operands[] = {&q->a, &q->b, &q->bias, &q->c0};
            if (!group_copy(to, buffer->data, buffer->bytes))
                return false;
            if (part == PRODUCT_C) {
                q->c = to + buffer->offset;
                placed->c[where] = to;
            } else {
                *operands[part] = to + buffer->offset;
            }
        }
    }
    placed->alone = malloc(placed->product.buffers[PRODUCT_C].bytes);
    return placed->alone != NULL;
}

/* Poisons C, runs, and leaves C and what surrounds it in the products' own buffers. */
static bool run(struct pool *pool, struct placed *const members[], uint32_t count, enum where where)
{
    struct operation_member list[POOL];
    struct group_bench *bench = pool->bench;
    for (uint32_t i = 0; i < count; i++) {
        struct product_buffer *c = &members[i]->product.buffers[PRODUCT_C];
        list[i] = (struct operation_member){&members[i]->problems[where], NULL};
        product_poison(&members[i]->product);
        if (where == HOST)
            memcpy(members[i]->c[where], c->data, c->bytes);
        else if (!group_succeeded(cudaMemcpyAsync(members[i]->c[where], c->data, c->bytes,
                                                  cudaMemcpyDefault, bench->stream),
                                  "cudaMemcpy"))
            return false;
    }
    const enum gemmd_error code =
        count == 1 ? operation_run(bench->kernel, bench->context, list[0].problem, NULL)
                   : bench->kernel->run_group(bench->context, list, count);
    if (code != GEMMD_OK) {
        printf("the launch of %" PRIu32 " products failed: %s (%s)\n", count, error_name(code),
               cudaGetErrorName(cudaGetLastError()));
        return false;
    }
    if (!group_succeeded(cudaStreamSynchronize(bench->stream), "the kernel"))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct product_buffer *c = &members[i]->product.buffers[PRODUCT_C];
        if (!group_copy(c->data, members[i]->c[where], c->bytes))
            return false;
    }
    return true;
}

static bool check_alone(struct pool *pool, struct placed *placed)
{
    const struct product *product = &placed->product;
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    char text[256];
    if (!run(pool, &placed, 1, HOST))
        return false;
    memcpy(placed->alone, c->data, c->bytes);
    if (product_check(product, product_sum_error(product->problem.dtype, product->problem.k), NULL,
                      text, sizeof text))
        pool->passed++;
    else
        fail(pool, &product->problem, text);
    return true;
}

static bool check_shared_launch(struct pool *pool, uint32_t count, enum where where)
{
    struct placed *members[POOL];
    char text[96];
    /* Without repetition: a product has one C. */
    const uint32_t first = (uint32_t)(random_next(&pool->seed) % pool->count);
    uint32_t step = (uint32_t)(random_next(&pool->seed) % pool->count) | 1;
    while (pool->count % step == 0 && step > 1)
        step += 2;
    uint32_t at = first, taken = 0;
    do {
        members[taken++] = &pool->placed[at];
        at = (at + step) % pool->count;
    } while (taken < count && at != first);
    if (!run(pool, members, taken, where))
        return false;
    for (uint32_t i = 0; i < taken; i++) {
        const struct product_buffer *c = &members[i]->product.buffers[PRODUCT_C];
        if (memcmp(c->data, members[i]->alone, c->bytes) == 0) {
            pool->passed++;
            continue;
        }
        snprintf(text, sizeof text, "other bytes in a launch of %" PRIu32 " from %s memory", taken,
                 where_names[where]);
        fail(pool, &members[i]->product.problem, text);
    }
    return true;
}

static bool check_pool(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++)
        if (!place(pool, &pool->placed[i]) || !check_alone(pool, &pool->placed[i]))
            return false;
    for (uint32_t i = 0; i < COMPANIES && pool->count > 1; i++) {
        const uint32_t limits[] = {2, 40, 41, POOL};
        const uint32_t limit = limits[i % 4] < pool->count ? limits[i % 4] : pool->count;
        const uint32_t count = i < 4 ? limit : 1 + (uint32_t)(random_next(&pool->seed) % limit);
        if (!check_shared_launch(pool, count, i % 2 == 0 ? HOST : DEVICE) ||
            !check_shared_launch(pool, count, i % 2 == 0 ? DEVICE : HOST))
            return false;
    }
    return true;
}

static void clear_pool(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        free(pool->placed[i].alone);
        product_destroy(&pool->placed[i].product);
    }
    memset(pool->placed, 0, sizeof pool->placed);
    pool->count = 0;
    pool->used = 0;
}

static bool open_pool(struct pool *pool)
{
    void *host = NULL, *device = NULL;
    const bool done =
        group_succeeded(cudaHostAlloc(&host, SPAN_BYTES, cudaHostAllocMapped), "cudaHostAlloc") &&
        group_succeeded(cudaMalloc(&device, SPAN_BYTES), "cudaMalloc");
    pool->spans[HOST] = host;
    pool->spans[DEVICE] = device;
    return done;
}

/* Pools of all types, or of f32 alone, whose lists have a kernel of their own. */
static bool check_types(struct pool *pool, bool f32_alone)
{
    /* A stride that is coprime to the number of options mixes all of them, and the types, in each
     * pool. */
    const uint32_t types = case_types_count(), options = case_options_count();
    const uint32_t total = pool->bench->quick ? 300 : types * options, stride = 1009;
    bool going = true;
    for (uint32_t i = pool->bench->share; i < total && going; i += pool->bench->shares) {
        const uint32_t number = (uint32_t)((uint64_t)i * stride % (types * options));
        const struct case_types *drawn = &case_types[number % types];
        if ((!f32_alone || drawn->dtype == GEMMD_F32) &&
            draw(pool, drawn, number / types, &pool->placed[pool->count]))
            pool->count++;
        if (pool->count == POOL || i + pool->bench->shares >= total) {
            going = check_pool(pool);
            clear_pool(pool);
        }
    }
    clear_pool(pool);
    return going;
}

void group_check_bytes(struct group_bench *bench, uint64_t *passed, uint64_t *failed)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        (*failed)++;
        return;
    }
    pool->bench = bench;
    pool->seed = 20261121 + bench->share;
    bool going = open_pool(pool);
    going = going && check_types(pool, false) && check_types(pool, true);
    if (!going)
        pool->failed++;
    *passed += pool->passed;
    *failed += pool->failed;
    printf("alone and in company: %" PRIu64 " right, %" PRIu64 " wrong\n", pool->passed,
           pool->failed);
    (void)cudaFreeHost(pool->spans[HOST]);
    (void)cudaFree(pool->spans[DEVICE]);
    free(pool);
}
