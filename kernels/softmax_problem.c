/* The properties of a softmax's problem, which do not depend on the kernel. */
#include <math.h>

#include "kernels/softmax.h"

void softmax_problem_of(struct softmax_problem *problem, const struct array_shape *shape,
                        uint32_t lens)
{
    const uint32_t last = shape->rank - 1;
    *problem = (struct softmax_problem){
        .scale = 1, .rows = 1, .length = shape->dims[last], .rows_per_len = 1};
    for (uint32_t i = 0; i < last; i++) {
        problem->rows *= shape->dims[i];
        if (i >= lens)
            problem->rows_per_len *= shape->dims[i];
    }
    problem->x_leading = problem->y_leading = problem->length;
}

bool softmax_problem_offered(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_offers(p->dtype, p->out) && p->length > 0 && p->length <= GEMM_DIM_MAX;
}

struct softmax_scale softmax_scale(double scale)
{
    const double half = fabs(scale) < 1 ? 0.5 : 1;
    return scale == 0 ? (struct softmax_scale){0, 1}
                      : (struct softmax_scale){copysign(half, scale), fabs(scale) / half};
}

double softmax_error(uint64_t length, double largest, double log_y)
{
    const double levels = ceil(log2((double)length)), far = fabs(log_y);
    return (24 + fmin(levels + 4 * largest, 4 * levels + 4 * far)) * 0x1p-24;
}
