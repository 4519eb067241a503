/* The kernel of one_step.cuh for bf16. */
#include "kernels/cuda/sm90/attention/one_step.cuh"

const struct attention_wgmma_kernel attention_one_step_bf16[] = {
    sm90::one_step_entry<sm90::attention_config<sm90::BF16, 64, 128, 4, false>>(
        "bf16_d64_one_step"),
    {}};
