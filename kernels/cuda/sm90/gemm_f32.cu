/* The kernels of f32 with precision full: operands in parts (split.cu). */
#include "kernels/cuda/sm90/table.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_f32[] = {
    row<F32, 128, 128, 2, COOPERATIVE, 1, 1, CHAINS>("f32_128x128"),
    row<F32, 128, 64, 2, COOPERATIVE, 1, 1, CHAINS>("f32_128x64"),
    row<F32, 64, 64, 1, COOPERATIVE, 1, 1, CHAINS>("f32_64x64"),
    trial_whole("f32_64x32_whole"),
    sm90_kernel{},
};
