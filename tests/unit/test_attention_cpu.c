/* The CPU's attention kernels against f64: masks, shared heads, lengths, layouts with gaps, odd
 * sizes, and that nothing but the request decides the bits. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/attention_sample.h"
#include "tests/product/cases.h"
#include "tests/product/random.h"

enum { GUARD = 64, POISON = 0xff };

static struct attention_sample make(const struct attention_problem *like,
                                    enum attention_layout layout, uint64_t gap,
                                    enum product_fill fill, uint64_t seed)
{
    struct attention_sample sample;
    ck_assert(attention_sample_create(&sample, like, layout, gap, fill, seed));
    return sample;
}

/* Runs a kernel, which must not write beyond its workspace. */
static void run_problem(const struct operation_kernel *kernel,
                        const struct attention_problem *problem, uint32_t threads)
{
    struct gemm_context *context;
    struct fault fault;
    uint64_t bytes;
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, threads, &context, &fault),
                      GEMMD_OK);
    ck_assert(kernel->workspace_bytes(problem, &bytes));
    unsigned char *workspace = malloc(bytes + GUARD);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, POISON, bytes + GUARD);
    ck_assert_uint_eq(operation_run(kernel, context, problem, workspace), GEMMD_OK);
    for (uint64_t i = 0; i < GUARD; i++)
        ck_assert_msg(workspace[bytes + i] == POISON, "%s wrote beyond its workspace",
                      kernel->name);
    free(workspace);
    gemm_context_destroy(context);
}

/* Runs a kernel: O and lse are then in the sample. */
static void run_kernel(const struct operation_kernel *kernel, struct attention_sample *sample,
                       uint32_t threads)
{
    attention_sample_poison(sample);
    run_problem(kernel, &sample->problem, threads);
}

/* Every kernel on one problem. */
static void check_all(const struct attention_problem *like, enum attention_layout layout,
                      uint64_t gap, enum product_fill fill, uint64_t seed)
{
    char what[256], why[256];
    struct attention_sample sample = make(like, layout, gap, fill, seed);
    attention_describe(&sample.problem, what, sizeof what);
    const struct operation_kernel *const *k =
        operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
    for (; *k != NULL; k++) {
        ck_assert((*k)->takes(&sample.problem));
        run_kernel(*k, &sample, 2);
        ck_assert_msg(attention_sample_check(&sample, NULL, why, sizeof why), "%s, %s: %s",
                      (*k)->name, what, why);
    }
    attention_sample_destroy(&sample);
}

static const struct {
    uint64_t sq, skv;
} lengths[] = {{1, 1},     {1, 300},   {95, 96}, {97, 128},   {113, 203},
               {203, 113}, {129, 127}, {799, 3}, {1023, 1024}};
static const struct {
    bool causal, windowed;
    uint64_t window;
} masks[] = {
    {false, false, 0}, {true, false, 0}, {false, true, 33}, {true, true, 0}, {true, true, 130}};
static const enum gemmd_dtype dtypes[] = {GEMMD_F32, GEMMD_F16, GEMMD_BF16};
enum { LENGTHS = sizeof lengths / sizeof *lengths, MASKS = sizeof masks / sizeof *masks };

static struct attention_problem problem_of(int number)
{
    static const uint64_t kv_heads[] = {4, 2, 1}, widths[] = {1, 16, 33, 40};
    const int length = number % LENGTHS, mask = number / LENGTHS % MASKS;
    return (struct attention_problem){.dtype = dtypes[number / LENGTHS / MASKS],
                                      .batch = lengths[length].sq > 1000 ? 1 : 2,
                                      .heads = 4,
                                      .kv_heads = kv_heads[number % 3],
                                      .sq = lengths[length].sq,
                                      .skv = lengths[length].skv,
                                      .d = widths[(number + mask) % 4],
                                      .dv = widths[(number + 2) % 4],
                                      .causal = masks[mask].causal,
                                      .windowed = masks[mask].windowed,
                                      .window = masks[mask].window,
                                      .scale = 1.5f,
                                      .softcap = number % 5 == 4 ? 1 : 0};
}

START_TEST(masks_lengths_and_shared_heads)
{
    const int number = _i * CASE_THINNING;
    const struct attention_problem problem = problem_of(number);
    check_all(&problem, number % 2 ? ATTENTION_BSHD : ATTENTION_BHSD, (uint64_t)number % 3,
              PRODUCT_UNIFORM, (uint64_t)number + 1);
}
END_TEST

START_TEST(head_sizes)
{
    static const uint64_t widths[] = {1, 2, 31, 64, 96, 129, 192, 255, 256};
    const int number = _i * CASE_STRIDE;
    const struct attention_problem problem = {.dtype = dtypes[number % 3],
                                              .batch = 1,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .sq = 100,
                                              .skv = 140,
                                              .d = widths[number],
                                              .dv = widths[8 - number],
                                              .scale = 0.125f};
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, (uint64_t)number + 7);
}
END_TEST

/* Rounding errors of these scores are larger than what exp takes. */
START_TEST(scores_far_from_zero)
{
    static const float scales[] = {1e10f, -1e20f, 1e36f};
    const int number = _i * CASE_STRIDE;
    struct attention_problem problem = {.dtype = dtypes[number % 3],
                                        .batch = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .sq = 70,
                                        .skv = 203,
                                        .d = 40,
                                        .dv = 8,
                                        .causal = true,
                                        .scale = scales[number / 3]};
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_EXTREME, (uint64_t)number + 1);
    problem.d = 1;
    problem.scale *= 300;
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_EXTREME, (uint64_t)number + 1);
}
END_TEST

/* Entries of several lengths; what lies beyond them is NaN. */
START_TEST(lengths_of_each_entry)
{
    static const int32_t lens_q[] = {70, 0, 1, 33, 70}, lens_kv[] = {200, 200, 1, 0, 129};
    const struct attention_problem problem = {.dtype = GEMMD_F32,
                                              .batch = 5,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .sq = 70,
                                              .skv = 200,
                                              .d = 16,
                                              .dv = 8,
                                              .causal = _i & 1,
                                              .windowed = _i & 2,
                                              .window = 20,
                                              .scale = 1,
                                              .lens_q = lens_q,
                                              .lens_kv = lens_kv};
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, 3);
}
END_TEST

/* Masks of all sizes and types, with the other masks, and with values that are not finite where a
 * key is hidden. Thinned, every fifth case, among which each size and each type of a mask is. */
enum { MASK_CASES = 48, MASK_STEP = CASE_THINNING > 1 ? 5 : 1 };
START_TEST(masks_as_operands)
{
    const int number = _i * MASK_STEP;
    static const int32_t lens_q[] = {150, 60}, lens_kv[] = {170, 300};
    const enum gemmd_dtype dtype = dtypes[number % 3];
    struct attention_problem problem = {.dtype = dtype,
                                        .batch = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .sq = 150,
                                        .skv = 300,
                                        .d = 24,
                                        .dv = 12,
                                        .causal = number / 3 & 1,
                                        .windowed = number / 3 & 2,
                                        .window = 40,
                                        .scale = 0.25f,
                                        .softcap = number % 5 == 0 ? 3 : 0};
    if (number % 7 == 0) {
        problem.lens_q = lens_q;
        problem.lens_kv = lens_kv;
    }
    void *mask = attention_sample_mask(&problem, number / 3 % 2 ? GEMMD_I8 : dtype,
                                       (unsigned)number / 6, (uint64_t)number + 1);
    ck_assert_ptr_nonnull(mask);
    check_all(&problem, ATTENTION_BSHD, 1, number % 4 ? PRODUCT_UNIFORM : PRODUCT_SPECIAL,
              (uint64_t)number + 1);
    free(mask);
}
END_TEST

/* Causal masks and windows from the top left, in the middle, and beyond the keys. */
START_TEST(causal_masks_from_an_offset)
{
    static const uint64_t offsets[] = {0, 1, 60, 150, 199, 200, 1000};
    struct attention_problem problem = {.dtype = dtypes[_i % 3],
                                        .batch = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .sq = 110,
                                        .skv = 200,
                                        .d = 16,
                                        .dv = 8,
                                        .causal = true,
                                        .windowed = _i % 2,
                                        .window = 30,
                                        .scale = 0.25f,
                                        .has_offset = true,
                                        .offset = offsets[_i]};
    double pairs = 0;
    for (uint64_t i = 0; i < problem.sq; i++) {
        const struct attention_span span = attention_span(&problem, problem.sq, problem.skv, i);
        pairs += (double)(span.end - span.first);
    }
    ck_assert_double_eq(attention_flops(&problem),
                        2 * pairs * (double)((problem.d + problem.dv) * problem.heads));
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, (uint64_t)_i + 1);
}
END_TEST

/* Windows to the right, with and without one to the left, which a causal mask makes void. */
START_TEST(windows_to_the_right)
{
    static const uint64_t rights[] = {0, 1, 60, 400};
    struct attention_problem problem = {.dtype = dtypes[_i % 3],
                                        .batch = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .sq = 110,
                                        .skv = 200,
                                        .d = 16,
                                        .dv = 8,
                                        .causal = _i == 9,
                                        .windowed = _i & 4,
                                        .window = 30,
                                        .scale = 0.25f,
                                        .has_offset = _i % 3 == 0,
                                        .offset = 20,
                                        .right_windowed = true,
                                        .window_right = rights[_i % 4]};
    double pairs = 0;
    for (uint64_t i = 0; i < problem.sq; i++) {
        const struct attention_span span = attention_span(&problem, problem.sq, problem.skv, i);
        pairs += (double)(span.end - span.first);
    }
    ck_assert_double_eq(attention_flops(&problem),
                        2 * pairs * (double)((problem.d + problem.dv) * problem.heads));
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, (uint64_t)_i + 1);
}
END_TEST

static const float some_slopes[] = {0.5f, 0.0625f, 0, -0.03125f};
static const float some_sinks[] = {1.5f, -INFINITY, -3, 40};

/* Slopes and sinks of each head, alone, together, and beside masks; with entries of several
 * lengths, of which some have queries that see no key. */
START_TEST(slopes_and_sinks)
{
    static const int32_t lens_q[] = {150, 60}, lens_kv[] = {170, 30};
    const int number = _i * CASE_STRIDE, kind = number / 3; /* 0 to 7 */
    const enum gemmd_dtype dtype = dtypes[number % 3];
    struct attention_problem problem = {.dtype = dtype,
                                        .batch = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .sq = 150,
                                        .skv = 170,
                                        .d = 24,
                                        .dv = 12,
                                        .causal = kind & 1,
                                        .scale = 0.25f,
                                        .softcap = kind == 2 ? 3 : 0,
                                        .slopes = kind % 3 != 0 ? some_slopes : NULL,
                                        .sinks = kind % 3 != 1 ? some_sinks : NULL};
    if (kind & 4) {
        problem.lens_q = lens_q;
        problem.lens_kv = lens_kv;
    }
    void *mask = NULL;
    if (kind & 2) {
        mask =
            attention_sample_mask(&problem, number % 2 ? GEMMD_I8 : dtype, 4, (uint64_t)number + 1);
        ck_assert_ptr_nonnull(mask);
    }
    check_all(&problem, ATTENTION_BSHD, 1, number % 4 ? PRODUCT_UNIFORM : PRODUCT_SPECIAL,
              (uint64_t)number + 1);
    free(mask);
}
END_TEST

/* A sink that is not finite, and rows that see a key whose score is not. */
START_TEST(sinks_that_are_not_finite)
{
    static const float sinks[] = {NAN, INFINITY, -INFINITY};
    const struct attention_problem problem = {.dtype = GEMMD_F32,
                                              .batch = 1,
                                              .heads = 3,
                                              .kv_heads = 1,
                                              .sq = 3,
                                              .skv = 2,
                                              .d = 4,
                                              .dv = 5,
                                              .causal = true, /* the first query sees no key */
                                              .scale = 1,
                                              .sinks = sinks};
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, 1);
    check_all(&problem, ATTENTION_BHSD, 0, PRODUCT_SPECIAL, 2);
}
END_TEST

/* ---- ragged entries ---- */

enum { ENTRIES = 7 };
static const uint64_t ragged_q[ENTRIES] = {5, 0, 97, 1, 0, 192, 33};
static const uint64_t ragged_kv[ENTRIES] = {9, 4, 60, 0, 0, 300, 33};

/* Copies the rows of an entry's own tensor to, or from, its place in the ragged one. */
static void copy_rows(enum gemmd_dtype dtype, uint64_t heads, uint64_t rows, uint64_t width,
                      const void *from, const struct attention_strides *from_strides, void *to,
                      const struct attention_strides *to_strides, uint64_t from_row,
                      uint64_t to_row)
{
    const uint64_t size = dtype_size(dtype);
    for (uint64_t head = 0; head < heads; head++)
        for (uint64_t row = 0; row < rows; row++)
            memcpy((char *)to + (head * to_strides->head + (to_row + row) * to_strides->row) * size,
                   (const char *)from +
                       (head * from_strides->head + (from_row + row) * from_strides->row) * size,
                   width * size);
}

/* Each entry of a ragged attention has the bits of an attention of its own, which check_all
 * compares with f64. */
START_TEST(ragged_entries_have_the_bits_of_attentions_of_their_own)
{
    const int number = _i * CASE_STRIDE;
    const enum attention_layout layout = number % 2 ? ATTENTION_BSHD : ATTENTION_BHSD;
    struct attention_problem like = problem_of(number * 9);
    like.batch = 1;
    like.slopes = number % 3 == 0 ? some_slopes : NULL;
    like.sinks = number % 3 != 1 ? some_sinks : NULL;
    like.right_windowed = number == 4;
    like.window_right = 3;
    struct attention_problem whole = like;
    int32_t lens_q[ENTRIES + 1] = {0}, lens_kv[ENTRIES + 1] = {0};
    struct attention_sample samples[ENTRIES];
    for (int e = 0; e < ENTRIES; e++) {
        lens_q[e + 1] = lens_q[e] + (int32_t)ragged_q[e];
        lens_kv[e + 1] = lens_kv[e] + (int32_t)ragged_kv[e];
    }
    whole.batch = ENTRIES;
    whole.ragged = true;
    whole.lens_q = lens_q;
    whole.lens_kv = lens_kv;
    whole.sq = (uint64_t)lens_q[ENTRIES];
    whole.skv = (uint64_t)lens_kv[ENTRIES];
    whole.q_strides = attention_strides(layout, whole.heads, whole.sq, whole.d);
    whole.k_strides = attention_strides(layout, whole.kv_heads, whole.skv, whole.d);
    whole.v_strides = attention_strides(layout, whole.kv_heads, whole.skv, whole.dv);
    whole.o_strides = attention_strides(layout, whole.heads, whole.sq, whole.dv);
    const uint64_t size = dtype_size(whole.dtype);
    char *q = malloc(whole.q_strides.batch * size), *k = malloc(whole.k_strides.batch * size);
    char *v = malloc(whole.v_strides.batch * size), *o = malloc(whole.o_strides.batch * size);
    float *lse = malloc(whole.heads * whole.sq * sizeof *lse);
    ck_assert(q != NULL && k != NULL && v != NULL && o != NULL && lse != NULL);
    const uint64_t o_bytes = whole.o_strides.batch * size;
    whole.q_strides.batch = whole.k_strides.batch = whole.v_strides.batch = whole.o_strides.batch =
        0;
    whole.q = q;
    whole.k = k;
    whole.v = v;
    whole.o = o;
    whole.lse = lse;
    for (int e = 0; e < ENTRIES; e++) {
        like.sq = ragged_q[e];
        like.skv = ragged_kv[e];
        samples[e] = make(&like, layout, 2, PRODUCT_UNIFORM, (uint64_t)e + (uint64_t)number);
        const struct attention_problem *p = &samples[e].problem;
        copy_rows(p->dtype, p->heads, p->sq, p->d, p->q, &p->q_strides, q, &whole.q_strides, 0,
                  (uint64_t)lens_q[e]);
        copy_rows(p->dtype, p->kv_heads, p->skv, p->d, p->k, &p->k_strides, k, &whole.k_strides, 0,
                  (uint64_t)lens_kv[e]);
        copy_rows(p->dtype, p->kv_heads, p->skv, p->dv, p->v, &p->v_strides, v, &whole.v_strides, 0,
                  (uint64_t)lens_kv[e]);
    }
    for (const struct operation_kernel *const *kernel =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *kernel != NULL; kernel++) {
        ck_assert((*kernel)->takes(&whole));
        memset(o, POISON, o_bytes);
        memset(lse, POISON, whole.heads * whole.sq * sizeof *lse);
        run_problem(*kernel, &whole, 1 + (uint32_t)number % 3);
        for (int e = 0; e < ENTRIES; e++) {
            char why[256];
            const struct attention_problem *p = &samples[e].problem;
            attention_sample_poison(&samples[e]);
            if (p->sq > 0)
                run_kernel(*kernel, &samples[e], 1);
            ck_assert_msg(attention_sample_check(&samples[e], NULL, why, sizeof why), "%s: %s",
                          (*kernel)->name, why);
            const struct attention_strides rows = {.head = p->sq * p->dv, .row = p->dv};
            const uint64_t bytes = p->heads * p->sq * p->dv * size;
            char *its = malloc(2 * bytes + 1);
            ck_assert_ptr_nonnull(its);
            copy_rows(p->dtype, p->heads, p->sq, p->dv, p->o, &p->o_strides, its, &rows, 0, 0);
            copy_rows(p->dtype, p->heads, p->sq, p->dv, o, &whole.o_strides, its + bytes, &rows,
                      (uint64_t)lens_q[e], 0);
            ck_assert_msg(memcmp(its, its + bytes, bytes) == 0, "%s: entry %d has other bits",
                          (*kernel)->name, e);
            free(its);
            for (uint64_t h = 0; h < p->heads; h++)
                ck_assert_msg(memcmp(lse + h * whole.sq + lens_q[e], p->lse + h * p->sq,
                                     p->sq * sizeof *lse) == 0,
                              "%s: lse of entry %d has other bits", (*kernel)->name, e);
        }
    }
    for (int e = 0; e < ENTRIES; e++)
        attention_sample_destroy(&samples[e]);
    free(q);
    free(k);
    free(v);
    free(o);
    free(lse);
}
END_TEST

/* No entries of the same rows in all have more pairs of a query and a key. */
START_TEST(operations_of_ragged_entries_are_a_bound)
{
    const int32_t some[2] = {0};
    uint64_t seed = (uint64_t)_i + 1;
    struct attention_problem p = problem_of(_i), entry = p;
    p.batch = 1 + random_next(&seed) % 5;
    p.ragged = true;
    p.lens_q = p.lens_kv = some;
    p.right_windowed = entry.right_windowed = _i % 4 == 1;
    p.window_right = entry.window_right = random_next(&seed) % 50;
    p.has_offset = entry.has_offset = _i % 4 == 2;
    p.offset = entry.offset = random_next(&seed) % 200;
    p.sq = p.skv = 0;
    double pairs = 0;
    for (uint64_t e = 0; e < p.batch; e++) {
        entry.sq = random_next(&seed) % 100;
        entry.skv = random_next(&seed) % 100;
        for (uint64_t i = 0; i < entry.sq; i++) {
            const struct attention_span span = attention_span(&entry, entry.sq, entry.skv, i);
            pairs += (double)(span.end - span.first);
        }
        p.sq += entry.sq;
        p.skv += entry.skv;
    }
    ck_assert_double_le(2 * pairs * (double)((p.d + p.dv) * p.heads), attention_flops(&p));
}
END_TEST

/* NaN and infinities reach the rows that see them, and no other. */
START_TEST(what_is_not_finite)
{
    const int number = _i * CASE_STRIDE;
    const struct attention_problem problem = {.dtype = dtypes[number % 3],
                                              .batch = 2,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .sq = 150,
                                              .skv = 170,
                                              .d = 8,
                                              .dv = 12,
                                              .causal = number & 1,
                                              .windowed = number & 2,
                                              .window = 40,
                                              .scale = 0.25f};
    check_all(&problem, ATTENTION_BSHD, 1, PRODUCT_SPECIAL, (uint64_t)number + 1);
}
END_TEST

static unsigned char *copy_of(const struct attention_sample *sample, enum attention_part part)
{
    const struct product_buffer *buffer = &sample->buffers[part];
    unsigned char *copy = malloc(buffer->bytes);
    ck_assert_ptr_nonnull(copy);
    return memcpy(copy, buffer->data, buffer->bytes);
}

START_TEST(threads_change_no_bit)
{
    const int number = _i * CASE_STRIDE;
    const struct attention_problem problem = problem_of(number);
    struct attention_sample s = make(&problem, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, 11);
    const struct product_buffer *o = &s.buffers[ATTENTION_O], *lse = &s.buffers[ATTENTION_LSE];
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        run_kernel(*k, &s, 1);
        unsigned char *first_o = copy_of(&s, ATTENTION_O), *first_lse = copy_of(&s, ATTENTION_LSE);
        run_kernel(*k, &s, 3);
        ck_assert_msg(memcmp(first_o, o->data, o->bytes) == 0 &&
                          memcmp(first_lse, lse->data, lse->bytes) == 0,
                      "%s: other bits on 3 threads than on 1", (*k)->name);
        free(first_o);
        free(first_lse);
    }
    attention_sample_destroy(&s);
}
END_TEST

/* The problem of the `count` queries from `first` on, whose keys end with the last of these
 * queries. All else is where it is in the whole problem, but lse, which gets `lse`. */
static struct attention_problem step_of(const struct attention_problem *whole, uint64_t first,
                                        uint64_t count, float *lse)
{
    const uint64_t size = dtype_size(whole->dtype);
    struct attention_problem step = *whole;
    step.sq = count;
    step.skv = first + count;
    step.q = (const char *)whole->q + first * whole->q_strides.row * size;
    step.o = (char *)whole->o + first * whole->o_strides.row * size;
    step.lse = lse;
    return step;
}

/* What a decoder relies on: the queries of one position, or of several, have the bits that they
 * have when all positions are computed at once, whatever lies at later positions. Values that are
 * not finite change no bit of queries that do not see them. */
START_TEST(positions_in_steps_change_no_bit)
{
    enum { POSITIONS = 300 };
    static const uint64_t steps[] = {1, 7, 64, 150};
    struct attention_problem like = problem_of(_i * 8);
    float lse[4 * POSITIONS];
    like.batch = 1; /* the lse of a step is then one block */
    like.sq = like.skv = POSITIONS;
    like.causal = true;
    struct attention_sample s = make(&like, _i % 3 ? ATTENTION_BSHD : ATTENTION_BHSD, 0,
                                     _i < 8 ? PRODUCT_UNIFORM : PRODUCT_SPECIAL, 5);
    const struct product_buffer *o = &s.buffers[ATTENTION_O];
    const uint64_t step = steps[_i % 4];
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        const struct attention_problem whole = s.problem;
        run_kernel(*k, &s, 1);
        unsigned char *whole_o = copy_of(&s, ATTENTION_O);
        float whole_lse[4 * POSITIONS];
        memcpy(whole_lse, whole.lse, sizeof whole_lse);
        attention_sample_poison(&s);
        for (uint64_t at = 0; at < POSITIONS; at += step) {
            const uint64_t count = POSITIONS - at < step ? POSITIONS - at : step;
            const struct attention_problem part = step_of(&whole, at, count, lse);
            run_problem(*k, &part, 1);
            for (uint64_t h = 0; h < part.heads; h++)
                ck_assert_msg(memcmp(lse + h * count, whole_lse + h * POSITIONS + at,
                                     count * sizeof *lse) == 0,
                              "%s, head %d: other bits of lse in steps of %d at position %d",
                              (*k)->name, (int)h, (int)step, (int)at);
        }
        ck_assert_msg(memcmp(whole_o, o->data, o->bytes) == 0,
                      "%s: other bits in steps of %d positions", (*k)->name, (int)step);
        free(whole_o);
    }
    attention_sample_destroy(&s);
}
END_TEST

/* The sum of the second position is -0, which became +0 if the weight 0 of the third position were
 * added. */
START_TEST(a_later_position_changes_no_sign_of_zero)
{
    const struct attention_problem like = {.dtype = GEMMD_F32,
                                           .batch = 1,
                                           .heads = 1,
                                           .kv_heads = 1,
                                           .sq = 3,
                                           .skv = 3,
                                           .d = 1,
                                           .dv = 1,
                                           .causal = true,
                                           .scale = 1};
    static const float q[] = {1, 1, 1}, k[] = {-0.9f, 0, 0}, v[] = {-FLT_TRUE_MIN, -0.0f, 0};
    struct attention_sample s = make(&like, ATTENTION_BHSD, 0, PRODUCT_UNIFORM, 1);
    struct attention_problem whole = s.problem;
    float *const o = whole.o;
    whole.q = q;
    whole.k = k;
    whole.v = v;
    for (const struct operation_kernel *const *kernel =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *kernel != NULL; kernel++) {
        float lse[1];
        run_problem(*kernel, &whole, 1);
        const bool negative = signbit(o[1]);
        const struct attention_problem step = step_of(&whole, 1, 1, lse);
        run_problem(*kernel, &step, 1);
        ck_assert_msg((bool)signbit(o[1]) == negative, "%s: a zero of another sign",
                      (*kernel)->name);
    }
    attention_sample_destroy(&s);
}
END_TEST

/* Attentions of all masks, types and lengths in one launch, which the CPU's kernel takes whatever
 * they are. */
START_TEST(a_group_changes_no_bit)
{
    enum { COUNT = 8 };
    const struct operation_kernel *kernel =
        operation_kernels(&operation_attention, GEMM_BACKEND_CPU)[0];
    struct operation_member list[COUNT];
    struct attention_sample samples[COUNT];
    struct gemm_context *context;
    struct fault fault;
    char why[256];
    for (int i = 0; i < COUNT; i++) {
        const struct attention_problem problem = problem_of(i * 19 + _i);
        samples[i] = make(&problem, i % 2 ? ATTENTION_BSHD : ATTENTION_BHSD, 0, PRODUCT_UNIFORM,
                          (uint64_t)i);
        if (i % 4 == 0)
            samples[i].problem.lse = NULL;
        attention_sample_poison(&samples[i]);
        list[i] = (struct operation_member){&samples[i].problem, NULL};
    }
    ck_assert_uint_eq(
        gemm_context_create(GEMM_BACKEND_CPU, NULL, 1 + (uint32_t)_i, &context, &fault), GEMMD_OK);
    ck_assert_uint_eq(kernel->run_group(context, list, COUNT), GEMMD_OK);
    gemm_context_destroy(context);
    for (int i = 0; i < COUNT; i++) {
        struct attention_sample *s = &samples[i];
        const struct product_buffer *o = &s->buffers[ATTENTION_O];
        const struct product_buffer *lse = &s->buffers[ATTENTION_LSE];
        ck_assert_msg(attention_sample_check(s, NULL, why, sizeof why), "attention %d: %s", i, why);
        unsigned char *group_o = copy_of(s, ATTENTION_O), *group_lse = copy_of(s, ATTENTION_LSE);
        run_kernel(kernel, s, 1);
        ck_assert_msg(memcmp(group_o, o->data, o->bytes) == 0,
                      "attention %d has other bits in a group", i);
        ck_assert_msg(memcmp(group_lse, lse->data, lse->bytes) == 0,
                      "lse of attention %d has other bits in a group", i);
        free(group_o);
        free(group_lse);
        attention_sample_destroy(s);
    }
}
END_TEST

/* What a kernel needs does not grow with the product of the lengths. */
START_TEST(memory_grows_with_the_sum_of_the_lengths)
{
    struct attention_problem p = {.dtype = GEMMD_F16,
                                  .batch = 1,
                                  .heads = 8,
                                  .kv_heads = 8,
                                  .sq = 131072,
                                  .skv = 131072,
                                  .d = 8,
                                  .dv = 8};
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_attention, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        uint64_t bytes, twice;
        ck_assert((*k)->workspace_bytes(&p, &bytes));
        ck_assert_uint_le(bytes, (p.sq + p.skv) * 1024);
        p.sq *= 2;
        ck_assert((*k)->workspace_bytes(&p, &twice));
        p.sq /= 2;
        ck_assert_uint_le(twice, 2 * bytes);
        p.skv *= 2;
        ck_assert((*k)->workspace_bytes(&p, &twice));
        p.skv /= 2;
        ck_assert_uint_le(twice, 2 * bytes);
    }
}
END_TEST

/* Against counting the pairs one by one. */
START_TEST(operations_are_those_of_the_pairs_seen)
{
    const struct attention_problem p = problem_of(_i);
    double pairs = 0;
    for (uint64_t i = 0; i < p.sq; i++) {
        const struct attention_span span = attention_span(&p, p.sq, p.skv, i);
        pairs += (double)(span.end - span.first);
    }
    ck_assert_double_eq(attention_flops(&p),
                        2 * pairs * (double)((p.d + p.dv) * p.batch * p.heads));
}
END_TEST

START_TEST(selection)
{
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    struct attention_problem p = {.dtype = GEMMD_F16,
                                  .batch = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .sq = 1,
                                  .skv = 1,
                                  .d = 1,
                                  .dv = 1};
    const struct operation_kernel *kernel;
    struct fault fault;
    ck_assert_uint_eq(operation_select(&operation_attention, &cpu, "auto", &p, &kernel, &fault),
                      GEMMD_OK);
    ck_assert_str_eq(kernel->name, "tiled");
    ck_assert_uint_eq(operation_select(&operation_attention, &cpu, "naive", &p, &kernel, &fault),
                      GEMMD_OK);
    ck_assert_str_eq(kernel->name, "naive");
    ck_assert_uint_eq(operation_select(&operation_attention, &cpu, "cublas", &p, &kernel, &fault),
                      GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "kernel");
    ck_assert_ptr_nonnull(strstr(fault.detail, "tiled, naive"));
    p.dtype = GEMMD_F8_E4M3;
    ck_assert_uint_eq(operation_select(&operation_attention, &cpu, "auto", &p, &kernel, &fault),
                      GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "dtype");
    ck_assert_ptr_nonnull(strstr(fault.detail, "f32, f16, bf16"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("attention_cpu");
    /* Thinned, every length, mask and type is still there: 11 has no factor of 9 * 5 * 3. */
    tcase_add_loop_test(tests, masks_lengths_and_shared_heads, 0,
                        (LENGTHS * MASKS * 3 + CASE_THINNING - 1) / CASE_THINNING);
    tcase_add_loop_test(tests, head_sizes, 0, CASES_OF(9));
    tcase_add_loop_test(tests, scores_far_from_zero, 0, CASES_OF(9));
    tcase_add_loop_test(tests, lengths_of_each_entry, 0, 4);
    tcase_add_loop_test(tests, masks_as_operands, 0, (MASK_CASES + MASK_STEP - 1) / MASK_STEP);
    tcase_add_loop_test(tests, causal_masks_from_an_offset, 0, 7);
    tcase_add_loop_test(tests, windows_to_the_right, 0, 10);
    tcase_add_loop_test(tests, slopes_and_sinks, 0, CASES_OF(24));
    tcase_add_test(tests, sinks_that_are_not_finite);
    tcase_add_loop_test(tests, ragged_entries_have_the_bits_of_attentions_of_their_own, 0,
                        CASES_OF(12));
    tcase_add_loop_test(tests, operations_of_ragged_entries_are_a_bound, 0, LENGTHS * MASKS);
    tcase_add_loop_test(tests, what_is_not_finite, 0, CASES_OF(12));
    tcase_add_loop_test(tests, threads_change_no_bit, 0, CASES_OF(18));
    tcase_add_loop_test(tests, positions_in_steps_change_no_bit, 0, CASES_OF(16));
    tcase_add_test(tests, a_later_position_changes_no_sign_of_zero);
    tcase_add_loop_test(tests, a_group_changes_no_bit, 0, 2);
    tcase_add_test(tests, memory_grows_with_the_sum_of_the_lengths);
    tcase_add_loop_test(tests, operations_are_those_of_the_pairs_seen, 0, LENGTHS * MASKS);
    tcase_add_test(tests, selection);
    Suite *suite = suite_create("attention_cpu");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
