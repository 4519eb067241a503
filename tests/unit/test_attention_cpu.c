/* The CPU's attention kernels against f64: masks, shared heads, lengths, layouts with gaps, odd
 * sizes, and that nothing but the request decides the bits. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/cpu/convert.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"
#include "tests/product/random.h"

enum { GUARD = 64, POISON = 0xff }; /* NaN in every type */

/* A problem with operands of its own, in f32 as well. */
struct sample {
    struct attention_problem problem;
    float *q, *k, *v;       /* widened */
    double *exact, *lse;    /* of O and lse */
    float *same, *same_lse; /* the three steps in f32 */
    uint64_t q_count, k_count, v_count, o_count, rows;
};

static void *filled(uint64_t bytes)
{
    void *memory = malloc(bytes + GUARD);
    ck_assert_ptr_nonnull(memory);
    return memset(memory, POISON, bytes + GUARD);
}

static float *fill(struct attention_problem *p, void **narrow, uint64_t count, uint64_t *seed)
{
    float *wide = filled(count * sizeof *wide);
    *narrow = filled(count * dtype_size(p->dtype));
    for (uint64_t i = 0; i < count; i++)
        wide[i] = (float)(random_next(seed) % 65536) / 32768 - 1;
    convert_narrow(p->dtype, wide, *narrow, count);
    convert_widen(p->dtype, *narrow, wide, count);
    return wide;
}

/* The three steps, in f64 and in f32, one row at a time; f32 sums one term after another. */
#define THREE_STEPS(NAME, REAL, EXP, LOG, TANH, INF)                                               \
    static void NAME(const struct sample *s, REAL *o, REAL *lse)                                   \
    {                                                                                              \
        const struct attention_problem *p = &s->problem;                                           \
        REAL *weights = malloc((p->skv + 1) * sizeof *weights);                                    \
        for (uint64_t row = 0; row < s->rows; row++) {                                             \
            const uint64_t i = row % p->sq, head = row / p->sq % p->heads;                         \
            const uint64_t entry = row / p->sq / p->heads;                                         \
            const uint64_t kv_head = head / (p->heads / p->kv_heads);                              \
            const uint64_t sq = p->lens_q != NULL ? (uint64_t)p->lens_q[entry] : p->sq;            \
            const uint64_t skv = p->lens_q != NULL ? (uint64_t)p->lens_kv[entry] : p->skv;         \
            const float *q = s->q + entry * p->q_strides.batch + head * p->q_strides.head +        \
                             i * p->q_strides.row;                                                 \
            const float *k = s->k + entry * p->k_strides.batch + kv_head * p->k_strides.head;      \
            const float *v = s->v + entry * p->v_strides.batch + kv_head * p->v_strides.head;      \
            REAL most = -INF, total = 0;                                                           \
            bool sees = false;                                                                     \
            for (uint64_t c = 0; c < p->dv; c++)                                                   \
                o[row * p->dv + c] = 0;                                                            \
            lse[row] = -INF;                                                                       \
            for (uint64_t j = 0; j < skv; j++) {                                                   \
                const int64_t position = (int64_t)i + (int64_t)skv - (int64_t)sq;                  \
                weights[j] = -INF;                                                                 \
                if (i >= sq || (p->causal && (int64_t)j > position) ||                             \
                    (p->windowed && (int64_t)j < position - (int64_t)p->window))                   \
                    continue;                                                                      \
                REAL sum = 0;                                                                      \
                for (uint64_t c = 0; c < p->d; c++)                                                \
                    sum += (REAL)q[c] * (REAL)k[j * p->k_strides.row + c];                         \
                sum *= (REAL)p->scale;                                                             \
                if (p->softcap > 0)                                                                \
                    sum = (REAL)p->softcap * TANH(sum / (REAL)p->softcap);                         \
                weights[j] = sum;                                                                  \
                most = sum > most ? sum : most;                                                    \
                sees = true;                                                                       \
            }                                                                                      \
            if (!sees)                                                                             \
                continue;                                                                          \
            for (uint64_t j = 0; j < skv; j++)                                                     \
                total += weights[j] = EXP(weights[j] - most);                                      \
            for (uint64_t j = 0; j < skv; j++)                                                     \
                for (uint64_t c = 0; c < p->dv && weights[j] != 0; c++)                            \
                    o[row * p->dv + c] += weights[j] / total * (REAL)v[j * p->v_strides.row + c];  \
            lse[row] = most + LOG(total);                                                          \
        }                                                                                          \
        free(weights);                                                                             \
    }
THREE_STEPS(in_f64, double, exp, log, tanh, (double)INFINITY)
THREE_STEPS(in_f32, float, expf, logf, tanhf, INFINITY)

/* `gap` elements lie between the rows of K and V. */
static struct sample make(const struct attention_problem *like, enum attention_layout layout,
                          uint64_t gap, uint64_t seed)
{
    struct sample s = {.problem = *like};
    struct attention_problem *p = &s.problem;
    p->q_strides = attention_strides(layout, p->heads, p->sq, p->d);
    p->k_strides = attention_strides(layout, p->kv_heads, p->skv, p->d + gap);
    p->v_strides = attention_strides(layout, p->kv_heads, p->skv, p->dv + gap);
    p->o_strides = attention_strides(layout, p->heads, p->sq, p->dv);
    s.rows = p->batch * p->heads * p->sq;
    s.o_count = s.rows * p->dv;
    s.q = fill(p, (void **)&p->q, s.rows * p->d, &seed);
    s.k = fill(p, (void **)&p->k, p->batch * p->k_strides.batch, &seed);
    s.v = fill(p, (void **)&p->v, p->batch * p->v_strides.batch, &seed);
    s.exact = filled(s.o_count * sizeof *s.exact);
    s.lse = filled(s.rows * sizeof *s.lse);
    s.same = filled(s.o_count * sizeof *s.same);
    s.same_lse = filled(s.rows * sizeof *s.same_lse);
    in_f64(&s, s.exact, s.lse);
    in_f32(&s, s.same, s.same_lse);
    return s;
}

static void destroy(struct sample *s)
{
    free((void *)s->problem.q);
    free((void *)s->problem.k);
    free((void *)s->problem.v);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->exact);
    free(s->lse);
    free(s->same);
    free(s->same_lse);
}

/* Runs a kernel; O as it lies in memory, and lse. Both are the caller's. */
static void *run_kernel(const struct attention_kernel *kernel, const struct sample *s,
                        uint32_t threads, float **lse)
{
    struct attention_problem p = s->problem;
    struct gemm_context *context;
    struct fault fault;
    uint64_t bytes;
    const uint64_t o_bytes = s->o_count * dtype_size(p.dtype);
    ck_assert_uint_eq(gemm_context_create(GEMM_BACKEND_CPU, NULL, threads, &context, &fault),
                      GEMMD_OK);
    ck_assert(kernel->workspace_bytes(&p, &bytes));
    unsigned char *workspace = filled(bytes), *o = p.o = filled(o_bytes);
    *lse = p.lse = filled(s->rows * sizeof **lse);
    ck_assert_uint_eq(kernel->run(context, &p, workspace), GEMMD_OK);
    for (uint64_t i = 0; i < GUARD; i++)
        ck_assert_msg(workspace[bytes + i] == POISON && o[o_bytes + i] == POISON &&
                          ((unsigned char *)(*lse + s->rows))[i] == POISON,
                      "%s wrote beyond its memory", kernel->name);
    free(workspace);
    gemm_context_destroy(context);
    return o;
}

/* Row `row` of O as a kernel left it, widened. */
static void read_row(const struct sample *s, const void *o, uint64_t row, float *out)
{
    const struct attention_problem *p = &s->problem;
    const uint64_t at = row / p->sq / p->heads * p->o_strides.batch +
                        row / p->sq % p->heads * p->o_strides.head + row % p->sq * p->o_strides.row;
    convert_widen(p->dtype, (const char *)o + at * dtype_size(p->dtype), out, p->dv);
}

/* Half the distance from 1 to the next number. */
static double rounding(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F32 ? 0x1p-24 : dtype == GEMMD_F16 ? 0x1p-11 : 0x1p-8;
}

static void check_kernel(const struct attention_kernel *kernel, const struct sample *s,
                         const char *what)
{
    const struct attention_problem *p = &s->problem;
    double error = 0, same = 0, largest = 0, lse_error = 0, lse_same = 0, lse_largest = 0;
    float row[ATTENTION_WIDTH_MAX], *lse;
    void *o = run_kernel(kernel, s, 2, &lse);
    for (uint64_t r = 0; r < s->rows; r++) {
        read_row(s, o, r, row);
        for (uint64_t c = 0; c < p->dv; c++) {
            const double exact = s->exact[r * p->dv + c];
            error = fmax(error, fabs((double)row[c] - exact));
            same = fmax(same, fabs((double)s->same[r * p->dv + c] - exact));
            largest = fmax(largest, fabs(exact));
            ck_assert_msg(isfinite(row[c]), "%s, %s: an element is not finite", kernel->name, what);
        }
        ck_assert_msg(isinf(lse[r]) == isinf(s->lse[r]), "%s, %s: lse of row %lu is %g",
                      kernel->name, what, (unsigned long)r, (double)lse[r]);
        if (isinf(s->lse[r]))
            continue;
        lse_error = fmax(lse_error, fabs((double)lse[r] - s->lse[r]));
        lse_same = fmax(lse_same, fabs((double)s->same_lse[r] - s->lse[r]));
        lse_largest = fmax(lse_largest, fabs(s->lse[r]));
    }
    /* The reference rounds to the operands' type as well. */
    const double unit = rounding(p->dtype) * largest;
    ck_assert_msg(error <= 2 * same + unit * (p->dtype == GEMMD_F32 ? 1 : 2),
                  "%s, %s: an error of %g where f32's is %g", kernel->name, what, error, same);
    ck_assert_msg(lse_error <= 2 * lse_same + 0x1p-24 * fmax(lse_largest, 1),
                  "%s, %s: an error of %g in lse where f32's is %g", kernel->name, what, lse_error,
                  lse_same);
    free(o);
    free(lse);
}

static void check_all(const struct attention_problem *like, enum attention_layout layout,
                      uint64_t gap, uint64_t seed)
{
    char what[160];
    struct sample s = make(like, layout, gap, seed);
    snprintf(what, sizeof what, "%s sq=%lu skv=%lu d=%lu dv=%lu heads=%lu/%lu causal=%d window=%ld",
             dtype_name(like->dtype), (unsigned long)like->sq, (unsigned long)like->skv,
             (unsigned long)like->d, (unsigned long)like->dv, (unsigned long)like->heads,
             (unsigned long)like->kv_heads, like->causal,
             like->windowed ? (long)like->window : -1L);
    const struct attention_kernel *const *k = attention_kernels(GEMM_BACKEND_CPU);
    for (; *k != NULL; k++) {
        ck_assert((*k)->takes(&s.problem));
        check_kernel(*k, &s, what);
    }
    destroy(&s);
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
              (uint64_t)number + 1);
}
END_TEST

START_TEST(head_sizes)
{
    static const uint64_t widths[] = {1, 2, 31, 64, 96, 129, 192, 255, 256};
    const struct attention_problem problem = {.dtype = dtypes[_i % 3],
                                              .batch = 1,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .sq = 100,
                                              .skv = 140,
                                              .d = widths[_i],
                                              .dv = widths[8 - _i],
                                              .scale = 0.125f};
    check_all(&problem, ATTENTION_BHSD, 0, (uint64_t)_i + 7);
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
    struct sample s = make(&problem, ATTENTION_BHSD, 0, 3);
    for (uint64_t entry = 0; entry < 5; entry++) {
        for (uint64_t j = (uint64_t)lens_kv[entry]; j < 200; j++) {
            for (uint64_t c = 0; c < 16; c++)
                ((float *)s.problem.k)[(entry * 200 + j) * 16 + c] = NAN;
            for (uint64_t c = 0; c < 8; c++)
                ((float *)s.problem.v)[(entry * 200 + j) * 8 + c] = NAN;
        }
    }
    for (const struct attention_kernel *const *k = attention_kernels(GEMM_BACKEND_CPU); *k != NULL;
         k++)
        check_kernel(*k, &s, "lengths of each entry");
    destroy(&s);
}
END_TEST

START_TEST(threads_change_no_bit)
{
    const struct attention_problem problem = problem_of(_i);
    struct sample s = make(&problem, ATTENTION_BHSD, 0, 11);
    for (const struct attention_kernel *const *k = attention_kernels(GEMM_BACKEND_CPU); *k != NULL;
         k++) {
        float *lse_1, *lse_3;
        void *one = run_kernel(*k, &s, 1, &lse_1), *three = run_kernel(*k, &s, 3, &lse_3);
        ck_assert_msg(memcmp(one, three, s.o_count * dtype_size(problem.dtype)) == 0 &&
                          memcmp(lse_1, lse_3, s.rows * sizeof *lse_1) == 0,
                      "%s: other bits on 3 threads than on 1", (*k)->name);
        free(one);
        free(three);
        free(lse_1);
        free(lse_3);
    }
    destroy(&s);
}
END_TEST

/* Attentions of all masks, types and lengths in one launch, which the CPU's kernel takes whatever
 * they are. */
START_TEST(a_group_changes_no_bit)
{
    enum { COUNT = 8 };
    const struct attention_kernel *kernel = attention_kernels(GEMM_BACKEND_CPU)[0];
    const struct attention_problem *list[COUNT];
    struct attention_problem problems[COUNT];
    struct sample samples[COUNT];
    struct gemm_context *context;
    struct fault fault;
    for (int i = 0; i < COUNT; i++) {
        const struct attention_problem problem = problem_of(i * 19 + _i);
        samples[i] = make(&problem, i % 2 ? ATTENTION_BSHD : ATTENTION_BHSD, 0, (uint64_t)i);
        problems[i] = samples[i].problem;
        problems[i].o = filled(samples[i].o_count * dtype_size(problem.dtype));
        problems[i].lse = i % 4 == 0 ? NULL : filled(samples[i].rows * sizeof(float));
        list[i] = &problems[i];
    }
    ck_assert_uint_eq(
        gemm_context_create(GEMM_BACKEND_CPU, NULL, 1 + (uint32_t)_i, &context, &fault), GEMMD_OK);
    ck_assert_uint_eq(kernel->run_group(context, list, COUNT), GEMMD_OK);
    gemm_context_destroy(context);
    for (int i = 0; i < COUNT; i++) {
        const struct sample *s = &samples[i];
        const uint64_t bytes = s->o_count * dtype_size(problems[i].dtype);
        float *lse;
        void *alone = run_kernel(kernel, s, 1, &lse);
        ck_assert_msg(memcmp(alone, problems[i].o, bytes + GUARD) == 0,
                      "attention %d has other bits in a group", i);
        if (problems[i].lse != NULL)
            ck_assert_msg(memcmp(lse, problems[i].lse, s->rows * sizeof *lse + GUARD) == 0,
                          "lse of attention %d has other bits in a group", i);
        free(alone);
        free(lse);
        free(problems[i].o);
        free(problems[i].lse);
        destroy(&samples[i]);
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
    for (const struct attention_kernel *const *k = attention_kernels(GEMM_BACKEND_CPU); *k != NULL;
         k++) {
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
    const struct gemm_device cpu = {GEMM_BACKEND_CPU, 0};
    struct attention_problem p = {.dtype = GEMMD_F16,
                                  .batch = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .sq = 1,
                                  .skv = 1,
                                  .d = 1,
                                  .dv = 1};
    const struct attention_kernel *kernel;
    struct fault fault;
    ck_assert_uint_eq(attention_select(&cpu, "auto", &p, &kernel, &fault), GEMMD_OK);
    ck_assert_str_eq(kernel->name, "tiled");
    ck_assert_uint_eq(attention_select(&cpu, "naive", &p, &kernel, &fault), GEMMD_OK);
    ck_assert_str_eq(kernel->name, "naive");
    ck_assert_uint_eq(attention_select(&cpu, "cublas", &p, &kernel, &fault), GEMMD_ERR_UNSUPPORTED);
    ck_assert_str_eq(fault.field, "kernel");
    ck_assert_ptr_nonnull(strstr(fault.detail, "tiled, naive"));
    p.dtype = GEMMD_F8_E4M3;
    ck_assert_uint_eq(attention_select(&cpu, "auto", &p, &kernel, &fault), GEMMD_ERR_UNSUPPORTED);
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
    tcase_add_loop_test(tests, head_sizes, 0, 9);
    tcase_add_loop_test(tests, lengths_of_each_entry, 0, 4);
    tcase_add_loop_test(tests, threads_change_no_bit, 0, 18);
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
