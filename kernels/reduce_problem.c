/* The properties of a reduction's problem, which do not depend on the kernel. */
#include <math.h>

#include "kernels/reduce.h"

void reduce_problem_of(struct reduce_problem *problem, const struct array_shape *shape,
                       uint32_t axis, uint64_t leading)
{
    const uint32_t last = shape->rank - 1;
    *problem = (struct reduce_problem){
        .outer = 1, .mid = 1, .length = shape->dims[axis], .width = 1, .length_stride = 1};
    for (uint32_t i = 0; i < axis; i++)
        problem->outer *= shape->dims[i];
    if (axis == last) {
        problem->outer_stride = leading;
    } else {
        problem->width = shape->dims[last];
        for (uint32_t i = axis + 1; i < last; i++)
            problem->mid *= shape->dims[i];
        problem->mid_stride = leading;
        problem->length_stride = problem->mid * leading;
        problem->outer_stride = problem->length * problem->length_stride;
        if (leading == problem->width) {
            problem->width *= problem->mid;
            problem->mid = 1;
        }
    }
    problem->y_width = problem->y_leading = reduce_results(problem);
}

uint64_t reduce_results(const struct reduce_problem *problem)
{
    return problem->outer * problem->mid * problem->width;
}

bool reduce_is_of_rows(const struct reduce_problem *problem)
{
    return problem->length_stride == 1 && problem->width == 1;
}

bool reduce_problem_offered(const void *problem)
{
    const struct reduce_problem *p = problem;
    return reduce_offers(p->op, p->dtype, p->out) && p->length > 0 && p->length <= GEMM_DIM_MAX;
}

double reduce_sum_roundings(uint64_t length)
{
    return ceil(log2((double)length)) + 8 + floor((double)length / 0x1p22);
}
