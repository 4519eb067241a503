#include "tests/product/attention_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"
#include "tests/product/random.h"

enum {
    GUARD = 256,
    OPERAND_POISON = 0xff, /* NaN in every type */
    RESULT_POISON = 0x7b,  /* a large number in every type, where NaN may be the right result */
};

static uint64_t length_q(const struct attention_problem *p, uint64_t entry)
{
    return p->lens_q != NULL ? (uint64_t)p->lens_q[entry] : p->sq;
}

static uint64_t length_kv(const struct attention_problem *p, uint64_t entry)
{
    return p->lens_q != NULL ? (uint64_t)p->lens_kv[entry] : p->skv;
}

/* What the mask adds to a score. */
static float added(const struct attention_problem *p, uint64_t entry, uint64_t head, uint64_t i,
                   uint64_t j)
{
    const struct attention_strides *s = &p->mask_strides;
    float value;
    if (p->mask == NULL)
        return 0;
    const char *at = (const char *)p->mask + (entry * s->batch + head * s->head + i * s->row + j) *
                                                 dtype_size(p->mask_dtype);
    if (p->mask_dtype == GEMMD_I8)
        return *at != 0 ? 0 : -INFINITY;
    convert_widen(p->mask_dtype, at, &value, 1);
    return value;
}

/* Written out anew, as attention.h says it: kernels share attention_position and attention_span. */
static int64_t position_of(const struct attention_problem *p, uint64_t entry, uint64_t i)
{
    const int64_t sq = (int64_t)length_q(p, entry), skv = (int64_t)length_kv(p, entry);
    return (int64_t)i + (p->has_offset ? (int64_t)p->offset : skv - sq);
}

static bool sees(const struct attention_problem *p, uint64_t entry, uint64_t head, uint64_t i,
                 uint64_t j)
{
    const int64_t sq = (int64_t)length_q(p, entry), skv = (int64_t)length_kv(p, entry);
    const int64_t position = position_of(p, entry, i);
    return added(p, entry, head, i, j) != -INFINITY && (int64_t)i < sq && (int64_t)j < skv &&
           (!p->causal || (int64_t)j <= position) &&
           (!p->windowed || (int64_t)j >= position - (int64_t)p->window) &&
           (!p->right_windowed || (int64_t)j <= position + (int64_t)p->window_right);
}

static const float *line_of(const float *tensor, const struct attention_strides *strides,
                            uint64_t entry, uint64_t head, uint64_t row)
{
    return tensor + entry * strides->batch + head * strides->head + row * strides->row;
}

static double rounded_f64(double a, double b, double c)
{
    return a * b + c;
}

static float rounded_f32(float a, float b, float c)
{
    return a * b + c;
}

/* The three steps, one row at a time, one term after another; operands are widened. */
#define THREE_STEPS(NAME, REAL, ADD, EXP, LOG, TANH, INF)                                          \
    static void NAME(const struct attention_problem *p, float *const operands[], REAL *weights,    \
                     uint64_t row, REAL *o, REAL *lse)                                             \
    {                                                                                              \
        const uint64_t i = row % p->sq, head = row / p->sq % p->heads;                             \
        const uint64_t entry = row / p->sq / p->heads, kv_head = head / (p->heads / p->kv_heads);  \
        const float *q = line_of(operands[ATTENTION_Q], &p->q_strides, entry, head, i);            \
        uint64_t first = 0, end = p->skv;                                                          \
        const bool sinks = p->sinks != NULL && i < length_q(p, entry);                             \
        REAL most = sinks ? (REAL)p->sinks[head] : -INF, total = 0;                                \
        for (uint64_t c = 0; c < p->dv; c++)                                                       \
            o[c] = 0;                                                                              \
        *lse = most;                                                                               \
        while (first < end && !sees(p, entry, head, i, first))                                     \
            first++;                                                                               \
        while (first < end && !sees(p, entry, head, i, end - 1))                                   \
            end--;                                                                                 \
        if (first == end)                                                                          \
            return;                                                                                \
        for (uint64_t j = first; j < end; j++) {                                                   \
            weights[j] = 0;                                                                        \
            if (p->mask != NULL && !sees(p, entry, head, i, j))                                    \
                continue;                                                                          \
            const float *k = line_of(operands[ATTENTION_K], &p->k_strides, entry, kv_head, j);     \
            REAL sum = 0;                                                                          \
            for (uint64_t c = 0; c < p->d; c++)                                                    \
                sum = ADD((REAL)q[c], (REAL)k[c], sum);                                            \
            sum *= (REAL)p->scale;                                                                 \
            if (p->softcap > 0)                                                                    \
                sum = (REAL)p->softcap * TANH(sum / (REAL)p->softcap);                             \
            if (p->slopes != NULL)                                                                 \
                sum += (REAL)added(p, entry, head, i, j) -                                         \
                       (REAL)p->slopes[head] * (REAL)llabs((int64_t)j - position_of(p, entry, i)); \
            else if (p->mask != NULL)                                                              \
                sum += (REAL)added(p, entry, head, i, j);                                          \
            weights[j] = sum;                                                                      \
            most = sum > most ? sum : most;                                                        \
        }                                                                                          \
        if (sinks)                                                                                 \
            total = EXP((REAL)p->sinks[head] - most);                                              \
        for (uint64_t j = first; j < end; j++)                                                     \
            if (p->mask == NULL || sees(p, entry, head, i, j))                                     \
                total += weights[j] = EXP(weights[j] - most);                                      \
        for (uint64_t j = first; j < end; j++) {                                                   \
            if (p->mask != NULL && !sees(p, entry, head, i, j))                                    \
                continue;                                                                          \
            const float *v = line_of(operands[ATTENTION_V], &p->v_strides, entry, kv_head, j);     \
            for (uint64_t c = 0; c < p->dv; c++)                                                   \
                o[c] = ADD(weights[j] / total, (REAL)v[c], o[c]);                                  \
        }                                                                                          \
        *lse = most + LOG(total);                                                                  \
    }
THREE_STEPS(in_f64, double, rounded_f64, exp, log, tanh, (double)INFINITY)
THREE_STEPS(in_f32, float, rounded_f32, expf, logf, tanhf, INFINITY)
THREE_STEPS(fused, float, fmaf, expf, logf, tanhf, INFINITY)

/* A part as it lies in memory. */
struct shape {
    enum gemmd_dtype dtype;
    struct attention_strides strides;
    uint64_t heads, length, width;
};

static struct shape shape_of(const struct attention_problem *p, enum attention_part part)
{
    switch (part) {
    case ATTENTION_Q:
        return (struct shape){p->dtype, p->q_strides, p->heads, p->sq, p->d};
    case ATTENTION_K:
        return (struct shape){p->dtype, p->k_strides, p->kv_heads, p->skv, p->d};
    case ATTENTION_V:
        return (struct shape){p->dtype, p->v_strides, p->kv_heads, p->skv, p->dv};
    case ATTENTION_O:
        return (struct shape){p->dtype, p->o_strides, p->heads, p->sq, p->dv};
    default:
        return (struct shape){GEMMD_F32, attention_strides(ATTENTION_BHSD, p->heads, p->sq, 1),
                              p->heads, p->sq, 1};
    }
}

/* Calls `visit` for each row that a part has, with where it begins. */
static void for_each_row(const struct attention_sample *sample, enum attention_part part,
                         void (*visit)(const struct shape *shape, uint64_t entry, uint64_t row,
                                       uint64_t at, void *argument),
                         void *argument)
{
    const struct attention_problem *p = &sample->problem;
    const struct shape shape = shape_of(p, part);
    for (uint64_t entry = 0; entry < p->batch; entry++)
        for (uint64_t head = 0; head < shape.heads; head++)
            for (uint64_t row = 0; row < shape.length; row++)
                visit(&shape, entry, row,
                      entry * shape.strides.batch + head * shape.strides.head +
                          row * shape.strides.row,
                      argument);
}

/* ---- making one ---- */

static bool allocate(struct attention_sample *sample, enum attention_part part, void **start)
{
    const struct shape shape = shape_of(&sample->problem, part);
    struct product_buffer *buffer = &sample->buffers[part];
    const uint64_t elements = sample->problem.batch * shape.strides.batch;
    buffer->offset = GUARD;
    buffer->bytes = 2 * GUARD + elements * dtype_size(shape.dtype);
    buffer->data = aligned_alloc(256, (buffer->bytes + 255) / 256 * 256);
    if (buffer->data == NULL)
        return false;
    memset(buffer->data, OPERAND_POISON, buffer->bytes);
    *start = buffer->data + GUARD;
    return true;
}

struct filling {
    const struct attention_problem *problem;
    unsigned char *data;
    float *wide;
    uint64_t *seed;
    bool queries; /* or keys: whose lengths count */
    bool coarse;  /* elements with few digits */
};

static void fill_row(const struct shape *shape, uint64_t entry, uint64_t row, uint64_t at,
                     void *argument)
{
    const struct filling *filling = argument;
    unsigned char *narrow = filling->data + at * dtype_size(shape->dtype);
    float *wide = filling->wide + at;
    const struct attention_problem *p = filling->problem;
    if (row >= (filling->queries ? length_q(p, entry) : length_kv(p, entry)))
        return;                                         /* NaN it stays */
    const uint64_t steps = filling->coarse ? 4 : 32768; /* from 0 to 1 */
    for (uint64_t c = 0; c < shape->width; c++)
        wide[c] = (float)(random_next(filling->seed) % (2 * steps)) / (float)steps - 1;
    convert_narrow(shape->dtype, wide, narrow, shape->width);
    convert_widen(shape->dtype, narrow, wide, shape->width);
}

/* A few elements that are not finite: more, and all would be NaN. */
static void strew(const struct attention_sample *sample, enum attention_part part, float *wide,
                  uint64_t *seed)
{
    const struct shape shape = shape_of(&sample->problem, part);
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (uint64_t number = 0; number < 3; number++) {
        const uint64_t at = random_next(seed) % sample->problem.batch * shape.strides.batch +
                            random_next(seed) % shape.heads * shape.strides.head +
                            random_next(seed) % shape.length * shape.strides.row +
                            random_next(seed) % shape.width;
        wide[at] = values[(random_next(seed) + number) % 3];
        convert_narrow(shape.dtype, wide + at,
                       sample->buffers[part].data + GUARD + at * dtype_size(shape.dtype), 1);
    }
}

/* An operand, and the same in f32 with the same strides, which is the caller's. */
static float *fill(struct attention_sample *sample, enum attention_part part,
                   enum product_fill fill, uint64_t *seed)
{
    const uint64_t elements =
        sample->problem.batch * shape_of(&sample->problem, part).strides.batch;
    float *wide = malloc((elements + 1) * sizeof *wide);
    if (wide == NULL)
        return NULL;
    memset(wide, OPERAND_POISON, elements * sizeof *wide);
    struct filling filling = {.problem = &sample->problem,
                              .data = sample->buffers[part].data + GUARD,
                              .wide = wide,
                              .seed = seed,
                              .queries = part == ATTENTION_Q,
                              .coarse = fill == PRODUCT_EXTREME && part != ATTENTION_V};
    for_each_row(sample, part, fill_row, &filling);
    if (fill == PRODUCT_SPECIAL)
        strew(sample, part, wide, seed);
    return wide;
}

/* Of two results in f32, the one that is further off. */
static void keep_worse(float *same, const float *other, const double *exact, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (fabs((double)other[i] - exact[i]) > fabs((double)same[i] - exact[i]))
            same[i] = other[i];
}

/* Products of numbers of 16 bits are exact in f32: fused or not is then the same. */
static void expect_row(struct attention_sample *sample, float *const operands[], uint64_t row,
                       double *weights, float *same_weights)
{
    const struct attention_problem *p = &sample->problem;
    double *exact = sample->exact + row * p->dv, *exact_lse = sample->exact_lse + row;
    float *same = sample->same + row * p->dv, *same_lse = sample->same_lse + row;
    float other[ATTENTION_WIDTH_MAX], other_lse;
    in_f64(p, operands, weights, row, exact, exact_lse);
    in_f32(p, operands, same_weights, row, same, same_lse);
    if (p->dtype != GEMMD_F32)
        return;
    fused(p, operands, same_weights, row, other, &other_lse);
    keep_worse(same, other, exact, p->dv);
    keep_worse(same_lse, &other_lse, exact_lse, 1);
}

static bool expect(struct attention_sample *sample, float *const operands[])
{
    const struct attention_problem *p = &sample->problem;
    sample->exact = malloc(sample->rows * p->dv * sizeof *sample->exact);
    sample->exact_lse = malloc(sample->rows * sizeof *sample->exact_lse);
    sample->same = malloc(sample->rows * p->dv * sizeof *sample->same);
    sample->same_lse = malloc(sample->rows * sizeof *sample->same_lse);
    double *weights = malloc(p->skv * sizeof *weights);
    float *same_weights = malloc(p->skv * sizeof *same_weights);
    const bool done = sample->exact != NULL && sample->exact_lse != NULL && sample->same != NULL &&
                      sample->same_lse != NULL && weights != NULL && same_weights != NULL;
    for (uint64_t row = 0; done && row < sample->rows; row++)
        expect_row(sample, operands, row, weights, same_weights);
    free(weights);
    free(same_weights);
    return done;
}

bool attention_sample_create(struct attention_sample *sample, const struct attention_problem *like,
                             enum attention_layout layout, uint64_t gap, enum product_fill kind,
                             uint64_t seed)
{
    *sample =
        (struct attention_sample){.problem = *like, .rows = like->batch * like->heads * like->sq};
    struct attention_problem *p = &sample->problem;
    void *starts[ATTENTION_PARTS];
    float *operands[ATTENTION_PARTS] = {NULL};
    p->q_strides = attention_strides(layout, p->heads, p->sq, p->d + gap);
    p->k_strides = attention_strides(layout, p->kv_heads, p->skv, p->d + gap);
    p->v_strides = attention_strides(layout, p->kv_heads, p->skv, p->dv + gap);
    p->o_strides = attention_strides(layout, p->heads, p->sq, p->dv + 2 * gap);
    bool done = true;
    for (int part = 0; part < ATTENTION_PARTS && done; part++)
        done = allocate(sample, (enum attention_part)part, &starts[part]);
    for (int part = 0; part <= ATTENTION_V && done; part++) {
        operands[part] = fill(sample, (enum attention_part)part, kind, &seed);
        done = operands[part] != NULL;
    }
    done = done && expect(sample, operands);
    for (int part = 0; part <= ATTENTION_V; part++)
        free(operands[part]);
    if (!done) {
        attention_sample_destroy(sample);
        return false;
    }
    p->q = starts[ATTENTION_Q];
    p->k = starts[ATTENTION_K];
    p->v = starts[ATTENTION_V];
    p->o = starts[ATTENTION_O];
    p->lse = starts[ATTENTION_LSE];
    attention_sample_poison(sample);
    return true;
}

void *attention_sample_mask(struct attention_problem *like, enum gemmd_dtype dtype, unsigned sizes,
                            uint64_t seed)
{
    const uint64_t entries = sizes & 1 ? like->batch : 1, heads = sizes & 2 ? like->heads : 1;
    const uint64_t queries = sizes & 4 ? like->sq : 1, rows = entries * heads * queries;
    char *mask = malloc(rows * like->skv * dtype_size(dtype));
    for (uint64_t i = 0; mask != NULL && i < rows * like->skv; i++) {
        const bool hidden = random_next(&seed) % 3 == 0 || i / like->skv % queries == 10;
        const float value = hidden ? -INFINITY : (float)(random_next(&seed) % 64) / 16 - 2;
        if (dtype == GEMMD_I8)
            mask[i] = hidden ? 0 : (char)(1 + i % 100);
        else
            convert_narrow(dtype, &value, mask + i * dtype_size(dtype), 1);
    }
    like->mask = mask;
    like->mask_dtype = dtype;
    like->mask_strides = (struct attention_strides){
        .batch = entries == 1 ? 0 : heads * queries * like->skv,
        .head = heads == 1 ? 0 : queries * like->skv,
        .row = queries == 1 ? 0 : like->skv,
    };
    return mask;
}

void attention_sample_destroy(struct attention_sample *sample)
{
    for (int part = 0; part < ATTENTION_PARTS; part++)
        free(sample->buffers[part].data);
    free(sample->exact);
    free(sample->exact_lse);
    free(sample->same);
    free(sample->same_lse);
}

void attention_sample_poison(struct attention_sample *sample)
{
    for (int part = ATTENTION_O; part < ATTENTION_PARTS; part++)
        memset(sample->buffers[part].data, RESULT_POISON, sample->buffers[part].bytes);
}

/* ---- looking at a result ---- */

/* Half the distance from 1 to the next number. */
static double rounding(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F32 ? 0x1p-24 : dtype == GEMMD_F16 ? 0x1p-11 : 0x1p-8;
}

struct errors {
    double error, same, largest;
    double beyond; /* error, less what each element may be off in any case; of lse only */
};

/* Takes in one element; false if it is not what it should be however large errors may be. */
static bool take(struct errors *errors, double got, double same, double exact)
{
    if (isnan(exact) || isinf(exact))
        return isnan(exact) ? isnan(got) : got == exact;
    if (!isfinite(got))
        return false;
    errors->error = fmax(errors->error, fabs(got - exact));
    errors->same = fmax(errors->same, fabs(same - exact));
    errors->largest = fmax(errors->largest, fabs(exact));
    return true;
}

static bool check_o(const struct attention_sample *sample, struct errors *errors, char *text,
                    uint64_t size)
{
    const struct attention_problem *p = &sample->problem;
    float line[ATTENTION_WIDTH_MAX];
    for (uint64_t row = 0; row < sample->rows; row++) {
        const uint64_t at = row / p->sq / p->heads * p->o_strides.batch +
                            row / p->sq % p->heads * p->o_strides.head +
                            row % p->sq * p->o_strides.row;
        convert_widen(p->dtype, (const char *)p->o + at * dtype_size(p->dtype), line, p->dv);
        for (uint64_t c = 0; c < p->dv; c++) {
            const uint64_t i = row * p->dv + c;
            if (take(errors, (double)line[c], (double)sample->same[i], sample->exact[i]))
                continue;
            snprintf(text, size, "column %lu of row %lu is %g and should be %g", (unsigned long)c,
                     (unsigned long)row, (double)line[c], sample->exact[i]);
            return false;
        }
    }
    return true;
}

/* What an lse may be off however well it was computed, and though the reference happened to be
 * exact. With u = 2^-24, half a unit in the last place, and n keys and sinks that are seen at most:
 *   - scores, times the scale and log2 e, which was rounded too: 2.2 u of each. Averaged with the
 *     weights, scores are at most |lse| + log n (the weights' entropy is at most log n).
 *   - the total: an exponential of two units, its argument and one addition, 5.4 u; its logarithm,
 *     at most log n, to a unit: 2 u of that.
 *   - the largest score plus that, and times ln 2: 2 u of lse.
 * Together 4.2 |lse| + 4.2 log n + 5.4 u. A key of 8192 equal ones that is left out is 20 times as
 * much, a factor that is off by 2^-18 at the same lse 6 times. */
static double lse_resolution(const struct attention_problem *p, double exact)
{
    return 0x1p-24 * 5 * (fabs(exact) + log((double)p->skv + (p->sinks != NULL)) + 1);
}

static bool check_lse(const struct attention_sample *sample, struct errors *errors, char *text,
                      uint64_t size)
{
    for (uint64_t row = 0; row < sample->rows; row++) {
        const float got = sample->problem.lse[row];
        const double exact = sample->exact_lse[row];
        if (take(errors, (double)got, (double)sample->same_lse[row], exact)) {
            if (isfinite(exact))
                errors->beyond = fmax(errors->beyond, fabs((double)got - exact) -
                                                          lse_resolution(&sample->problem, exact));
            continue;
        }
        snprintf(text, size, "lse of row %lu is %g and should be %g", (unsigned long)row,
                 (double)got, sample->exact_lse[row]);
        return false;
    }
    return true;
}

/* Marks the bytes of a row as its own. */
static void own_row(const struct shape *shape, uint64_t entry, uint64_t row, uint64_t at,
                    void *argument)
{
    (void)entry, (void)row;
    const uint64_t bytes = dtype_size(shape->dtype);
    memset((unsigned char *)argument + GUARD + at * bytes, 1, shape->width * bytes);
}

static bool check_around(const struct attention_sample *sample, enum attention_part part,
                         char *text, uint64_t size)
{
    const struct product_buffer *buffer = &sample->buffers[part];
    unsigned char *own = calloc(1, buffer->bytes);
    bool intact = own != NULL;
    snprintf(text, size, "no memory");
    if (intact && (part != ATTENTION_LSE || sample->problem.lse != NULL))
        for_each_row(sample, part, own_row, own);
    for (uint64_t i = 0; i < buffer->bytes && intact; i++) {
        intact = own[i] != 0 || buffer->data[i] == RESULT_POISON;
        if (!intact)
            snprintf(text, size, "byte %ld of %s was written, which is none of its rows'",
                     (long)i - GUARD, part == ATTENTION_O ? "O" : "lse");
    }
    free(own);
    return intact;
}

bool attention_sample_check(const struct attention_sample *sample, double *worst, char *text,
                            uint64_t size)
{
    const struct attention_problem *p = &sample->problem;
    struct errors o = {0}, lse = {0};
    if (!check_around(sample, ATTENTION_O, text, size) ||
        !check_around(sample, ATTENTION_LSE, text, size) || !check_o(sample, &o, text, size) ||
        (p->lse != NULL && !check_lse(sample, &lse, text, size)))
        return false;
    const double allowed =
        2 * o.same + rounding(p->dtype) * o.largest * (p->dtype == GEMMD_F32 ? 1 : 2);
    /* Tensor cores add up in an order of their own, and cut off instead of rounding. */
    const double score = p->dtype == GEMMD_F32 ? 0 : fabs((double)p->scale) * (double)p->d;
    const double lse_allowed = 2 * lse.same + 0x1p-24 * score;
    if (worst != NULL && o.error > 0)
        *worst = fmax(*worst, o.error / allowed);
    snprintf(text, size, "an error of %g in O (f32 makes %g), of %g in lse (%g)", o.error, o.same,
             lse.error, lse.same);
    return o.error <= allowed && lse.beyond <= lse_allowed;
}

void attention_describe(const struct attention_problem *p, char *text, uint64_t size)
{
    char window[32] = "", right[40] = "", offset[32] = "";
    if (p->windowed)
        snprintf(window, sizeof window, ", window %lu", (unsigned long)p->window);
    if (p->right_windowed)
        snprintf(right, sizeof right, ", window to the right %lu", (unsigned long)p->window_right);
    if (p->has_offset)
        snprintf(offset, sizeof offset, ", offset %lu", (unsigned long)p->offset);
    snprintf(text, size,
             "%s, %lu x %lu heads on %lu, %lu x %lu, d %lu, dv %lu%s%s%s%s%s%s%s%s%s, scale %g, "
             "softcap %g, "
             "rows of Q %lu apart",
             dtype_name(p->dtype), (unsigned long)p->batch, (unsigned long)p->heads,
             (unsigned long)p->kv_heads, (unsigned long)p->sq, (unsigned long)p->skv,
             (unsigned long)p->d, (unsigned long)p->dv, p->causal ? ", causal" : "", window, right,
             offset, p->lens_q != NULL ? ", lens" : "", p->slopes != NULL ? ", slopes" : "",
             p->sinks != NULL ? ", sinks" : "", p->mask != NULL ? ", mask of " : "",
             p->mask != NULL ? dtype_name(p->mask_dtype) : "", (double)p->scale, (double)p->softcap,
             (unsigned long)p->q_strides.row);
}
