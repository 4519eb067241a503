/* The kernels of decode_wgmma.cuh for bf16 and f16. */
#include "kernels/cuda/sm90/attention/decode_wgmma.cuh"

const struct decode_wgmma_kernel decode_wgmma_bf16[2] = {
    sm90::decode_wgmma_entry<sm90::decode_config<sm90::BF16, 64>>(),
    sm90::decode_wgmma_entry<sm90::decode_config<sm90::BF16, 128>>(),
};

const struct decode_wgmma_kernel decode_wgmma_f16[2] = {
    sm90::decode_wgmma_entry<sm90::decode_config<sm90::F16, 64>>(),
    sm90::decode_wgmma_entry<sm90::decode_config<sm90::F16, 128>>(),
};
