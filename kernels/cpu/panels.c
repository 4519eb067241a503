#include "kernels/cpu/panels.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/cpu/wide_vectors.h"
#include "proto/size.h"

#define INLINE static inline __attribute__((always_inline))

enum { SIDE = 4, LINES = 16, ELEMENT_MAX = 8 /* bytes */ };
typedef uint32_t quad __attribute__((vector_size(SIDE * sizeof(uint32_t)), aligned(1), may_alias));

static inline void flip_element(char *at, uint32_t flip)
{
    uint32_t element;
    memcpy(&element, at, sizeof element);
    element ^= flip;
    memcpy(at, &element, sizeof element);
}

/* Writes the steps of a square of 4 x 4 elements one after another. Elements need no alignment. */
INLINE void transpose_square(const char *const lines[SIDE], uint64_t at, uint32_t flip,
                             uint64_t row, char *to)
{
    const quad flips = {flip, flip, flip, flip};
    const quad a = *(const quad *)(const void *)(lines[0] + at) ^ flips;
    const quad b = *(const quad *)(const void *)(lines[1] + at) ^ flips;
    const quad c = *(const quad *)(const void *)(lines[2] + at) ^ flips;
    const quad d = *(const quad *)(const void *)(lines[3] + at) ^ flips;
    const quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)(void *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(quad *)(void *)(to + row) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(quad *)(void *)(to + 2 * row) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(quad *)(void *)(to + 3 * row) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* Writes the steps from `first` on of `count` lines of 4-byte elements side by side, SIDE steps of
 * SIDE lines at a time; `count` is a multiple of SIDE. The steps are `row` bytes apart. */
static void interleave_squares(const char *const lines[LINES], uint64_t count, uint64_t first,
                               uint64_t depth, uint64_t row, uint32_t flip, char *to)
{
    uint64_t p = first;
    for (uint64_t end; p + SIDE <= depth; p = end) { /* a line of the cache of each line */
        end = p + LINES <= depth ? p + LINES : p + (depth - p) / SIDE * SIDE;
        for (uint64_t l = 0; l < count; l += SIDE)
            for (uint64_t q = p; q < end; q += SIDE)
                transpose_square(lines + l, q * sizeof flip, flip, row,
                                 to + q * row + l * sizeof flip);
    }
    for (; p < depth; p++)
        for (uint64_t l = 0; l < count; l++) {
            char *element = to + p * row + l * sizeof flip;
            memcpy(element, lines[l] + p * sizeof flip, sizeof flip);
            flip_element(element, flip);
        }
}

#ifdef __x86_64__
/* Writes 16 steps of 16 lines, a vector each. The elements that are `ahead` bytes further in the
 * lines are likely to be read next. */
__attribute__((target("avx512f"))) static void transpose_16(const char *const lines[LINES],
                                                            uint64_t at, uint64_t ahead,
                                                            uint32_t flip, uint64_t row, char *to)
{
    const __m512i flips = _mm512_set1_epi32((int)flip);
    __m512i x[LINES], y[LINES];
#pragma GCC unroll 16
    for (int i = 0; i < LINES; i++) {
        x[i] = _mm512_xor_si512(_mm512_loadu_si512(lines[i] + at), flips);
        __builtin_prefetch(lines[i] + at + ahead, 0, 2);
    }
#pragma GCC unroll 8
    for (int i = 0; i < LINES; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LINES; i += 4) { /* x[i + j]: steps j, j + 4, ... of lines i to i + 3 */
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512i a = _mm512_shuffle_i32x4(x[j], x[j + 4], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(x[j], x[j + 4], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(x[j + 8], x[j + 12], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(x[j + 8], x[j + 12], 0xdd);
        char *step = to + (uint64_t)j * row;
        _mm512_storeu_si512(step, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_storeu_si512(step + 4 * row, _mm512_shuffle_i32x4(b, d, 0x88));
        _mm512_storeu_si512(step + 8 * row, _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_storeu_si512(step + 12 * row, _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}
#endif

/* Writes `count` lines of 4-byte elements side by side, at most LINES of them. The steps are `row`
 * bytes apart. */
static void interleave(const char *const lines[LINES], uint64_t count, uint64_t depth, uint64_t row,
                       uint32_t flip, char *to)
{
    const uint64_t squares = count / SIDE * SIDE;
    uint64_t first = 0;
#ifdef __x86_64__
    if (count == LINES && __builtin_cpu_supports("avx512f"))
        for (; first + LINES <= depth; first += LINES)
            transpose_16(lines, first * sizeof flip, depth * sizeof flip, flip, row,
                         to + first * row);
#endif
    interleave_squares(lines, squares, first, depth, row, flip, to);
    for (uint64_t l = squares; l < count; l++)
        for (uint64_t p = 0; p < depth; p++) {
            char *element = to + p * row + l * sizeof flip;
            memcpy(element, lines[l] + p * sizeof flip, sizeof flip);
            flip_element(element, flip);
        }
}

typedef uint64_t doubles
    __attribute__((vector_size(SIDE * sizeof(uint64_t)), aligned(1), may_alias));

/* Writes `count` lines of 8-byte elements side by side, SIDE steps of SIDE lines at a time. The
 * steps are `row` bytes apart. */
INLINE void interleave_doubles_body(const char *const lines[LINES], uint64_t count, uint64_t depth,
                                    uint64_t row, char *to)
{
    const uint64_t squares = count / SIDE * SIDE, whole = depth / SIDE * SIDE;
    for (uint64_t p = 0; p < whole; p += SIDE)
        for (uint64_t l = 0; l < squares; l += SIDE) {
            const uint64_t at = p * sizeof(uint64_t);
            char *square = to + p * row + l * sizeof(uint64_t);
            const doubles a = *(const doubles *)(const void *)(lines[l] + at);
            const doubles b = *(const doubles *)(const void *)(lines[l + 1] + at);
            const doubles c = *(const doubles *)(const void *)(lines[l + 2] + at);
            const doubles d = *(const doubles *)(const void *)(lines[l + 3] + at);
            const doubles ab_even = __builtin_shufflevector(a, b, 0, 4, 2, 6);
            const doubles ab_odd = __builtin_shufflevector(a, b, 1, 5, 3, 7);
            const doubles cd_even = __builtin_shufflevector(c, d, 0, 4, 2, 6);
            const doubles cd_odd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
            *(doubles *)(void *)square = __builtin_shufflevector(ab_even, cd_even, 0, 1, 4, 5);
            *(doubles *)(void *)(square + row) =
                __builtin_shufflevector(ab_odd, cd_odd, 0, 1, 4, 5);
            *(doubles *)(void *)(square + 2 * row) =
                __builtin_shufflevector(ab_even, cd_even, 2, 3, 6, 7);
            *(doubles *)(void *)(square + 3 * row) =
                __builtin_shufflevector(ab_odd, cd_odd, 2, 3, 6, 7);
        }
    for (uint64_t l = 0; l < count; l++)
        for (uint64_t p = l < squares ? whole : 0; p < depth; p++)
            memcpy(to + p * row + l * sizeof(uint64_t), lines[l] + p * sizeof(uint64_t),
                   sizeof(uint64_t));
}

static void interleave_doubles_base(const char *const lines[LINES], uint64_t count, uint64_t depth,
                                    uint64_t row, char *to)
{
    interleave_doubles_body(lines, count, depth, row, to);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void interleave_doubles_avx2(const char *const lines[LINES],
                                                                    uint64_t count, uint64_t depth,
                                                                    uint64_t row, char *to)
{
    interleave_doubles_body(lines, count, depth, row, to);
}
#endif

static void interleave_doubles(const char *const lines[LINES], uint64_t count, uint64_t depth,
                               uint64_t row, char *to)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        interleave_doubles_avx2(lines, count, depth, row, to);
        return;
    }
#endif
    interleave_doubles_base(lines, count, depth, row, to);
}

void panels_transpose(const void *from, uint64_t from_pitch, uint64_t rows, uint64_t columns,
                      void *to, uint64_t to_pitch)
{
    for (uint64_t i = 0; i < rows; i += LINES) {
        char *at = (char *)to + i * sizeof(uint32_t);
        const char *lines[LINES];
        for (uint64_t l = 0; l < LINES; l++)
            lines[l] = (const char *)from + (i + l) * from_pitch;
        for (uint64_t j = 0; j < columns; j++) /* what is written next */
            __builtin_prefetch(at + j * to_pitch + LINES * sizeof(uint32_t), 1);
        interleave(lines, rows - i < LINES ? rows - i : LINES, columns, to_pitch, 0, at);
    }
}

/* Reads a line of `depth` steps of k. Elements of several steps are filled up with zeros. */
static const char *read_along(const struct panels_operand *operand, uint64_t line, uint64_t first_k,
                              uint64_t depth, char *memory)
{
    const char *read = operand->read(operand->argument, line, first_k, depth, memory);
    const uint64_t bytes = depth * (operand->size / operand->steps);
    if (bytes % operand->size == 0)
        return read;
    if (read != memory)
        memcpy(memory, read, bytes);
    memset(memory + bytes, 0, operand->size - bytes % operand->size);
    return memory;
}

/* `size` is a constant in each call, so that the copies are single moves. */
INLINE void pack_along_k(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                         uint64_t first_k, uint64_t depth, uint64_t width, char *panels,
                         const uint64_t size)
{
    const uint64_t elements = size_blocks(depth, operand->steps), bytes = elements * size;
    const uint64_t whole = size_blocks(extent, width) * width;
    char memory[LINES][ELEMENT_MAX * PANELS_DEPTH_MAX];
    for (uint64_t i = 0, count; i < whole; i += count) {
        const uint64_t left = width - i % width; /* in the panel */
        char *to = panels + i / width * width * bytes + i % width * size;
        const char *lines[LINES];
        count = left < LINES ? left : LINES;
        for (uint64_t l = 0; l < count; l++) {
            lines[l] = memory[l];
            if (i + l < extent)
                lines[l] = read_along(operand, first + i + l, first_k, depth, memory[l]);
            else
                memset(memory[l], 0, bytes);
        }
        if (size == sizeof(uint32_t)) {
            interleave(lines, count, elements, width * size, operand->flip, to);
            continue;
        }
        interleave_doubles(lines, count, elements, width * size, to);
    }
}

/* Elements of k that are read before they are packed, so that stores follow each other. */
enum { ELEMENTS = 8, STEPS_MAX = 4 };

/* The lines of memory of each step of some elements of k. */
struct across {
    const uint8_t *lines[ELEMENTS * STEPS_MAX];
    _Alignas(64) uint8_t memory[ELEMENTS * ELEMENT_MAX * PANELS_EXTENT_MAX];
};

/* Reads the steps of `count` elements. Steps of which there are not `left` are zero. */
static void read_across(const struct panels_operand *operand, uint64_t k, uint64_t left,
                        uint64_t first, uint64_t extent, uint64_t count, struct across *across)
{
    const uint64_t size = operand->size / operand->steps;
    for (uint64_t s = 0; s < count * operand->steps; s++) {
        uint8_t *memory = across->memory + s * PANELS_EXTENT_MAX * size;
        if (s < left) {
            across->lines[s] = operand->read(operand->argument, k + s, first, extent, memory);
        } else {
            memset(memory, 0, extent * size);
            across->lines[s] = memory;
        }
    }
}

/* Writes `count` elements, those of one step of the panel: from each of the lines of its steps of
 * k, from element `at` on. Sizes are constants in each call. */
INLINE void join_steps(uint8_t *to, const uint8_t *const *lines, uint64_t at, uint64_t count,
                       uint32_t flip, uint32_t steps)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t element = 0;
        for (uint32_t s = 0; s < steps; s++) {
            uint16_t pair;
            if (steps == 2)
                memcpy(&pair, lines[s] + (at + i) * 2, 2);
            else
                pair = lines[s][at + i];
            element |= (uint32_t)pair << s * (32 / steps);
        }
        element ^= flip;
        memcpy(to + i * sizeof element, &element, sizeof element);
    }
}

INLINE void join(const struct panels_operand *operand, uint8_t *to, const uint8_t *const *lines,
                 uint64_t at, uint64_t count, uint64_t size)
{
    if (operand->steps == 1)
        memcpy(to, lines[0] + at * size, count * size);
    else if (operand->steps == 2)
        join_steps(to, lines, at, count, operand->flip, 2);
    else
        join_steps(to, lines, at, count, operand->flip, 4);
}

INLINE void pack_panel(const struct panels_operand *operand, uint8_t *to,
                       const struct across *across, uint64_t at, uint64_t elements, uint64_t width,
                       uint64_t size)
{
    for (uint64_t p = 0; p < elements; p++)
        join(operand, to + p * width * size, across->lines + p * operand->steps, at, width, size);
}

INLINE void pack_across_body(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                             uint64_t first_k, uint64_t depth, uint64_t width, uint8_t *panels)
{
    const uint64_t size = operand->size, elements = size_blocks(depth, operand->steps);
    const uint64_t panel = elements * width * size, full = extent / width, rest = extent % width;
    struct across across;
    for (uint64_t s = 0; s < ELEMENTS * STEPS_MAX; s++)
        across.lines[s] = across.memory;
    for (uint64_t p = 0, count; p < elements; p += count) {
        uint8_t *to = panels + p * width * size;
        count = elements - p < ELEMENTS ? elements - p : ELEMENTS;
        read_across(operand, first_k + p * operand->steps, depth - p * operand->steps, first,
                    extent, count, &across);
        for (uint64_t i = 0; i < full; i++, to += panel)
            if (width == 32 && size == 4)
                pack_panel(operand, to, &across, i * 32, count, 32, 4);
            else if (width == 16 && size == 4)
                pack_panel(operand, to, &across, i * 16, count, 16, 4);
            else if (width == 12 && size == 4)
                pack_panel(operand, to, &across, i * 12, count, 12, 4);
            else if (width == 16 && size == 8)
                pack_panel(operand, to, &across, i * 16, count, 16, 8);
            else if (width == 8 && size == 8)
                pack_panel(operand, to, &across, i * 8, count, 8, 8);
            else if (width == 12 && size == 8)
                pack_panel(operand, to, &across, i * 12, count, 12, 8);
            else
                pack_panel(operand, to, &across, i * width, count, width, size);
        for (uint64_t i = 0; i < count && rest > 0; i++) {
            uint8_t *last = to + i * width * size;
            join(operand, last, across.lines + i * operand->steps, full * width, rest, size);
            memset(last + rest * size, 0, (width - rest) * size);
        }
    }
}

/* The function above for one set of instructions. */
#define PACK_ACROSS(NAME, TARGET)                                                                  \
    TARGET static void pack_across_##NAME(const struct panels_operand *operand, uint64_t first,    \
                                          uint64_t extent, uint64_t first_k, uint64_t depth,       \
                                          uint64_t width, void *panels)                            \
    {                                                                                              \
        pack_across_body(operand, first, extent, first_k, depth, width, panels);                   \
    }
PACK_ACROSS(base, )
#ifdef __x86_64__
PACK_ACROSS(avx2, __attribute__((target("avx2"))))
PACK_ACROSS(avx512, WIDE_VECTORS("avx512f,avx512bw"))
#endif

static void pack_across_k(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                          uint64_t first_k, uint64_t depth, uint64_t width, void *panels)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
        pack_across_avx512(operand, first, extent, first_k, depth, width, panels);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        pack_across_avx2(operand, first, extent, first_k, depth, width, panels);
        return;
    }
#endif
    pack_across_base(operand, first, extent, first_k, depth, width, panels);
}

void panels_pack(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                 uint64_t first_k, uint64_t depth, uint64_t width, char *panels)
{
    if (operand->along_k && operand->size == 8)
        pack_along_k(operand, first, extent, first_k, depth, width, panels, 8);
    else if (operand->along_k)
        pack_along_k(operand, first, extent, first_k, depth, width, panels, 4);
    else
        pack_across_k(operand, first, extent, first_k, depth, width, panels);
}
