#include "kernels/cuda/attention/tiled_launch.cuh"

enum gemmd_error attention_tiled_prepare_f32(uint64_t shared_bytes)
{
    return attention_tiled::prepare<float>(shared_bytes);
}

enum gemmd_error attention_tiled_launch_f32(cudaStream_t stream, enum attention_tiled_rows rows,
                                            const struct attention_problem *problem,
                                            struct operation_range tiles)
{
    return attention_tiled::run_any<float>(stream, rows, *problem, tiles);
}
