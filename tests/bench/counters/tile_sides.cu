#include "tests/bench/counters/tile_sides.h"

#include <cuda_runtime.h>

namespace
{

template <unsigned TILE>
__global__ void __launch_bounds__(TILE *TILE)
    tile_side_kernel(const float *a, const float *b, float *c, unsigned n)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const size_t row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (unsigned first = 0; first < n; first += TILE) {
        a_tile[y][x] = a[row * n + first + x];
        b_tile[y][x] = b[(size_t)(first + y) * n + column];
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < TILE; i++)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

template <unsigned TILE>
cudaError_t enqueue(const struct tile_side *tile, const float *a, const float *b, float *c,
                    uint32_t n, cudaStream_t stream)
{
    const cudaError_t error =
        cudaFuncSetAttribute(tile_side_kernel<TILE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)tile->reserved_bytes);
    if (error != cudaSuccess)
        return error;
    tile_side_kernel<TILE>
        <<<dim3(n / TILE, n / TILE), dim3(TILE, TILE), tile->reserved_bytes, stream>>>(a, b, c, n);
    return cudaGetLastError();
}

__global__ void counters_marker()
{
}

} // namespace

const struct tile_side tile_sides[] = {
    {"tiled 8x8", 8, 0},
    {"tiled 16x16", 16, 0},
    {"tiled 16x16, 4 blocks at most", 16, 54 << 10},
    {"tiled 16x16, 2 blocks at most", 16, 108 << 10},
    {"tiled 16x16, 1 block at most", 16, 200 << 10},
    {"tiled 32x32", 32, 0},
    {"tiled 32x32, 1 block at most", 32, 120 << 10},
    {NULL, 0, 0},
};

cudaError_t tile_side_enqueue(const struct tile_side *tile, const float *a, const float *b,
                              float *c, uint32_t n, cudaStream_t stream)
{
    switch (tile->side) {
    case 8:
        return enqueue<8>(tile, a, b, c, n, stream);
    case 16:
        return enqueue<16>(tile, a, b, c, n, stream);
    default:
        return enqueue<32>(tile, a, b, c, n, stream);
    }
}

cudaError_t counters_mark(cudaStream_t stream)
{
    counters_marker<<<1, 32, 0, stream>>>();
    return cudaGetLastError();
}
