#include "tests/gpu/tile_kernels.h"

#include "kernels/cuda/context.h"
#include "kernels/cuda/mma/tensor_core.h"
#include "kernels/cuda/simt/register_tiled.h"

static bool register_takes(const void *problem)
{
    return gemm_cuda_register_tiled.takes(problem);
}

static bool tensor_takes(const void *problem)
{
    return gemm_cuda_tensor_core.takes(problem);
}

static bool tensor_workspace_bytes(const void *problem, uint64_t *out)
{
    return gemm_cuda_tensor_core.workspace_bytes(problem, out);
}

/* A kernel runs without being told which one it is: each tile has a function of its own. */
#define REGISTER_RUN(tile, lower)                                                                  \
    static enum gemmd_error register_run_##lower(struct gemm_context *context,                     \
                                                 const void *problem, void *workspace)             \
    {                                                                                              \
        (void)workspace;                                                                           \
        return register_tiled_launch(cuda_context_of(context)->stream, tile, problem);             \
    }
REGISTER_RUN(REGISTER_TILE_256X128, 256x128)
REGISTER_RUN(REGISTER_TILE_128X128, 128x128)
REGISTER_RUN(REGISTER_TILE_128X64, 128x64)
REGISTER_RUN(REGISTER_TILE_64X64, 64x64)
REGISTER_RUN(REGISTER_TILE_32X32, 32x32)
REGISTER_RUN(REGISTER_TILE_16X32, 16x32)
REGISTER_RUN(REGISTER_TILE_128X256, 128x256)

#define TENSOR_RUN(tile, lower)                                                                    \
    static enum gemmd_error tensor_run_##lower(struct gemm_context *context, const void *problem,  \
                                               void *space)                                        \
    {                                                                                              \
        return tensor_core_run_tile(context, problem, space, tile);                                \
    }
TENSOR_RUN(TENSOR_CORE_256X128, 256x128)
TENSOR_RUN(TENSOR_CORE_64X64, 64x64)

#define REGISTER_TILE(lower, capability)                                                           \
    {                                                                                              \
        .name = "register_tiled_" #lower, .compute_capability = (capability),                      \
        .takes = register_takes, .workspace_bytes = operation_no_workspace,                        \
        .run = register_run_##lower                                                                \
    }
#define TENSOR_TILE(lower)                                                                         \
    {                                                                                              \
        .name = "tensor_core_" #lower, .takes = tensor_takes,                                      \
        .workspace_bytes = tensor_workspace_bytes, .run = tensor_run_##lower                       \
    }

/* clang-format off */
const struct operation_kernel tile_kernels[] = {
    REGISTER_TILE(256x128, 0),
    REGISTER_TILE(128x128, 0),
    REGISTER_TILE(128x64, 0),
    REGISTER_TILE(64x64, 0),
    REGISTER_TILE(32x32, 0),
    REGISTER_TILE(16x32, 0),
    REGISTER_TILE(128x256, 90),
    TENSOR_TILE(256x128),
    TENSOR_TILE(64x64),
    {.name = NULL},
};
/* clang-format on */

const char *tile_kernel_family(const struct operation_kernel *tile)
{
    return tile->takes == tensor_takes ? gemm_cuda_tensor_core.name : gemm_cuda_register_tiled.name;
}
