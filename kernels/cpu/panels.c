#include "kernels/cpu/panels.h"

#include <string.h>

#include "proto/size.h"

enum { SIDE = 4, ELEMENT_MAX = 8 /* bytes */ };
typedef uint32_t quad __attribute__((vector_size(SIDE * sizeof(uint32_t)), aligned(4), may_alias));

/* Writes four lines of 4-byte elements side by side, in squares of 4 x 4 that are transposed. */
static void interleave(const char *const lines[SIDE], uint64_t depth, uint64_t width, char *to)
{
    const uint64_t row = width * sizeof(uint32_t);
    uint64_t p = 0;
    for (; p + SIDE <= depth; p += SIDE, to += SIDE * row) {
        const uint64_t at = p * sizeof(uint32_t);
        const quad a = *(const quad *)(const void *)(lines[0] + at);
        const quad b = *(const quad *)(const void *)(lines[1] + at);
        const quad c = *(const quad *)(const void *)(lines[2] + at);
        const quad d = *(const quad *)(const void *)(lines[3] + at);
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
        for (uint64_t i = 0; i < SIDE; i++)
            memcpy(to + i * sizeof(uint32_t), lines[i] + p * sizeof(uint32_t), sizeof(uint32_t));
}

/* `size` is a constant in each call, so that the copies are single moves. */
static inline __attribute__((always_inline)) void
pack_along_k(const struct panels_operand *operand, uint64_t first, uint64_t extent,
             uint64_t first_k, uint64_t depth, uint64_t width, char *panels, const uint64_t size)
{
    const uint64_t whole = size_blocks(extent, width) * width, bytes = depth * size;
    char memory[SIDE][ELEMENT_MAX * PANELS_DEPTH_MAX];
    for (uint64_t i = 0, count; i < whole; i += count) {
        const uint64_t left = width - i % width; /* in the panel */
        char *to = panels + i / width * width * bytes + i % width * size;
        const char *lines[SIDE];
        count = left < SIDE ? left : SIDE;
        for (uint64_t l = 0; l < count; l++) {
            lines[l] = memory[l];
            if (i + l < extent)
                lines[l] =
                    operand->read(operand->argument, first + i + l, first_k, depth, memory[l]);
            else
                memset(memory[l], 0, bytes);
        }
        if (count == SIDE && size == sizeof(uint32_t)) {
            interleave(lines, depth, width, to);
            continue;
        }
        for (uint64_t l = 0; l < count; l++)
            for (uint64_t p = 0; p < depth; p++)
                memcpy(to + (p * width + l) * size, lines[l] + p * size, size);
    }
}

enum {
    STEPS = 8
}; /* of k that are read before they are packed, so that stores follow each other */

/* Copies the elements of a panel from each of `steps` lines. `bytes` is a constant in each call. */
static inline __attribute__((always_inline)) void
copy_lines(char *to, const char *const lines[STEPS], uint64_t at, uint64_t steps, uint64_t bytes)
{
    for (uint64_t p = 0; p < steps; p++)
        memcpy(to + p * bytes, lines[p] + at, bytes);
}

static void copy_panel(char *to, const char *const lines[STEPS], uint64_t at, uint64_t steps,
                       uint64_t bytes)
{
    switch (bytes) { /* the widths of microkernel.c, in vectors of 16 bytes */
    case 48:
        copy_lines(to, lines, at, steps, 48);
        break;
    case 64:
        copy_lines(to, lines, at, steps, 64);
        break;
    case 128:
        copy_lines(to, lines, at, steps, 128);
        break;
    default:
        for (uint64_t i = 0; i < bytes; i += 8)
            for (uint64_t p = 0; p < steps; p++)
                memcpy(to + p * bytes + i, lines[p] + at + i, 8);
        break;
    }
}

static void pack_across_k(const struct panels_operand *operand, uint64_t first, uint64_t extent,
                          uint64_t first_k, uint64_t depth, uint64_t width, char *panels)
{
    const uint64_t size = operand->size, bytes = width * size, panel = depth * bytes;
    const uint64_t full = extent / width, rest = extent % width * size;
    char memory[STEPS][ELEMENT_MAX * PANELS_EXTENT_MAX];
    const char *lines[STEPS];
    for (uint64_t k = 0, steps; k < depth; k += steps) {
        char *to = panels + k * bytes;
        steps = depth - k < STEPS ? depth - k : STEPS;
        for (uint64_t p = 0; p < steps; p++)
            lines[p] = operand->read(operand->argument, first_k + k + p, first, extent, memory[p]);
        for (uint64_t i = 0; i < full; i++)
            copy_panel(to + i * panel, lines, i * bytes, steps, bytes);
        for (uint64_t p = 0; p < steps && rest > 0; p++) {
            char *last = to + full * panel + p * bytes;
            memcpy(last, lines[p] + full * bytes, rest);
            memset(last + rest, 0, bytes - rest);
        }
    }
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
