#include "kernels/cpu/panels.h"

#include <string.h>

#include "proto/size.h"

#define INLINE static inline __attribute__((always_inline))

enum { SIDE = 4, ELEMENT_MAX = 8 /* bytes */ };
typedef uint32_t quad __attribute__((vector_size(SIDE * sizeof(uint32_t)), aligned(1), may_alias));

static inline void flip_element(char *at, uint32_t flip)
{
    uint32_t element;
    memcpy(&element, at, sizeof element);
    element ^= flip;
    memcpy(at, &element, sizeof element);
}

/* Writes four lines of 4-byte elements side by side, in squares of 4 x 4 that are transposed. The
 * lines need no alignment. */
static void interleave(const char *const lines[SIDE], uint64_t depth, uint64_t width, uint32_t flip,
                       char *to)
{
    const uint64_t row = width * sizeof(uint32_t);
    const quad flips = {flip, flip, flip, flip};
    uint64_t p = 0;
    for (; p + SIDE <= depth; p += SIDE, to += SIDE * row) {
        const uint64_t at = p * sizeof(uint32_t);
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
    for (; p < depth; p++, to += row)
        for (uint64_t i = 0; i < SIDE; i++) {
            memcpy(to + i * sizeof flip, lines[i] + p * sizeof flip, sizeof flip);
            flip_element(to + i * sizeof flip, flip);
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
    char memory[SIDE][ELEMENT_MAX * PANELS_DEPTH_MAX];
    for (uint64_t i = 0, count; i < whole; i += count) {
        const uint64_t left = width - i % width; /* in the panel */
        char *to = panels + i / width * width * bytes + i % width * size;
        const char *lines[SIDE];
        count = left < SIDE ? left : SIDE;
        for (uint64_t l = 0; l < count; l++) {
            lines[l] = memory[l];
            if (i + l < extent)
                lines[l] = read_along(operand, first + i + l, first_k, depth, memory[l]);
            else
                memset(memory[l], 0, bytes);
        }
        if (count == SIDE && size == sizeof(uint32_t)) {
            interleave(lines, elements, width, operand->flip, to);
            continue;
        }
        for (uint64_t l = 0; l < count; l++)
            for (uint64_t p = 0; p < elements; p++) {
                memcpy(to + (p * width + l) * size, lines[l] + p * size, size);
                if (size == sizeof(uint32_t))
                    flip_element(to + (p * width + l) * size, operand->flip);
            }
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
PACK_ACROSS(avx512, __attribute__((target("avx512f,avx512bw,prefer-vector-width=512"))))
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
