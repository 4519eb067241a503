#include "tests/product/cases.h"

const struct case_types case_types[] = {
    {GEMMD_F64, GEMMD_F64},     {GEMMD_F32, GEMMD_F32},     {GEMMD_F32, GEMMD_F16},
    {GEMMD_F32, GEMMD_BF16},    {GEMMD_F16, GEMMD_F16},     {GEMMD_F16, GEMMD_F32},
    {GEMMD_BF16, GEMMD_BF16},   {GEMMD_BF16, GEMMD_F32},    {GEMMD_F8_E4M3, GEMMD_BF16},
    {GEMMD_F8_E4M3, GEMMD_F16}, {GEMMD_F8_E4M3, GEMMD_F32}, {GEMMD_I8, GEMMD_I32},
    {GEMMD_I8, GEMMD_F32},
};

uint32_t case_types_count(void)
{
    return sizeof case_types / sizeof case_types[0];
}

const uint64_t case_sizes[] = {1, 2, 3, 31, 33, 63, 65, 127};

uint32_t case_sizes_count(void)
{
    return sizeof case_sizes / sizeof case_sizes[0];
}

static const struct {
    double alpha, beta;
} scalars[] = {{1, 0}, {-2, 0}, {1, 1}, {3, -2}, {0, 0}, {0.37, -1.25}};

enum {
    TRANSPOSES = 4,
    SCALARS = sizeof scalars / sizeof scalars[0],
    BIASES = 2,
    BATCHES = 2,
};

uint32_t case_options_count(void)
{
    return TRANSPOSES * SCALARS * BIASES * GEMM_ACT_COUNT * BATCHES;
}

bool case_set_options(struct gemm_problem *problem, uint32_t number)
{
    static const char bias; /* its address says that there is one */
    problem->transa = number & 1;
    problem->transb = number & 2;
    number /= TRANSPOSES;
    problem->alpha = scalars[number % SCALARS].alpha;
    problem->beta = scalars[number % SCALARS].beta;
    number /= SCALARS;
    problem->bias = number % BIASES ? &bias : NULL;
    number /= BIASES;
    problem->act = (enum gemm_act)(number % GEMM_ACT_COUNT);
    number /= GEMM_ACT_COUNT;
    problem->batch = number % BATCHES ? 3 : 1;
    if (problem->out != GEMMD_I32)
        return true;
    const bool whole = problem->alpha == (int)problem->alpha && problem->beta == (int)problem->beta;
    return whole && gemm_act_is_exact(problem->act);
}
