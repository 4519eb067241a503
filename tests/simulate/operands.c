#include "tests/simulate/operands.h"

#include "tests/simulate/threads.h"

static const float ATTENTION_SCALE = 0.25F;

void operands_fill(uint64_t contents, float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t state = contents + i;
        out[i] = (float)(int)(random_number(&state) % 7) - 3;
    }
}

/* The elements of A, Q, the images or the array in the body. */
static uint64_t first_elements(const struct request_traits *t)
{
    if (t->kind == REQUEST_PUT)
        return 0;
    switch (t->operation) {
    case OPERATION_GEMM:
        return t->batch * t->m * t->k;
    case OPERATION_ATTENTION:
        return t->batch * t->n * t->m * t->k;
    case OPERATION_CONV2D:
        return t->batch * CONV_CHANNELS * t->m * t->n;
    default:
        return t->m * t->n;
    }
}

/* The elements of B, of K and V, or of the filters in the body. */
static uint64_t second_elements(const struct request_traits *t)
{
    switch (t->operation) {
    case OPERATION_GEMM:
        return t->kind == REQUEST_PUT || t->b < 0 ? t->batch * t->k * t->n : 0;
    case OPERATION_ATTENTION:
        return 2 * first_elements(t);
    case OPERATION_CONV2D:
        return t->k * CONV_CHANNELS * CONV_SIDE * CONV_SIDE;
    default:
        return 0;
    }
}

uint64_t operands_in_body(const struct request_traits *t)
{
    return first_elements(t) + second_elements(t);
}

uint64_t operands_in_result(const struct request_traits *t)
{
    switch (t->operation) {
    case OPERATION_ATTENTION:
        return first_elements(t);
    case OPERATION_CONV2D:
        return t->batch * t->k * t->m * t->n;
    case OPERATION_REDUCE:
        return t->m;
    default:
        return t->batch * t->m * t->n;
    }
}

static union operation_problem product_of(const struct request_traits *t, const float *a,
                                          const float *b, float *c)
{
    union operation_problem problem = {.gemm = {.m = t->m,
                                                .n = t->n,
                                                .k = t->k,
                                                .batch = t->batch,
                                                .alpha = 1,
                                                .a = a,
                                                .b = b,
                                                .c = c}};
    gemm_problem_contiguous(&problem.gemm);
    return problem;
}

static union operation_problem attention_of(const struct request_traits *t, const float *q,
                                            float *o)
{
    const struct attention_strides strides = attention_strides(ATTENTION_BHSD, t->n, t->m, t->k);
    const uint64_t count = first_elements(t);
    return (union operation_problem){.attention = {.batch = t->batch,
                                                   .heads = t->n,
                                                   .kv_heads = t->n,
                                                   .sq = t->m,
                                                   .skv = t->m,
                                                   .d = t->k,
                                                   .dv = t->k,
                                                   .scale = ATTENTION_SCALE,
                                                   .q = q,
                                                   .k = q + count,
                                                   .v = q + 2 * count,
                                                   .o = o,
                                                   .q_strides = strides,
                                                   .k_strides = strides,
                                                   .v_strides = strides,
                                                   .o_strides = strides}};
}

static union operation_problem convolution_of(const struct request_traits *t, const float *x,
                                              float *y)
{
    union operation_problem problem = {.conv2d = {.shape = {.layout = CONV_NCHW,
                                                            .w_layout = CONV_KCRS,
                                                            .batch = t->batch,
                                                            .channels = CONV_CHANNELS,
                                                            .height = t->m,
                                                            .width = t->n,
                                                            .filters = t->k,
                                                            .r = CONV_SIDE,
                                                            .s = CONV_SIDE,
                                                            .groups = 1,
                                                            .stride_h = 1,
                                                            .stride_w = 1,
                                                            .dilation_h = 1,
                                                            .dilation_w = 1},
                                                  .alpha = 1,
                                                  .x = x,
                                                  .w = x + first_elements(t),
                                                  .y = y}};
    struct fault fault = {.detail = ""};
    conv_shape_pad_same(&problem.conv2d.shape);
    if (conv_shape_settle(&problem.conv2d.shape, &fault) != GEMMD_OK)
        fail("a convolution: %s", fault.detail);
    return problem;
}

static union operation_problem array_of(const struct request_traits *t, const float *x, float *y)
{
    const struct array_shape shape = {.rank = 2, .dims = {t->m, t->n}};
    union operation_problem problem = {0};
    if (t->operation == OPERATION_REDUCE) {
        reduce_problem_of(&problem.reduce, &shape, 1, t->n);
        problem.reduce.x = x;
        problem.reduce.y = y;
    } else {
        softmax_problem_of(&problem.softmax, &shape, 0);
        problem.softmax.x = x;
        problem.softmax.y = y;
    }
    return problem;
}

struct task operands_task(const struct request_traits *t, const float *body, const float *b,
                          float *result)
{
    struct task task = {.operation = operation_table[t->operation]};
    switch (t->operation) {
    case OPERATION_GEMM:
        task.problem = product_of(t, body, b != NULL ? b : body + first_elements(t), result);
        break;
    case OPERATION_ATTENTION:
        task.problem = attention_of(t, body, result);
        break;
    case OPERATION_CONV2D:
        task.problem = convolution_of(t, body, result);
        break;
    default:
        task.problem = array_of(t, body, result);
    }
    return task;
}
