#include "kernels/cuda/attention/tiled_launch.cuh"

enum gemmd_error attention_tiled_prepare_bf16(uint64_t shared_bytes)
{
    return attention_tiled::prepare<__nv_bfloat16>(shared_bytes);
}

enum gemmd_error attention_tiled_launch_bf16(cudaStream_t stream, enum attention_tiled_rows rows,
                                             const struct attention_problem *problem,
                                             struct operation_range tiles)
{
    return attention_tiled::run_any<__nv_bfloat16>(stream, rows, *problem, tiles);
}
