/* The word i of a tile holds i, so that a sum says which words a thread has accessed. */
#include "tests/bench/counters/patterns.h"

#include <cuda_runtime.h>

namespace
{

constexpr unsigned SIDE = 32, WORDS = SIDE * (SIDE + 4);

/* The word that a lane accesses in step i; WIDTH words from there on. */
struct row {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return i * SIDE + lane;
    }
};
/* The whole warp reads one word, which is sent to all lanes. */
struct broadcast {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned, unsigned i)
    {
        return i;
    }
};
struct stride_2 {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return i * SIDE + 2 * lane;
    }
};
struct column {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * SIDE + i;
    }
};
struct column_padded {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * (SIDE + 1) + i;
    }
};
/* The columns of a row are permuted by the number of the row. */
struct column_swizzled {
    static constexpr unsigned WIDTH = 1;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * SIDE + (i ^ lane);
    }
};
struct wide_row {
    static constexpr unsigned WIDTH = 4;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return i * SIDE * WIDTH + lane * WIDTH;
    }
};
struct wide_column {
    static constexpr unsigned WIDTH = 4;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * SIDE + i * WIDTH;
    }
};
struct wide_column_padded {
    static constexpr unsigned WIDTH = 4;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * (SIDE + WIDTH) + i * WIDTH;
    }
};
struct wide_column_swizzled {
    static constexpr unsigned WIDTH = 4;
    static __host__ __device__ constexpr unsigned word(unsigned lane, unsigned i)
    {
        return lane * SIDE + (i ^ lane % (SIDE / WIDTH)) * WIDTH;
    }
};

template <class P> constexpr unsigned steps = SIDE / P::WIDTH;

/* Volatile in PTX too: ptxas would merge neighbouring accesses of a lane into one of 128 bits. */
template <unsigned WIDTH> __device__ __forceinline__ float read(uint32_t address)
{
    float x, y, z, w;
    if constexpr (WIDTH == 1) {
        asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
        return x;
    } else {
        asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                     : "r"(address)
                     : "memory");
        return (x + y) + (z + w);
    }
}

template <unsigned WIDTH> __device__ __forceinline__ void write(uint32_t address, float first)
{
    if constexpr (WIDTH == 1) {
        asm volatile("st.volatile.shared.f32 [%0], %1;" ::"r"(address), "f"(first) : "memory");
    } else {
        asm volatile("st.volatile.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(first),
                     "f"(first + 1), "f"(first + 2), "f"(first + 3)
                     : "memory");
    }
}

template <class P>
__global__ void __launch_bounds__(PATTERN_THREADS) pattern_reads(unsigned repeats, float *out)
{
    __shared__ __align__(16) float tile[WORDS];
    const unsigned lane = threadIdx.x % 32;
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(tile);
    for (unsigned i = threadIdx.x; i < WORDS; i += PATTERN_THREADS)
        tile[i] = (float)i;
    __syncthreads();
    float sum = 0;
    for (unsigned r = 0; r < repeats; r++)
#pragma unroll
        for (unsigned i = 0; i < steps<P>; i++)
            sum += read<P::WIDTH>(start + 4 * P::word(lane, i));
    out[(uint64_t)blockIdx.x * PATTERN_THREADS + threadIdx.x] = sum;
}

/* The warps of a block write the same values to the same words. */
template <class P>
__global__ void __launch_bounds__(PATTERN_THREADS) pattern_writes(unsigned repeats, float *out)
{
    __shared__ __align__(16) float tile[WORDS];
    const unsigned lane = threadIdx.x % 32;
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(tile);
    for (unsigned r = 0; r < repeats; r++)
#pragma unroll
        for (unsigned i = 0; i < steps<P>; i++)
            write<P::WIDTH>(start + 4 * P::word(lane, i), (float)P::word(lane, i));
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < steps<P>; i++)
        for (unsigned j = 0; j < P::WIDTH; j++)
            sum += tile[P::word(lane, i) + j];
    out[(uint64_t)blockIdx.x * PATTERN_THREADS + threadIdx.x] = sum;
}

template <class P>
cudaError_t enqueue_reads(uint32_t blocks, uint32_t repeats, float *out, cudaStream_t stream)
{
    pattern_reads<P><<<blocks, PATTERN_THREADS, 0, stream>>>(repeats, out);
    return cudaGetLastError();
}

template <class P>
cudaError_t enqueue_writes(uint32_t blocks, uint32_t repeats, float *out, cudaStream_t stream)
{
    pattern_writes<P><<<blocks, PATTERN_THREADS, 0, stream>>>(repeats, out);
    return cudaGetLastError();
}

template <class P> double sum_of_writes(uint32_t lane, uint32_t)
{
    double sum = 0;
    for (unsigned i = 0; i < steps<P>; i++)
        for (unsigned j = 0; j < P::WIDTH; j++)
            sum += P::word(lane, i) + j;
    return sum;
}

template <class P> double sum_of_reads(uint32_t lane, uint32_t repeats)
{
    return repeats * sum_of_writes<P>(lane, repeats);
}

template <class P> constexpr pattern reads(const char *name)
{
    return {name, steps<P>, enqueue_reads<P>, sum_of_reads<P>};
}

template <class P> constexpr pattern writes(const char *name)
{
    return {name, steps<P>, enqueue_writes<P>, sum_of_writes<P>};
}

} // namespace

const struct pattern patterns[] = {
    reads<row>("row, read"),
    reads<broadcast>("one word for all lanes, read"),
    reads<stride_2>("stride 2, read"),
    reads<column>("column, read"),
    reads<column_padded>("column, rows padded by 1, read"),
    reads<column_swizzled>("column, swizzled, read"),
    reads<wide_row>("row, 128 bits, read"),
    reads<wide_column>("column, 128 bits, read"),
    reads<wide_column_padded>("column, 128 bits, rows padded by 4, read"),
    reads<wide_column_swizzled>("column, 128 bits, swizzled, read"),
    writes<row>("row, written"),
    writes<stride_2>("stride 2, written"),
    writes<column>("column, written"),
    writes<column_padded>("column, rows padded by 1, written"),
    writes<column_swizzled>("column, swizzled, written"),
    writes<wide_column>("column, 128 bits, written"),
    writes<wide_column_swizzled>("column, 128 bits, swizzled, written"),
    {},
};
