#include "tests/simulate/reference.h"

#include <math.h>

#include "tests/simulate/threads.h"

static void compute_product(const struct gemm_problem *p)
{
    for (uint64_t number = 0; number < p->batch; number++) {
        const float *a = (const float *)p->a + number * p->stride_a;
        const float *b = (const float *)p->b + number * p->stride_b;
        const float *c0 = p->beta != 0 ? (const float *)p->c0 + number * p->stride_c0 : NULL;
        float *c = (float *)p->c + number * p->stride_c;
        for (uint64_t i = 0; i < p->m; i++)
            for (uint64_t j = 0; j < p->n; j++) {
                float sum = 0;
                for (uint64_t l = 0; l < p->k; l++)
                    sum += a[i * p->lda + l] * b[l * p->ldb + j];
                c[i * p->ldc + j] = (float)p->alpha * sum;
                if (c0 != NULL)
                    c[i * p->ldc + j] += (float)p->beta * c0[i * p->ldc0 + j];
            }
    }
}

static void compute_sums(const struct reduce_problem *p)
{
    const float *x = p->x;
    float *y = p->y;
    if (p->op != REDUCE_SUM || !reduce_is_of_rows(p))
        fail("the simulation has no reduction of this kind");
    for (uint64_t row = 0; row < p->outer; row++) {
        float sum = 0;
        for (uint64_t i = 0; i < p->length; i++)
            sum += x[row * p->outer_stride + i];
        y[row / p->y_width * p->y_leading + row % p->y_width] = sum;
    }
}

/* Replaces scores by their softmax. */
static void softmax_in_place(float *scores, uint64_t count)
{
    float most = -INFINITY, sum = 0;
    for (uint64_t i = 0; i < count; i++)
        most = fmaxf(most, scores[i]);
    for (uint64_t i = 0; i < count; i++)
        sum += scores[i] = expf(scores[i] - most);
    for (uint64_t i = 0; i < count; i++)
        scores[i] /= sum;
}

static void compute_softmax(const struct softmax_problem *p)
{
    for (uint64_t row = 0; row < p->rows; row++) {
        const float *x = (const float *)p->x + row * p->x_leading;
        float *y = (float *)p->y + row * p->y_leading;
        for (uint64_t i = 0; i < p->length; i++)
            y[i] = (float)p->scale * x[i];
        softmax_in_place(y, p->length);
    }
}

enum { KEYS_MAX = 64 };

static const float *row_of(const void *tensor, const struct attention_strides *strides,
                           uint64_t entry, uint64_t head, uint64_t row)
{
    return (const float *)tensor + entry * strides->batch + head * strides->head +
           row * strides->row;
}

static void attend(const struct attention_problem *p, uint64_t entry, uint64_t head, uint64_t row)
{
    const uint64_t kv_head = head / (p->heads / p->kv_heads);
    const float *q = row_of(p->q, &p->q_strides, entry, head, row);
    float *o = (float *)(uintptr_t)row_of(p->o, &p->o_strides, entry, head, row);
    float scores[KEYS_MAX];
    for (uint64_t key = 0; key < p->skv; key++) {
        const float *k = row_of(p->k, &p->k_strides, entry, kv_head, key);
        float sum = 0;
        for (uint64_t i = 0; i < p->d; i++)
            sum += q[i] * k[i];
        scores[key] = p->scale * sum;
    }
    softmax_in_place(scores, p->skv);
    for (uint64_t i = 0; i < p->dv; i++) {
        o[i] = 0;
        for (uint64_t key = 0; key < p->skv; key++)
            o[i] += scores[key] * row_of(p->v, &p->v_strides, entry, kv_head, key)[i];
    }
}

static void compute_attention(const struct attention_problem *p)
{
    if (p->skv > KEYS_MAX || p->causal || p->windowed || p->lens_kv != NULL)
        fail("the simulation has no attention of this kind");
    for (uint64_t entry = 0; entry < p->batch; entry++)
        for (uint64_t head = 0; head < p->heads; head++)
            for (uint64_t row = 0; row < p->sq; row++)
                attend(p, entry, head, row);
}

/* One element of Y. Padding is zeros, which a sum can leave out. */
static float convolve(const struct conv_problem *p, uint64_t image, uint64_t filter, uint64_t i,
                      uint64_t j)
{
    const struct conv_shape *s = &p->shape;
    const struct conv_strides x = conv_strides_x(p), w = conv_strides_w(p);
    float sum = 0;
    for (uint64_t c = 0; c < s->channels; c++)
        for (uint64_t r = 0; r < s->r; r++)
            for (uint64_t q = 0; q < s->s; q++) {
                const uint64_t row = i + r, column = j + q; /* behind the padding */
                if (row < s->pad_top || row - s->pad_top >= s->height || column < s->pad_left ||
                    column - s->pad_left >= s->width)
                    continue;
                sum += ((const float *)
                            p->x)[image * x.image + c * x.channel + (row - s->pad_top) * x.row +
                                  (column - s->pad_left) * x.column] *
                       ((const float *)
                            p->w)[filter * w.image + c * w.channel + r * w.row + q * w.column];
            }
    return sum;
}

static void compute_convolution(const struct conv_problem *p)
{
    const struct conv_shape *s = &p->shape;
    const struct conv_strides y = conv_strides_y(p);
    if (s->groups != 1 || s->stride_h != 1 || s->stride_w != 1 || s->dilation_h != 1 ||
        s->dilation_w != 1 || p->bias != NULL)
        fail("the simulation has no convolution of this kind");
    for (uint64_t image = 0; image < s->batch; image++)
        for (uint64_t filter = 0; filter < s->filters; filter++)
            for (uint64_t i = 0; i < s->out_height; i++)
                for (uint64_t j = 0; j < s->out_width; j++)
                    ((float *)
                         p->y)[image * y.image + filter * y.channel + i * y.row + j * y.column] =
                        convolve(p, image, filter, i, j);
}

void reference_compute(const struct task *task)
{
    switch (task->operation->number) {
    case OPERATION_GEMM:
        compute_product(&task->problem.gemm);
        return;
    case OPERATION_REDUCE:
        compute_sums(&task->problem.reduce);
        return;
    case OPERATION_SOFTMAX:
        compute_softmax(&task->problem.softmax);
        return;
    case OPERATION_ATTENTION:
        compute_attention(&task->problem.attention);
        return;
    case OPERATION_CONV2D:
        compute_convolution(&task->problem.conv2d);
        return;
    case OPERATION_EXPERTS:
    case OPERATION_COUNT:
        break;
    }
    fail("the simulation does not compute %s", task->operation->name);
}
