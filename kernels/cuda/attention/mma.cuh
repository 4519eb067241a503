/*
 * mma.cuh - rows of Q, K and V in shared memory, and the two products of attention by mma.sync, for
 * 16 queries of a warp at a time.
 *
 * A tile has ROWS lines of WIDTH elements. The 16-byte pieces of a line are permuted by the number
 * of the line, so that the eight pieces that ldmatrix reads at once are in different banks. Missing
 * rows and columns are zeros, so a kernel also computes narrower heads than its own width.
 */
#ifndef KERNELS_CUDA_ATTENTION_MMA_CUH
#define KERNELS_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention/rows.cuh"
#include "kernels/cuda/ptx_sm80.cuh"

namespace flash
{

constexpr uint32_t PIECE_ELEMENTS = 8;

/* The offset of a 16-byte piece of a row in a tile, in bytes. */
template <int WIDTH> __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t piece)
{
    return (row * (WIDTH / PIECE_ELEMENTS) + (piece ^ row % 8)) * 16;
}

/* Up to 8 elements that may lie anywhere, zeros after them. */
__device__ __forceinline__ uint4 gather(const uint16_t *from, uint32_t count)
{
    uint32_t word[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t low = 2 * i < count ? from[2 * i] : 0;
        const uint32_t high = 2 * i + 1 < count ? from[2 * i + 1] : 0;
        word[i] = low | high << 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Starts to copy piece `n` of the tile that copy_rows copies. */
template <int WIDTH, bool ONCE>
__device__ __forceinline__ void copy_piece(uint32_t tile, const void *rows, int64_t step,
                                           uint32_t width, int32_t first, int32_t end, bool pieces,
                                           uint32_t n)
{
    constexpr uint32_t LINE = WIDTH / PIECE_ELEMENTS;
    const uint32_t row = n / LINE, piece = n % LINE, column = piece * PIECE_ELEMENTS;
    const bool exists = (int32_t)row >= first && (int32_t)row < end && column < width;
    const uint32_t count = exists ? min(width - column, PIECE_ELEMENTS) : 0;
    const uint16_t *from =
        static_cast<const uint16_t *>(rows) + (exists ? (int64_t)row * step + column : 0);
    const uint32_t to = tile + place<WIDTH>(row, piece);
    if (pieces && ONCE)
        ptx_sm80::copy_16_once(to, from, 2 * count);
    else if (pieces)
        ptx_sm80::copy_16(to, from, 2 * count);
    else
        ptx_sm80::store_16(to, gather(from, count));
}

/* Starts to copy ROWS rows of `width` elements, which lie `step` elements apart, to a tile. Called
 * by THREADS threads, of which this is number `thread`. Only the rows from `first` to end - 1
 * exist; the others become zeros. `pieces`: rows start at multiples of 16 bytes. ONCE: the rows are
 * not read again soon. The copies of this thread are complete after copies_commit and copies_wait.
 */
template <int WIDTH, int ROWS, int THREADS, bool ONCE = false>
__device__ __forceinline__ void copy_rows(uint32_t tile, const void *rows, int64_t step,
                                          uint32_t width, int32_t first, int32_t end, bool pieces,
                                          uint32_t thread)
{
    constexpr uint32_t LINE = WIDTH / PIECE_ELEMENTS;
    static_assert(ROWS * LINE % THREADS == 0, "a thread's pieces");
    /* The code for rows that are not aligned is long. Unrolled further, it would push the rest of
     * decode's loop over keys, which copies its rows ONCE, out of the instruction cache. */
    if (ONCE && !pieces) {
#pragma unroll 4
        for (uint32_t n = thread; n < ROWS * LINE; n += THREADS)
            copy_piece<WIDTH, ONCE>(tile, rows, step, width, first, end, false, n);
        return;
    }
#pragma unroll
    for (uint32_t n = thread; n < ROWS * LINE; n += THREADS)
        copy_piece<WIDTH, ONCE>(tile, rows, step, width, first, end, ONCE || pieces, n);
}

/* sums[at ... at + 3] += a * b. */
template <typename Element, int COUNT>
__device__ __forceinline__ void multiply_add_at(float (&sums)[COUNT], int at,
                                                const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    float d[4] = {sums[at], sums[at + 1], sums[at + 2], sums[at + 3]};
    ptx_sm80::multiply_add<Element>(d, a, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[at + i] = d[i];
}

/* 16 rows by 16 columns of a tile as the left operand. */
template <int WIDTH>
__device__ __forceinline__ void load_left(uint32_t (&to)[4], uint32_t tile, uint32_t row,
                                          uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    ptx_sm80::load_matrices(to, tile + place<WIDTH>(row + lane % 16, column / 8 + lane / 16));
}

/* 16 keys by 16 of d as the right operand of Q K^T: values 0 and 1 are the first 8 keys'. */
template <int WIDTH>
__device__ __forceinline__ void load_keys(uint32_t (&to)[4], uint32_t tile, uint32_t key,
                                          uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    ptx_sm80::load_matrices(
        to, tile + place<WIDTH>(key + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2));
}

/* 16 keys by 16 of dv as the right operand of P V: values 0 and 1 are the first 8 columns'. */
template <int WIDTH>
__device__ __forceinline__ void load_values(uint32_t (&to)[4], uint32_t tile, uint32_t key,
                                            uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    ptx_sm80::load_matrices_transposed(
        to, tile + place<WIDTH>(key + lane % 16, column / 8 + lane / 16));
}

/* Weights of 16 keys, from key 16 * k of the fragment on, as the left operand. */
template <typename Element, int COUNT>
__device__ __forceinline__ void weights_of(const float (&s)[COUNT], int k, uint32_t (&to)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] = pack<Element>(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
}

} // namespace flash

#endif
