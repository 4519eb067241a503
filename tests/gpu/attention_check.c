/*
 * gemmd-gpu-attention-check - every attention kernel on CUDA against f64 on the host.
 *
 * Types x lengths x masks x head sizes x shared heads x lengths of entries x layouts, scores of
 * every size, NaN and infinity, rows that see no key, poisoned outputs, guard zones; the same bytes
 * when run again on another stream, and the same whatever tile the rows are in; then groups of them
 * (kernels/attention_grouped.h), where each has the bytes that it has alone. One line for each
 * kernel and type, as soon as the type is done; exit status 1 if anything is wrong.
 *   --quick    little of everything, for a run under compute-sanitizer
 *   --smoke    each of the kernels' own widths, with and without a mask, and no more
 *   --large    also K and V that stretch over more than 2^31 elements; takes 20 GB of device memory
 *   --group    only the groups
 *   --terms    only slopes, sinks, windows to the right, offsets and ragged entries
 *   --tiles    only the tiles of flash_wgmma, each as a kernel of its own
 *   --kernels TEXT  only those with TEXT in their name
 *   --dtype NAME    only this type
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/tiled.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/gpu/attention_together.h"
#include "tests/gpu/device_attention.h"
#include "tests/gpu/streams.h"
#include "tests/product/attention_sample.h"
#include "tests/product/random.h"

enum { TRIALS_MAX = 64, BATCH_MAX = 4 };
enum { LAUNCHES = 5 }; /* of an attention that is cut */

/* One kernel with one type, and how it has done. */
struct trial {
    const struct operation_kernel *kernel;
    enum gemmd_dtype dtype;
    const struct attention_wgmma_kernel *tile; /* of flash_wgmma, or NULL for any other kernel */
    bool family;                               /* of those whose bits are the same */
    uint64_t passed, failed;
    double worst;    /* largest error / what is allowed */
    char first[768]; /* what failed first */
};

struct check {
    struct test_stream streams[TEST_STREAMS];
    struct trial trials[TRIALS_MAX];
    unsigned count;
    bool quick;
};

/* A problem with its layout. */
struct wanted {
    struct attention_problem problem;
    enum attention_layout layout;
    uint64_t gap;
    enum product_fill fill;
    uint64_t spread; /* elements between rows of K and V on the device, or 0 */
    int32_t lens_q[BATCH_MAX], lens_kv[BATCH_MAX];
};

static enum gemmd_error run_tiled(struct gemm_context *context, enum attention_tiled_rows rows,
                                  const struct attention_problem *problem)
{
    const struct operation_range all = {0, attention_tiled_tiles(rows, problem)};
    return attention_tiled_launch(cuda_context_of(context)->stream, rows, problem, all);
}

static enum gemmd_error run_few(struct gemm_context *context, const void *problem, void *workspace)
{
    (void)workspace;
    return run_tiled(context, ATTENTION_TILED_FEW, problem);
}

static enum gemmd_error run_many(struct gemm_context *context, const void *problem, void *workspace)
{
    (void)workspace;
    return run_tiled(context, ATTENTION_TILED_MANY, problem);
}

/* General problems have few rows. */
static bool takes_many_rows(const void *problem)
{
    return !attention_tiled_is_general(problem) && attention_problem_offered(problem);
}

/* Each tile of the kernel "tiled" as a kernel of its own, whose bits must be the same. */
static const struct operation_kernel tiled_kernels[ATTENTION_TILED_ROWS] = {
    [ATTENTION_TILED_FEW] = {.name = "tiled_32",
                             .takes = attention_problem_offered,
                             .workspace_bytes = operation_no_workspace,
                             .run = run_few},
    [ATTENTION_TILED_MANY] = {.name = "tiled_128",
                              .takes = takes_many_rows,
                              .workspace_bytes = operation_no_workspace,
                              .run = run_many},
};

static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};

static void add_trials(struct check *check, const struct operation_kernel *kernel, bool family)
{
    for (int i = 0; i < 3; i++)
        check->trials[check->count++] =
            (struct trial){.kernel = kernel, .dtype = dtypes[i], .family = family};
}

/* Those with `text` in their name. A kernel that comes in several tiles also tile by tile. */
static void add_all(struct check *check, const struct gemm_device *device, const char *text)
{
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_attention, GEMM_BACKEND_CUDA);
         *k != NULL; k++)
        if (operation_kernel_runs_on(&operation_attention, *k, device) &&
            strstr((*k)->name, text) != NULL)
            add_trials(check, *k, strcmp((*k)->name, "tiled") == 0);
    for (unsigned i = 0; i < ATTENTION_TILED_ROWS; i++)
        if (strstr(tiled_kernels[i].name, text) != NULL)
            add_trials(check, &tiled_kernels[i], true);
}

static void record(struct trial *trial, bool right, const struct attention_problem *problem,
                   const char *why)
{
    char what[256];
    if (right) {
        trial->passed++;
        return;
    }
    if (trial->failed++ == 0) {
        attention_describe(problem, what, sizeof what);
        snprintf(trial->first, sizeof trial->first, "%s: %s", what, why);
    }
}

/* O and lse as they lie in memory. */
struct result {
    unsigned char *bytes;
    uint64_t o_bytes, lse_bytes;
};

static void keep(struct result *result, const struct attention_sample *sample)
{
    memcpy(result->bytes, sample->buffers[ATTENTION_O].data, result->o_bytes);
    memcpy(result->bytes + result->o_bytes, sample->buffers[ATTENTION_LSE].data, result->lse_bytes);
}

static bool is_kept(const struct result *result, const struct attention_sample *sample)
{
    return memcmp(result->bytes, sample->buffers[ATTENTION_O].data, result->o_bytes) == 0 &&
           memcmp(result->bytes + result->o_bytes, sample->buffers[ATTENTION_LSE].data,
                  result->lse_bytes) == 0;
}

/* Runs one of the tiles of flash_wgmma, all of its tiles or some of them. */
static enum gemmd_error run_some_tiles(struct gemm_context *context,
                                       const struct attention_wgmma_kernel *tile,
                                       const struct attention_problem *problem,
                                       const struct operation_range *tiles)
{
    struct cuda_context *cuda = cuda_context_of(context);
    const struct operation_range all = {0, attention_wgmma_tiles(tile, problem)};
    return cuda_error_code((int)attention_wgmma_enqueue(&cuda->sm90, tile, problem,
                                                        tiles != NULL ? *tiles : all,
                                                        cuda->attention_next, cuda->stream));
}

/* The tile whose turn it is: a kernel's functions know the problem only. */
static const struct attention_wgmma_kernel *tile_in_turn;

static enum gemmd_error run_tile(struct gemm_context *context, const void *problem, void *workspace)
{
    (void)workspace;
    return run_some_tiles(context, tile_in_turn, problem, NULL);
}

static uint64_t tiles_of_kernel(struct gemm_context *context, const void *problem)
{
    (void)context;
    return attention_wgmma_tiles(tile_in_turn, problem);
}

static enum gemmd_error run_tiles_of_kernel(struct gemm_context *context, const void *problem,
                                            struct operation_range tiles)
{
    return run_some_tiles(context, tile_in_turn, problem, &tiles);
}

static bool takes_for_tile(const void *problem)
{
    return attention_wgmma_takes(problem);
}

static const struct operation_kernel tile_kernel = {
    .name = "tile",
    .takes = takes_for_tile,
    .workspace_bytes = operation_no_workspace,
    .run = run_tile,
    .tiles = tiles_of_kernel,
    .run_tiles = run_tiles_of_kernel,
    .launch_flops = 5e13,
};

static void add_tiles(struct check *check, const char *text)
{
    static const enum gemmd_dtype types[] = {GEMMD_F16, GEMMD_BF16};
    for (int i = 0; i < 4; i++) {
        const enum gemmd_dtype type = types[i / 2];
        for (const struct attention_wgmma_kernel *tile =
                 i % 2 == 0 ? attention_wgmma_kernels(type) : attention_one_step_kernels(type);
             tile->name != NULL; tile++)
            if (strstr(tile->name, text) != NULL && check->count < TRIALS_MAX)
                check->trials[check->count++] = (struct trial){
                    .kernel = &tile_kernel, .dtype = type, .tile = tile, .family = true};
    }
}

/* Whether a trial takes a problem. */
static bool trial_takes(const struct trial *trial, const struct attention_problem *problem)
{
    return trial->dtype == problem->dtype && trial->kernel->takes(problem) &&
           (trial->tile == NULL || attention_wgmma_kernel_takes(trial->tile, problem));
}

/* Whether two trials that take a problem have to give the same bits. Tiles of flash_wgmma need not
 * if a mask hides values that are not finite and there is more than one tile of keys
 * (flash_wgmma.h). */
static bool same_family(const struct trial *a, const struct trial *b,
                        const struct attention_problem *problem, enum product_fill fill)
{
    if (!a->family || !b->family || (a->tile == NULL) != (b->tile == NULL))
        return false;
    return a->tile == NULL ||
           (attention_wgmma_same_bits(a->tile, b->tile) &&
            (!(fill == PRODUCT_SPECIAL && (problem->causal || problem->windowed)) ||
             problem->skv <= a->tile->tile_n));
}

/* Runs one trial: on the first stream against the host, then on all for the same bytes, the last
 * time in several launches. Then once more, divided as over several devices. */
static bool run_trial(struct check *check, struct trial *trial, struct attention_sample *sample,
                      struct device_attention *device, struct result *first)
{
    char why[512] = "";
    bool right = true;
    tile_in_turn = trial->tile;
    for (unsigned i = 0; i < (check->quick ? 1 : TEST_STREAMS + 1) && right; i++) {
        struct test_stream *stream = &check->streams[i % TEST_STREAMS];
        device->stream = stream->stream;
        right = device_attention_run(device, sample, trial->kernel, stream->context,
                                     i == TEST_STREAMS ? LAUNCHES : 1, why, sizeof why);
        if (right && i == 0) {
            right = attention_sample_check(sample, &trial->worst, why, sizeof why);
            keep(first, sample);
        } else if (right && !is_kept(first, sample)) {
            snprintf(why, sizeof why, "other bytes the next time");
            right = false;
        }
    }
    if (right && !check->quick) {
        device->stream = check->streams[0].stream;
        right = device_attention_run_divided(device, sample, trial->kernel,
                                             check->streams[0].context, why, sizeof why);
        if (right && !is_kept(first, sample)) {
            snprintf(why, sizeof why, "other bytes if it is divided");
            right = false;
        }
    }
    record(trial, right, &sample->problem, why);
    return right;
}

/* All kernels that take it, on one problem. False if nothing more can be run. */
static bool run_trials(struct check *check, struct attention_sample *sample,
                       struct device_attention *device, enum product_fill fill,
                       struct result *first, struct result *family)
{
    /* Trial after trial, each followed by the rest of its family. */
    bool done[TRIALS_MAX] = {false};
    for (unsigned i = 0; i < check->count; i++) {
        bool has_family = false;
        for (unsigned j = i; j < check->count; j++) {
            struct trial *trial = &check->trials[j];
            if (done[j] || !trial_takes(trial, &device->problem) ||
                (j > i &&
                 (!done[i] || !same_family(&check->trials[i], trial, &sample->problem, fill))))
                continue;
            done[j] = true;
            if (!run_trial(check, trial, sample, device, first) || !trial->family)
                continue;
            if (has_family)
                record(trial, is_kept(family, sample), &sample->problem,
                       "other bits than in tiles of other rows");
            else
                keep(family, sample);
            has_family = true;
        }
    }
    return cudaStreamSynchronize(check->streams[0].stream) == cudaSuccess;
}

static bool check_one(struct check *check, const struct wanted *wanted, uint64_t seed)
{
    struct attention_sample sample;
    struct device_attention device;
    struct result first = {NULL}, family = {NULL};
    struct attention_problem like = wanted->problem;
    static float lse;
    const bool with_lse = like.lse != NULL;
    like.lse = &lse;
    if (!attention_sample_create(&sample, &like, wanted->layout, wanted->gap, wanted->fill, seed)) {
        printf("no memory\n");
        return false;
    }
    if (!with_lse)
        sample.problem.lse = NULL;
    first.o_bytes = family.o_bytes = sample.buffers[ATTENTION_O].bytes;
    first.lse_bytes = family.lse_bytes = sample.buffers[ATTENTION_LSE].bytes;
    first.bytes = malloc(first.o_bytes + first.lse_bytes);
    family.bytes = malloc(family.o_bytes + family.lse_bytes);
    bool done = first.bytes != NULL && family.bytes != NULL;
    if (done && device_attention_create(&device, &sample, check->quick, check->streams[0].stream)) {
        done = (wanted->spread == 0 || device_attention_spread(&device, wanted->spread)) &&
               cudaStreamSynchronize(check->streams[0].stream) == cudaSuccess &&
               run_trials(check, &sample, &device, wanted->fill, &first, &family);
        device_attention_destroy(&device);
    } else {
        done = false;
    }
    free(first.bytes);
    free(family.bytes);
    attention_sample_destroy(&sample);
    return done;
}

static const struct {
    uint64_t sq, skv;
} lengths[] = {{1, 1},   {1, 300},   {3, 799},   {799, 3},   {32, 32},   {95, 96},    {97, 128},
               {64, 64}, {113, 203}, {203, 113}, {129, 127}, {128, 256}, {1023, 1024}};
static const struct {
    bool causal, windowed;
    uint64_t window;
} masks[] = {{false, false, 0}, {true, false, 0},  {false, true, 33},
             {true, true, 0},   {true, true, 130}, {false, true, 0}};
static const uint64_t widths[] = {64, 128, 1, 3, 40, 80, 96, 192, 256, 65, 33, 8, 255};
static const uint64_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {6, 2}, {8, 1}};
static const float scales[] = {0.125f, 1.5f, -2, 0.3f, 0};
enum {
    LENGTHS = sizeof lengths / sizeof *lengths,
    MASKS = sizeof masks / sizeof *masks,
    WIDTHS = sizeof widths / sizeof *widths,
    HEADS = sizeof heads / sizeof *heads,
    SCALES = sizeof scales / sizeof *scales,
};

/* Everything but lengths, masks and widths, drawn. */
static void draw_rest(struct wanted *wanted, uint64_t *seed)
{
    static float present;
    struct attention_problem *p = &wanted->problem;
    const uint64_t *shared = heads[random_next(seed) % HEADS];
    p->heads = shared[0];
    p->kv_heads = shared[1];
    p->batch = p->sq > 1000 ? 1 : 1 + random_next(seed) % 3;
    p->scale = scales[random_next(seed) % SCALES];
    p->softcap = random_next(seed) % 5 == 0 ? 1 : 0;
    p->lse = random_next(seed) % 4 == 0 ? NULL : &present;
    wanted->layout = random_next(seed) % 2 ? ATTENTION_BSHD : ATTENTION_BHSD;
    wanted->gap = random_next(seed) % 4 == 0 ? 1 + random_next(seed) % 8 : 0;
    if (random_next(seed) % 3 != 0)
        return;
    for (uint64_t i = 0; i < p->batch; i++) {
        wanted->lens_q[i] = (int32_t)(random_next(seed) % (p->sq + 1));
        wanted->lens_kv[i] = (int32_t)(random_next(seed) % (p->skv + 1));
    }
    p->lens_q = wanted->lens_q;
    p->lens_kv = wanted->lens_kv;
}

static void set_shape(struct wanted *wanted, enum gemmd_dtype dtype, unsigned length, unsigned mask,
                      uint64_t d, uint64_t dv)
{
    *wanted = (struct wanted){.problem = {.dtype = dtype,
                                          .sq = lengths[length].sq,
                                          .skv = lengths[length].skv,
                                          .d = d,
                                          .dv = dv,
                                          .causal = masks[mask].causal,
                                          .windowed = masks[mask].windowed,
                                          .window = masks[mask].window}};
}

/* Every length with every mask, widths in turn. */
static bool check_lengths(struct check *check, enum gemmd_dtype dtype, enum product_fill fill)
{
    uint64_t seed = 1000u * dtype + fill;
    for (unsigned number = 0; number < LENGTHS * MASKS; number++) {
        struct wanted wanted;
        const uint64_t d = widths[number % 5],
                       dv = widths[number % 3 == 0 ? number % 7 : number % 5];
        set_shape(&wanted, dtype, number % LENGTHS, number / LENGTHS, d, dv);
        draw_rest(&wanted, &seed);
        wanted.fill = fill;
        if (fill == PRODUCT_SPECIAL) { /* no weight that vanishes in f32 only */
            wanted.problem.scale = 0.125f;
            if (wanted.problem.sq > 1000)
                continue;
        }
        if (check->quick && number % 19 != 0)
            continue;
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    return true;
}

/* Masks of all sizes and types with the lengths and the other masks, and offsets. */
static bool check_masks(struct check *check, enum gemmd_dtype dtype, enum product_fill fill)
{
    uint64_t seed = 500u * dtype + fill;
    for (unsigned number = 0; number < LENGTHS * MASKS; number++) {
        struct wanted wanted;
        set_shape(&wanted, dtype, number % LENGTHS, number / LENGTHS, widths[number % 5],
                  widths[number % 9]);
        draw_rest(&wanted, &seed);
        wanted.fill = fill;
        wanted.problem.scale = 0.125f;
        wanted.problem.has_offset = number % 4 == 0;
        wanted.problem.offset = random_next(&seed) % (wanted.problem.skv + 20);
        void *mask = NULL;
        if (number % 4 != 0)
            mask = attention_sample_mask(&wanted.problem, number % 2 ? GEMMD_I8 : dtype, number % 8,
                                         random_next(&seed));
        const bool done = (check->quick && number % 19 > 1) || wanted.problem.sq > 1000 ||
                          check_one(check, &wanted, random_next(&seed));
        free(mask);
        if (!done)
            return false;
    }
    return true;
}

/* Slopes (gentle ones if a weight must not vanish in f32 only), sinks, windows to the right and
 * offsets, alone and together, with the lengths, other masks and operands `mask`. Some rows see no
 * key; with `strange`, sinks are not finite, or so large that all weights vanish beside them. */
static bool check_terms(struct check *check, enum gemmd_dtype dtype, enum product_fill fill,
                        bool strange)
{
    static const float slopes[] = {0.5f, 0, 0.0078125f, -0.25f, 0.1f, 1, 0.03f, 0.25f};
    static const float gentle[] = {0.03f, 0, 0.01f, -0.02f, 0.006f, 0.031f, 0.002f, 0.01f};
    static const float sinks[] = {0.5f, -INFINITY, 2, -30, 3.75f, 40, 0, -1};
    static const float strange_sinks[] = {NAN,       1e9f,  INFINITY, -1e9f,
                                          -INFINITY, 1e30f, 3e7f,     -3e7f};
    static const uint64_t rights[] = {0, 1, 33, 300};
    uint64_t seed = 900u * dtype + fill + strange;
    for (unsigned number = 0; number < LENGTHS * MASKS; number++) {
        struct wanted wanted;
        struct attention_problem *p = &wanted.problem;
        set_shape(&wanted, dtype, number % LENGTHS, number / LENGTHS, widths[number % WIDTHS],
                  widths[number % 7]);
        draw_rest(&wanted, &seed);
        wanted.fill = fill;
        if (fill == PRODUCT_SPECIAL)
            p->scale = 0.125f;
        const uint64_t which = 1 + random_next(&seed) % 7;
        p->slopes = (which & 1) == 0 ? NULL : fill == PRODUCT_SPECIAL ? gentle : slopes;
        p->sinks = (which & 2) != 0 || strange ? (strange ? strange_sinks : sinks) : NULL;
        p->right_windowed = (which & 4) != 0;
        p->window_right = rights[random_next(&seed) % 4];
        p->has_offset = random_next(&seed) % 4 == 0;
        p->offset = random_next(&seed) % (p->skv + 20);
        void *mask = NULL;
        if (number % 5 == 4)
            mask = attention_sample_mask(p, number % 2 ? GEMMD_I8 : dtype, number % 8,
                                         random_next(&seed));
        const bool done = (check->quick && number % 19 > 1) || p->sq > 1000 ||
                          check_one(check, &wanted, random_next(&seed));
        free(mask);
        if (!done)
            return false;
    }
    return true;
}

static bool check_all_terms(struct check *check, enum gemmd_dtype dtype)
{
    return check_terms(check, dtype, PRODUCT_UNIFORM, false) &&
           check_terms(check, dtype, PRODUCT_SPECIAL, false) &&
           check_terms(check, dtype, PRODUCT_UNIFORM, true);
}

/* Every pair of widths in one of the types, masks in turn. */
static bool check_widths(struct check *check, enum gemmd_dtype dtype)
{
    uint64_t seed = 77 + dtype;
    for (unsigned number = 0; number < WIDTHS * WIDTHS; number++) {
        struct wanted wanted;
        const uint64_t d = widths[number % WIDTHS], dv = widths[number / WIDTHS];
        set_shape(&wanted, dtype, number % 2 ? 8 : 6, number % MASKS, d, dv);
        draw_rest(&wanted, &seed);
        if (dtypes[number % 3] != dtype || (check->quick && number % 29 != 0))
            continue;
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    return true;
}

/* Scores that differ by some powers of 2 from step to step over keys, by many, and by more than exp
 * takes: each needs another way of flash_wgmma to the weights (sm90/attention/scores.cuh). */
static bool check_scales(struct check *check, enum gemmd_dtype dtype)
{
    static const float large_scales[] = {3, 20, 1000};
    static const uint64_t own_widths[] = {64, 96, 128, 192, 256};
    uint64_t seed = 7 + dtype;
    for (unsigned number = 0; number < 3 * MASKS * 5; number++) {
        struct wanted wanted;
        const uint64_t width = own_widths[number % 5];
        set_shape(&wanted, dtype, 8, number / 5 % MASKS, width, width);
        wanted.problem.skv = 601; /* several steps of each kernel */
        draw_rest(&wanted, &seed);
        wanted.problem.scale = large_scales[number / 5 / MASKS];
        wanted.problem.softcap = 0;
        if (check->quick && number % 7 != 0)
            continue;
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    return true;
}

/* Scores whose rounding errors are larger than what exp takes, or whose products with log2 e are
 * out of range, for each width that has kernels of its own. */
static bool check_far_scores(struct check *check, enum gemmd_dtype dtype)
{
    static const float far_scales[] = {3e7f, 1e10f, -1e20f, 1e36f};
    static const uint64_t own_widths[] = {1, 64, 96, 128, 192, 256};
    uint64_t seed = 11 + dtype;
    for (unsigned number = 0; number < 4 * MASKS * 6; number++) {
        struct wanted wanted;
        const uint64_t width = own_widths[number % 6];
        set_shape(&wanted, dtype, 8, number / 6 % MASKS, width, width);
        wanted.problem.skv = number % 4 == 0 ? 70 : 601;
        draw_rest(&wanted, &seed);
        wanted.problem.scale = far_scales[number / 6 / MASKS] * (width == 1 ? 300 : 1);
        wanted.problem.softcap = 0;
        wanted.fill = PRODUCT_EXTREME;
        if (check->quick && number % 7 > 1)
            continue;
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    return true;
}

/* Cases that a grid or a tile is too small for. */
static bool check_extremes(struct check *check, enum gemmd_dtype dtype, bool large)
{
    struct wanted wanted;
    uint64_t seed = 7 + dtype;
    if (check->quick)
        return true;
    const struct {
        uint64_t batch, heads, kv_heads, sq, skv, d;
    } shapes[] = {{70000, 1, 1, 1, 2, 8},
                  {1, 140000, 70000, 1, 3, 4},
                  {1, 1, 1, 5, 70000, 16},
                  {300, 1, 1, 130, 40, 64},
                  {1, 64, 1, 3, 1000, 128},
                  {160, 1, 1, 65, 64, 128},
                  {4096, 1, 1, 1, 70, 256},
                  {256, 3, 1, 3, 2100, 128},
                  /* longer KV splits of decode; two sections of flash_wgmma, of 16 and 20 heads */
                  {2, 64, 64, 12, 2100, 64},
                  {1, 36, 36, 130, 1024, 256},
                  {1, 64, 64, 8, 1100, 256},
                  {1, 128, 128, 9, 1100, 128}};
    /* The last six are launches of many blocks of decode and flash_wgmma, which take no f32. */
    const unsigned count = sizeof shapes / sizeof *shapes - (dtype == GEMMD_F32 ? 6 : 0);
    for (unsigned i = 0; i < count; i++) {
        wanted = (struct wanted){.problem = {.dtype = dtype,
                                             .batch = shapes[i].batch,
                                             .heads = shapes[i].heads,
                                             .kv_heads = shapes[i].kv_heads,
                                             .sq = shapes[i].sq,
                                             .skv = shapes[i].skv,
                                             .d = shapes[i].d,
                                             .dv = shapes[i].d,
                                             .causal = i % 2,
                                             .scale = 0.5f}};
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    wanted = (struct wanted){.problem = {.dtype = dtype,
                                         .batch = 1,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .sq = 40,
                                         .skv = 1100,
                                         .d = 64,
                                         .dv = 64,
                                         .causal = true,
                                         .scale = 0.5f},
                             .spread = 1 << 21};
    return !large || check_one(check, &wanted, random_next(&seed));
}

/* About as many keys as have a kernel of their own (flash_wgmma.h, ATTENTION_ONE_STEP_KEYS), under
 * one row block of 64 queries and several, with more heads than multiprocessors and with few. */
static bool check_few_keys(struct check *check, enum gemmd_dtype dtype, enum product_fill fill)
{
    static const uint64_t keys[] = {65, 77, ATTENTION_ONE_STEP_KEYS, ATTENTION_ONE_STEP_KEYS + 1};
    static float present;
    uint64_t seed = 80 + dtype;
    for (unsigned i = 0; i < 4 * 2 * 2; i++) {
        const bool many = i / 4 % 2;
        const uint64_t width = many ? 64 : 40;
        struct wanted wanted = {.problem = {.dtype = dtype,
                                            .batch = i / 8 % 2 == 0 ? 1
                                                     : many         ? 5
                                                                    : 70,
                                            .heads = 2,
                                            .kv_heads = 1,
                                            .sq = many ? 400 : 77,
                                            .skv = keys[i % 4],
                                            .d = width,
                                            .dv = width,
                                            .scale = 0.125f,
                                            .lse = &present},
                                .fill = fill};
        for (unsigned causal = 0; causal < 2; causal++) {
            wanted.problem.causal = causal == 1;
            if ((!check->quick || i == 5 || i == 9) &&
                !check_one(check, &wanted, random_next(&seed)))
                return false;
        }
    }
    return true;
}

/* One tile and many, one query and many, every width that has code of its own. */
static bool check_smoke(struct check *check, enum gemmd_dtype dtype)
{
    static const uint64_t own_widths[] = {64, 96, 128, 192, 256};
    static const struct {
        uint64_t batch, heads, kv_heads, sq, skv;
    } shapes[] = {{1, 4, 2, 113, 203}, {2, 2, 1, 5, 700}, {1, 2, 2, 300, 523}, {140, 1, 1, 65, 33}};
    static float present;
    uint64_t seed = 5;
    for (unsigned i = 0; i < 5 * 4 * 2; i++) {
        const uint64_t width = own_widths[i / 8];
        struct wanted wanted = {.problem = {.dtype = dtype,
                                            .batch = shapes[i / 2 % 4].batch,
                                            .heads = shapes[i / 2 % 4].heads,
                                            .kv_heads = shapes[i / 2 % 4].kv_heads,
                                            .sq = shapes[i / 2 % 4].sq,
                                            .skv = shapes[i / 2 % 4].skv,
                                            .d = width,
                                            .dv = width,
                                            .causal = i % 2,
                                            .scale = 0.125f,
                                            .lse = &present}};
        if (!check_one(check, &wanted, random_next(&seed)))
            return false;
    }
    return true;
}

static bool check_dtype(struct check *check, enum gemmd_dtype dtype, bool large)
{
    return check_lengths(check, dtype, PRODUCT_UNIFORM) &&
           check_lengths(check, dtype, PRODUCT_SPECIAL) &&
           check_masks(check, dtype, PRODUCT_UNIFORM) &&
           check_masks(check, dtype, PRODUCT_SPECIAL) && check_all_terms(check, dtype) &&
           check_widths(check, dtype) && check_few_keys(check, dtype, PRODUCT_UNIFORM) &&
           check_few_keys(check, dtype, PRODUCT_SPECIAL) && check_scales(check, dtype) &&
           check_far_scores(check, dtype) && check_extremes(check, dtype, large);
}

/* Prints the lines of one type. */
static void report(const struct check *check, enum gemmd_dtype dtype, uint64_t *passed,
                   uint64_t *failed)
{
    for (unsigned i = 0; i < check->count; i++) {
        const struct trial *trial = &check->trials[i];
        if (trial->dtype != dtype || trial->passed + trial->failed == 0)
            continue;
        *passed += trial->passed;
        *failed += trial->failed;
        printf("%-17s %-5s  %5" PRIu64 " passed  %5" PRIu64
               " failed  largest error %.2f of what is allowed\n",
               trial->tile != NULL ? trial->tile->name : trial->kernel->name,
               dtype_name(trial->dtype), trial->passed, trial->failed, trial->worst);
        if (trial->failed > 0)
            printf("         first: %s\n", trial->first);
    }
}

enum extent { EXTENT_SMOKE, EXTENT_TERMS, EXTENT_ALL, EXTENT_LARGE };

/* Of every type, or only of one. False if nothing more can be run. */
static bool check_all(struct check *check, enum gemmd_dtype only, enum extent extent,
                      uint64_t *passed, uint64_t *failed)
{
    bool done = true;
    for (int i = 0; i < 3 && done; i++) {
        if (only != GEMMD_DTYPE_COUNT && only != dtypes[i])
            continue;
        done = extent == EXTENT_SMOKE   ? check_smoke(check, dtypes[i])
               : extent == EXTENT_TERMS ? check_all_terms(check, dtypes[i])
                                        : check_dtype(check, dtypes[i], extent == EXTENT_LARGE);
        report(check, dtypes[i], passed, failed);
    }
    return done;
}

/* Compares with attentions by themselves, for each kernel and type. */
static bool check_together(const struct check *check, enum gemmd_dtype only,
                           attention_together_check compare, const char *what, uint64_t *passed,
                           uint64_t *failed)
{
    bool done = true;
    for (unsigned i = 0; i < check->count && done; i++) {
        const struct trial *trial = &check->trials[i];
        struct attention_together result;
        if (trial->tile != NULL || (only != GEMMD_DTYPE_COUNT && only != trial->dtype))
            continue;
        done = compare(trial->kernel, trial->dtype, check->streams[0].context,
                       check->streams[0].stream, check->quick, &result);
        *passed += result.passed;
        *failed += result.failed;
        if (result.passed + result.failed == 0)
            continue;
        printf("%-16s %-5s  %5" PRIu64 " passed  %5" PRIu64 " failed  %s\n", trial->kernel->name,
               dtype_name(trial->dtype), result.passed, result.failed, what);
        if (result.failed > 0)
            printf("         first: %s\n", result.first);
    }
    return done;
}

int main(int count, char **arguments)
{
    static struct check check;                  /* large, and there is one */
    enum gemmd_dtype dtype = GEMMD_DTYPE_COUNT; /* all */
    enum extent extent = EXTENT_ALL;
    bool groups_only = false, tiles = false;
    const char *kernels = "";
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--quick") == 0) {
            check.quick = true;
        } else if (strcmp(arguments[i], "--large") == 0) {
            extent = EXTENT_LARGE;
        } else if (strcmp(arguments[i], "--smoke") == 0) {
            extent = EXTENT_SMOKE;
        } else if (strcmp(arguments[i], "--terms") == 0) {
            extent = EXTENT_TERMS;
        } else if (strcmp(arguments[i], "--group") == 0) {
            groups_only = true;
        } else if (strcmp(arguments[i], "--tiles") == 0) {
            tiles = true;
        } else if (strcmp(arguments[i], "--dtype") == 0 && i + 1 < count &&
                   dtype_from_name(arguments[i + 1], &dtype)) {
            i++;
        } else if (strcmp(arguments[i], "--kernels") == 0 && i + 1 < count) {
            kernels = arguments[++i];
        } else {
            fprintf(stderr,
                    "usage: gemmd-gpu-attention-check [--quick] [--smoke | --terms | --large] "
                    "[--group] [--tiles] [--kernels TEXT] [--dtype NAME]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log that is cut off has what was done */
    uint64_t passed = 0, failed = 0;
    bool done = streams_open(check.streams);
    if (done) {
        const struct gemm_device device = streams_device();
        if (tiles && device.compute_capability == 90)
            add_tiles(&check, kernels);
        else if (!tiles)
            add_all(&check, &device, kernels);
        done = groups_only || check_all(&check, dtype, extent, &passed, &failed);
        done = done && (groups_only || extent == EXTENT_SMOKE ||
                        check_together(&check, dtype, attention_ragged_check, "with ragged entries",
                                       &passed, &failed));
        done = done && (extent == EXTENT_SMOKE || extent == EXTENT_TERMS ||
                        check_together(&check, dtype, attention_shared_launch_check, "in groups",
                                       &passed, &failed));
    }
    streams_close(check.streams);
    printf("%" PRIu64 " passed, %" PRIu64 " failed%s\n", passed, failed + !done,
           done ? "" : " (stopped early)");
    return done && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
