/* The softmax as its formula says, in f64: the reference, and the kernel of f64. */
#include <math.h>

#include "kernels/cpu/compensated_sum.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/softmax.h"
#include "proto/dtype.h"

static void softmax_store(enum gemmd_dtype out, double value, char *y)
{
    const float narrow = (float)value;
    if (out == GEMMD_F64)
        *(double *)(void *)y = value;
    else
        convert_narrow(out, &narrow, y, 1);
}

/* An element in units of the scale (struct softmax_scale). */
static double score(const struct softmax_problem *p, double unit, const char *x, uint64_t i)
{
    double value;
    convert_to_f64(p->dtype, x + i * dtype_size(p->dtype), &value, 1);
    return unit * value;
}

enum { EXP_STEPS = 8 }; /* steps of struct team_pace that an exponential takes */

struct softmax_naive_job {
    const struct softmax_problem *p;
    struct team *team;
};

static void softmax_naive_row(void *argument, uint64_t row, uint32_t member)
{
    const struct softmax_naive_job *job = argument;
    const struct softmax_problem *p = job->p;
    struct team_pace pace = {.team = job->team};
    const uint64_t length = softmax_length(p, row), size = dtype_size(p->out);
    const char *x = (const char *)p->x + row * p->x_leading * dtype_size(p->dtype);
    char *y = (char *)p->y + row * p->y_leading * size;
    const struct softmax_scale scale = softmax_scale(p->scale);
    double most = -INFINITY;
    struct compensated_sum sum = {0};
    (void)member;
    for (uint64_t i = 0; i < length; i++) {
        if (team_pace_stops(&pace, 1))
            return;
        most = fmax(most, score(p, scale.unit, x, i)); /* not a NaN */
    }
    for (uint64_t i = 0; i < length; i++) {
        if (team_pace_stops(&pace, EXP_STEPS))
            return;
        compensated_sum_add(&sum, exp((score(p, scale.unit, x, i) - most) * scale.factor));
    }
    const double total = compensated_sum_value(&sum);
    for (uint64_t i = 0; i < length; i++) {
        if (team_pace_stops(&pace, EXP_STEPS))
            return;
        const double difference = (score(p, scale.unit, x, i) - most) * scale.factor;
        softmax_store(p->out, p->log ? difference - log(total) : exp(difference) / total,
                      y + i * size);
    }
    for (uint64_t i = length; i < p->length && !team_pace_stops(&pace, 1); i++)
        softmax_store(p->out, p->log ? -INFINITY : 0, y + i * size);
}

static enum gemmd_error softmax_naive_run(struct gemm_context *base, const void *problem,
                                          void *workspace)
{
    struct softmax_naive_job job = {.p = problem, .team = cpu_context_of(base)->team};
    (void)workspace;
    team_run(job.team, softmax_naive_row, &job, job.p->rows);
    return GEMMD_OK;
}

const struct operation_kernel softmax_cpu_naive = {
    .name = "naive",
    .description = "a row after the other, in f64; the reference",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = softmax_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = softmax_naive_run,
};
