/*
 * load.cuh - loads of operands into shared memory.
 *
 * An operand's part of a tile is loaded in slabs of 128 bytes of k. An operand that lies along k
 * keeps its rows, with a pitch that spreads neighbouring rows over the banks. An operand across k
 * is loaded as lines of the tile's width, one for each k. Elements are not converted by the load,
 * so copies are asynchronous and all slabs are in flight before the first is used, which hides the
 * latency of host memory.
 *
 * Lines are aligned to elements only. Copies have 16, 8 or 4 bytes, the largest to which all lines
 * are aligned. Lines of 8- and 16-bit elements that are not aligned to 4 bytes are read in aligned
 * words and shifted.
 */
#ifndef KERNELS_CUDA_GROUPED_LOAD_CUH
#define KERNELS_CUDA_GROUPED_LOAD_CUH

#include <stdint.h>

#include "kernels/cuda/grouped/grouped.h"

namespace grouped
{

constexpr uint32_t TILE = GROUPED_TILE;
constexpr uint32_t THREADS = 128;
constexpr uint32_t SLABS = GROUPED_SLABS;
constexpr uint32_t DEPTH_BYTES = GROUPED_SLAB_DEPTH;
constexpr uint32_t PITCH = DEPTH_BYTES + 16;     // of rows along k
constexpr uint32_t OPERAND_BYTES = TILE * PITCH; // of a slab
constexpr uint32_t SLAB_BYTES = 2 * OPERAND_BYTES;
static_assert(SLAB_BYTES == GROUPED_SLAB_BYTES, "as the host counts");

template <typename In> constexpr uint32_t DEPTH = DEPTH_BYTES / sizeof(In);
/* A line of the tile's width, for operands that lie across k; neighbouring lines are spread over
 * the banks where that costs no more memory than the other way of lying. */
template <typename In>
constexpr uint32_t LINE_PITCH = TILE * sizeof(In) + (sizeof(In) >= 4   ? 32
                                                     : sizeof(In) == 2 ? 16
                                                                       : 0);
static_assert(DEPTH_BYTES / 8 * LINE_PITCH<double> <= OPERAND_BYTES &&
                  DEPTH_BYTES / 4 * LINE_PITCH<float> <= OPERAND_BYTES &&
                  DEPTH_BYTES / 2 * LINE_PITCH<short> <= OPERAND_BYTES,
              "lines fit where rows do");

constexpr uint32_t WARP_TILE = 32; // rows and columns of a tile that one warp computes
static_assert(WARP_TILE * 2 == TILE && THREADS == 4 * 32, "four warps, one a quarter of a tile");

/* threadIdx.x, read anew in each call. Otherwise the compiler would compute values from it once for
 * all branches of the kernel, and keep them in registers, or spill them, throughout. */
static __device__ __forceinline__ uint32_t thread()
{
    uint32_t x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

/* The part of a tile that a warp computes. */
struct part {
    uint32_t row, column;   // the first, in the tile
    uint32_t rows, columns; // that exist in C, at most WARP_TILE; 0: none
    uint32_t row_step = 1;  // from one row of the part to the next
    bool a_along_k, b_along_k;
};

/* How many of `extent` rows or columns lie from `first` on, at most `most`. */
static __device__ __forceinline__ uint32_t clip(uint32_t extent, uint32_t first, uint32_t most)
{
    return extent <= first ? 0 : extent - first < most ? extent - first : most;
}

/* One operand of one tile. */
struct source {
    const char *start;       // the tile's first element at k = 0
    const char *begin, *end; // of the whole operand
    uint64_t ld;             // bytes
    uint32_t extent;         // rows of A or columns of B in the tile
    bool along_k;
};

/* `count` lines of `bytes`, filled up with zeros to `count_filled` lines of `bytes_filled`. */
struct lines {
    const char *from;
    uint64_t ld;
    uint32_t count, bytes, count_filled, bytes_filled;
};

template <uint32_t BYTES>
static __device__ __forceinline__ void copy_async(uint32_t to, const char *from, uint32_t valid)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(valid)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                     "n"(BYTES), "r"(valid)
                     : "memory");
}

static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <uint32_t PENDING> static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Copies in units of UNIT bytes, to which all lines are aligned. CAPACITY is the number of bytes
 * for a line, and LINES the largest number of lines. A thread copies the same part of several
 * lines. */
template <uint32_t UNIT, uint32_t CAPACITY, uint32_t LINES>
static __device__ __forceinline__ void copy_aligned(uint32_t to, uint32_t pitch,
                                                    const struct lines &l)
{
    constexpr uint32_t units = CAPACITY / UNIT;
    constexpr uint32_t step = THREADS / units == 0 ? 1 : THREADS / units;
    static_assert(THREADS % units == 0 && LINES % step == 0, "threads share lines evenly");
    const uint32_t at = thread() % units * UNIT, first = thread() / units;
    if (at >= l.bytes_filled)
        return;
    const uint32_t present = at >= l.bytes ? 0 : l.bytes - at < UNIT ? l.bytes - at : UNIT;
    const char *from = l.from + (present > 0 ? first * l.ld + at : 0);
    const uint64_t stride = present > 0 ? step * l.ld : 0;
    to += first * pitch + at;
#pragma unroll 4
    for (uint32_t i = 0; i < LINES / step; i++) {
        const uint32_t line = first + i * step;
        if (line >= l.count_filled)
            return;
        copy_async<UNIT>(to, line < l.count ? from : l.from, line < l.count ? present : 0);
        from += stride;
        to += step * pitch;
    }
}

/* Copies the 16 bytes at offset `at` of a line, from an aligned address; bytes from offset `end` on
 * become zeros. Nothing is read if `end` is not above `at`. */
static __device__ __forceinline__ void copy_piece(uint32_t to, const char *from, uint32_t at,
                                                  uint32_t end)
{
    copy_async<16>(to, from, end <= at ? 0 : end - at < 16 ? end - at : 16);
}

/* Copies lines of 4-byte elements with any alignment, in aligned pieces of 16 bytes. A line that
 * starts s bytes after a multiple of 16 in memory starts s bytes after the start of its place in
 * shared memory (shift_of). Outside the operand no more is read than the rest of the piece in which
 * a line begins. */
template <uint32_t CAPACITY, uint32_t LINES>
static __device__ __forceinline__ void copy_pieces(uint32_t to, uint32_t pitch,
                                                   const struct lines &l)
{
    constexpr uint32_t pieces = CAPACITY / 16, step = THREADS / pieces;
    static_assert(THREADS % pieces == 0 && LINES % step == 0 && LINES <= THREADS,
                  "threads share lines evenly");
    static_assert(step * 4 % 16 == 0, "a thread's lines begin alike");
    const uint32_t thread = grouped::thread();
    if (thread < l.count_filled) { /* the end of a line that the shift moves beyond CAPACITY */
        const char *line = l.from + thread * l.ld;
        const uint32_t shift = (uint32_t)(uintptr_t)line % 16;
        if (shift + l.bytes_filled > CAPACITY)
            copy_piece(to + thread * pitch + CAPACITY, line - shift + CAPACITY, CAPACITY,
                       thread < l.count ? shift + l.bytes : 0);
    }
    const uint32_t at = thread % pieces * 16, first = thread / pieces;
    const char *from = l.from + first * l.ld;
    const uint32_t shift = (uint32_t)(uintptr_t)from % 16, end = shift + l.bytes;
    const uint32_t present = end <= at ? 0 : end - at < 16 ? end - at : 16;
    const uint64_t stride = step * l.ld;
    from = from - shift + at;
    to += first * pitch + at;
#pragma unroll
    for (uint32_t i = 0; i < LINES / step; i++) {
        if (first + i * step >= l.count_filled)
            return;
        copy_async<16>(to + i * step * pitch, from, first + i * step < l.count ? present : 0);
        from += stride;
    }
}

static __device__ __forceinline__ uint32_t shift_of(const struct source &s, uint32_t line)
{
    return ((uint32_t)(uintptr_t)s.start + line * (uint32_t)s.ld) % 16;
}

/* Loads the aligned word at `at`. Its bytes outside the operand are not read, and are zeros. */
static __device__ __forceinline__ uint32_t load_word(const char *at, const struct source &s)
{
    if (at >= s.begin && at + 4 <= s.end)
        return *(const uint32_t *)at;
    uint32_t word = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 4; i++)
        if (at + i >= s.begin && at + i < s.end)
            word |= (uint32_t)(uint8_t)at[i] << 8 * i;
    return word;
}

static __device__ __forceinline__ const char *word_below(const char *at)
{
    return (const char *)((uintptr_t)at & ~(uintptr_t)3);
}

/* Copies lines with any alignment: a word of the destination is shifted together from the two
 * aligned words that it lies in. The second of these words is the first one of the next lane; for
 * the last lane of a line it is loaded separately. */
template <uint32_t CAPACITY>
static __device__ __forceinline__ void copy_shifted(uint32_t to, uint32_t pitch,
                                                    const struct lines &l, const struct source &s)
{
    constexpr uint32_t words = CAPACITY / 4, rounds = 8; // of loads before their first use
    constexpr uint32_t step = THREADS / words, per_warp = 32 / words; // lines
    static_assert(32 % words == 0 && rounds * per_warp <= 32, "a warp has lines of its own");
    const uint32_t thread = grouped::thread(), lane = thread % 32, word = lane % words;
#pragma unroll 1
    for (uint32_t begin = 0; begin < l.count_filled; begin += rounds * step) {
        const uint32_t first = begin + thread / words;
        const uint32_t last_line =
            begin + thread / 32 * per_warp + lane / per_warp * step + lane % per_warp;
        uint32_t low[rounds], last = 0;
        if (lane < rounds * per_warp && last_line < l.count) {
            const char *from = l.from + last_line * l.ld, *at = word_below(from + CAPACITY);
            last = at < from + l.bytes ? load_word(at, s) : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < rounds; i++) {
            const char *from = l.from + (first + i * step) * l.ld;
            const char *at = word_below(from + 4 * word);
            low[i] = first + i * step < l.count && at < from + l.bytes ? load_word(at, s) : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < rounds; i++) {
            const uint32_t line = first + i * step;
            const uint32_t shift = (uint32_t)(uintptr_t)(l.from + line * l.ld) % 4 * 8;
            const uint32_t next = __shfl_down_sync(~0u, low[i], 1, words);
            const uint32_t after = __shfl_sync(~0u, last, i * per_warp + lane / words);
            uint32_t value = __funnelshift_r(low[i], word + 1 == words ? after : next, shift);
            if (4 * word >= l.bytes)
                value = 0;
            else if (l.bytes - 4 * word < 4)
                value &= ~(~0u << (l.bytes - 4 * word) * 8);
            if (line < l.count_filled && 4 * word < l.bytes_filled)
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + line * pitch + 4 * word),
                             "r"(value)
                             : "memory");
        }
    }
}

template <uint32_t SIZE, bool SHIFTED, uint32_t CAPACITY, uint32_t LINES>
static __device__ __forceinline__ void copy_lines(uint32_t to, uint32_t pitch,
                                                  const struct lines &l, const struct source &s)
{
    if constexpr (SHIFTED) {
        copy_pieces<CAPACITY, LINES>(to, pitch, l);
        return;
    }
    const uint32_t alignment = (uint32_t)(uintptr_t)l.from | (uint32_t)l.ld;
    if (alignment % 16 == 0) {
        copy_aligned<16, CAPACITY, LINES>(to, pitch, l);
        return;
    }
    if constexpr (SIZE == 8) {
        copy_aligned<8, CAPACITY, LINES>(to, pitch, l);
    } else if constexpr (SIZE == 4) {
        if (alignment % 8 == 0)
            copy_aligned<8, CAPACITY, LINES>(to, pitch, l);
        else
            copy_aligned<4, CAPACITY, LINES>(to, pitch, l);
    } else {
        if (alignment % 4 == 0)
            copy_aligned<4, CAPACITY, LINES>(to, pitch, l);
        else
            copy_shifted<CAPACITY>(to, pitch, l, s);
    }
}

/* Starts copying `depth` elements of k from `first_k` on; zeros follow up to a multiple of FILL. If
 * SHIFTED, lines lie in their places as copy_pieces puts them. */
template <typename In, uint32_t FILL, bool SHIFTED>
static __device__ __forceinline__ void load_slab(uint32_t to, const struct source &s,
                                                 uint32_t first_k, uint32_t depth)
{
    constexpr uint32_t size = sizeof(In);
    const uint32_t filled = (depth + FILL - 1) / FILL * FILL;
    if (s.along_k) {
        const struct lines l = {s.start + (uint64_t)first_k * size,
                                s.ld,
                                s.extent,
                                depth * size,
                                s.extent,
                                filled * size};
        copy_lines<size, SHIFTED, DEPTH_BYTES, TILE>(to, PITCH, l, s);
    } else {
        const struct lines l = {s.start + first_k * s.ld, s.ld,   depth,
                                s.extent * size,          filled, s.extent * size};
        copy_lines<size, SHIFTED, TILE * size, DEPTH<In>>(to, LINE_PITCH<In>, l, s);
    }
}

/* A warp has every fourth row of an A that lies along k. These rows have the same alignment, so
 * that the warp reads without bank conflicts, and are neighbours in the slab. */
constexpr uint32_t ROW_STEP = 4;

/* Copies 16 bytes that all exist. */
static __device__ __forceinline__ void copy_whole(uint32_t to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* A thread's share of an operand of f32, slab after slab, as copy_pieces puts it: the same piece of
 * four lines, of which the threads with the last one also copy what a shift moves beyond it. If
 * SPREAD, rows along k lie as ROW_STEP says. */
template <bool along_k, bool SPREAD> struct walk {
    static constexpr uint32_t LINES = 4, PIECES = along_k ? DEPTH_BYTES / 16 : TILE * 4 / 16;
    static constexpr uint32_t STEP = THREADS / PIECES; // lines
    static constexpr uint32_t PLACE_STEP = !along_k ? STEP * LINE_PITCH<float>
                                           : SPREAD ? STEP / ROW_STEP * PITCH
                                                    : STEP * PITCH;

    /* Where the next slab's first piece lies as much behind as its line begins behind a multiple of
     * 16, which stays so from slab to slab. */
    const char *from;

    __device__ __forceinline__ explicit walk(const struct source &s)
    {
        const uint32_t thread = grouped::thread();
        from = s.start + thread / PIECES * s.ld + thread % PIECES * 16;
    }

    /* The position of the thread's first piece in a slab. */
    static __device__ __forceinline__ uint32_t place()
    {
        const uint32_t thread = grouped::thread(), first = thread / PIECES;
        const uint32_t spread = first % ROW_STEP * (TILE / ROW_STEP) + first / ROW_STEP;
        return thread % PIECES * 16 +
               (!along_k ? first * LINE_PITCH<float> : (SPREAD ? spread : first) * PITCH);
    }

    static __device__ __forceinline__ uint32_t present(int32_t bytes)
    {
        return (uint32_t)min(max(bytes, 0), 16);
    }

    /* Starts copying the next slab, of which `left` elements of k and what follows are there; what
     * is not becomes zeros, but for rows and columns outside of the tile, which nobody looks at. */
    __device__ __forceinline__ void load(uint32_t slab, const struct source &s, uint32_t left)
    {
        constexpr uint32_t depth = DEPTH_BYTES / 4;
        const uint32_t first = grouped::thread() / PIECES, extent = s.extent;
        const uint32_t shift = (uint32_t)(uintptr_t)from % 16;
        const int32_t begin = (int32_t)(grouped::thread() % PIECES * 16) - (int32_t)shift;
        const bool last = grouped::thread() % PIECES == PIECES - 1 && // and there is a shift
                          begin < (int32_t)(PIECES - 1) * 16;
        const uint64_t stride = s.ld * STEP;
        const uint32_t to = slab + place();
        const char *line = from - shift;
        if (along_k && left >= depth + 4) {
#pragma unroll
            for (uint32_t i = 0; i < LINES; i++) {
                const bool there = first + i * STEP < extent;
                if (there)
                    copy_whole(to + i * PLACE_STEP, line);
                if (there && last)
                    copy_whole(to + i * PLACE_STEP + 16, line + 16);
                line += stride;
            }
        } else if (!along_k && left > depth) { // what a piece has beyond its line is the next one's
            const bool here = begin < (int32_t)(extent * 4);
            const bool beyond = last && begin + 16 < (int32_t)(extent * 4);
#pragma unroll
            for (uint32_t i = 0; i < LINES; i++) {
                if (here)
                    copy_whole(to + i * PLACE_STEP, line);
                if (beyond)
                    copy_whole(to + i * PLACE_STEP + 16, line + 16);
                line += stride;
            }
        } else {
            const uint32_t lines = along_k ? extent : left;
            const int32_t bytes = (int32_t)(4 * (along_k ? min(left, depth) : extent)) - begin;
            const uint32_t here = present(bytes), beyond = present(bytes - 16);
#pragma unroll 1
            for (uint32_t i = 0; i < LINES; i++) {
                const bool there = first + i * STEP < lines;
                copy_async<16>(to + i * PLACE_STEP, line, there ? here : 0);
                if (last)
                    copy_async<16>(to + i * PLACE_STEP + 16, line + 16, there ? beyond : 0);
                line += stride;
            }
        }
        from = along_k ? from + DEPTH_BYTES : line + shift;
    }
};

} // namespace grouped

#endif
