"""The first three rungs as a user of CuPy writes them: RawKernels, one output a thread.

Arrays are contiguous squares of f32 or f16; sums are f32. CuPy compiles the source at the first
launch and keeps the machine code in its own cache.
"""

import numpy as np

SOURCE = r"""
#if HALF
#include <cuda_fp16.h>
typedef __half element;
#else
typedef float element;
#endif
#define TILE 32

/* A thread reads a row of A and a column of B from device memory. */
extern "C" __global__ void naive(const element *a, const element *b, element *c, const int n)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += (float)a[(size_t)row * n + i] * (float)b[(size_t)i * n + column];
    c[(size_t)row * n + column] = (element)sum;
}

/* A block walks along k with a tile of A and a tile of B in shared memory. PITCH is the distance
 * between two rows of a tile: TILE, or TILE + 1 with a column of padding. */
extern "C" __global__ void tiled(const element *a, const element *b, element *c, const int n)
{
    __shared__ float a_tile[TILE][PITCH], b_tile[TILE][PITCH];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int first = 0; first < n; first += TILE) {
        a_tile[y][x] = row < n && first + x < n ? (float)a[(size_t)row * n + first + x] : 0.f;
        b_tile[y][x] = column < n && first + y < n ? (float)b[(size_t)(first + y) * n + column]
                                                   : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < n && column < n)
        c[(size_t)row * n + column] = (element)sum;
}
"""

# name: the kernel, threads of a block in each direction, the pitch of a tile
RUNGS = {"naive": ("naive", 16, 32), "tiled": ("tiled", 32, 32), "tiled_padded": ("tiled", 32, 33)}


def options(half, pitch):
    """What the compiler is told about types and padding."""
    return (f"-DHALF={int(half)}", f"-DPITCH={pitch}")


class Rungs:
    """The kernels, launched on a stream of PyTorch's with PyTorch's tensors."""

    def __init__(self, cupy, stream):
        self.cupy, self.stream = cupy, cupy.cuda.ExternalStream(stream.cuda_stream)

    def call(self, name, a, b, c):
        """A function of the number of a set, for tensors [sets, n, n]."""
        function, side, pitch = RUNGS[name]
        half = a.element_size() == 2
        kernel = self.cupy.RawKernel(SOURCE, function, options=options(half, pitch))
        n = a.shape[1]
        grid = ((n + side - 1) // side,) * 2
        sets = [[self.cupy.asarray(tensor[i]) for tensor in (a, b, c)] for i in range(a.shape[0])]

        def run(i):
            with self.stream:
                kernel(grid, (side, side), (*sets[i], np.int32(n)))

        return run
