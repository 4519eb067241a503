#include "kernels/cuda/attention/tiled_launch.cuh"

enum gemmd_error attention_tiled_prepare_group_f32(uint64_t shared_bytes)
{
    return attention_tiled::prepare_group<float>(shared_bytes);
}

enum gemmd_error attention_tiled_launch_group_f32(cudaStream_t stream,
                                                  enum attention_tiled_rows rows,
                                                  const struct attention_member members[],
                                                  uint32_t count)
{
    return attention_tiled::run_any_group<float>(stream, rows, members, count);
}
