/*
 * microkernel_body.h - the functions of one microkernel. microkernel.c includes this file once for
 * each type and instruction set, because a function is compiled for one instruction set only.
 *
 * The including file defines NAME, TARGET (an attribute), ELEMENT (a type), ROWS and VECTOR_BYTES.
 * The functions are called NAME_run and NAME_sum_taps. The tile of the first is two vectors wide.
 */
#define JOIN_EXPANDED(name, suffix) name##suffix
#define JOIN(name, suffix) JOIN_EXPANDED(name, suffix)

/* The first `rows` rows of a tile; a constant in each call, so that the sums are registers. */
TARGET static inline __attribute__((always_inline)) void
JOIN(NAME, _rows)(uint64_t depth, const ELEMENT *a, const ELEMENT *b, ELEMENT *c, uint64_t ld,
                  const int rows)
{
    typedef ELEMENT vector
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));
    enum { LANES = VECTOR_BYTES / sizeof(ELEMENT) };
    vector left[ROWS], right[ROWS];

#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        left[i] = *(const vector *)(c + (uint64_t)i * ld);
        right[i] = *(const vector *)(c + (uint64_t)i * ld + LANES);
    }
    for (uint64_t p = 0; p < depth; p++, a += ROWS, b += 2 * LANES) {
        const vector b_left = *(const vector *)b, b_right = *(const vector *)(b + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            left[i] += a[i] * b_left;
            right[i] += a[i] * b_right;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        *(vector *)(c + (uint64_t)i * ld) = left[i];
        *(vector *)(c + (uint64_t)i * ld + LANES) = right[i];
    }
}

TARGET static void JOIN(NAME, _run)(uint64_t depth, const void *a_panel, const void *b_panel,
                                    void *tile, uint64_t ld, uint64_t rows)
{
    enum { PART = ROWS % 3 == 0 ? ROWS / 3 : ROWS / 4 };
#ifdef __clang__ /* fuses multiply-adds in one of the calls and not in another */
    rows = ROWS;
#endif
    if (rows > ROWS - PART)
        JOIN(NAME, _rows)(depth, a_panel, b_panel, tile, ld, ROWS);
    else if (rows > PART)
        JOIN(NAME, _rows)(depth, a_panel, b_panel, tile, ld, ROWS - PART);
    else if (rows > 1)
        JOIN(NAME, _rows)(depth, a_panel, b_panel, tile, ld, PART);
    else
        JOIN(NAME, _rows)(depth, a_panel, b_panel, tile, ld, 1);
}

/* `count`, at most 8, is a constant in each call, so that the sums are registers. */
TARGET static inline __attribute__((always_inline)) void
JOIN(NAME, _sum_group)(uint64_t taps, const uint32_t offsets[], const ELEMENT *weights,
                       const char *from, uint64_t from_step, char *to, uint64_t to_step, int count)
{
    typedef ELEMENT vector
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));
    enum { LANES = VECTOR_BYTES / sizeof(ELEMENT) };
    const uint64_t steps[4] = {0, from_step, 2 * from_step, 3 * from_step};
    vector sums[8];
    for (int i = 0; i < count; i++)
        sums[i] = (vector){0};
    for (uint64_t t = 0; t < taps; t++, weights += LANES) {
        const vector weight = *(const vector *)weights;
        const char *x = from + offsets[t];
        for (int i = 0; i < count; i++) { /* few additions for addresses */
            if (i == 4)
                x += 4 * from_step;
            sums[i] += *(const vector *)(const void *)(x + steps[i % 4]) * weight;
        }
    }
    for (int i = 0; i < count; i++)
        *(vector *)(void *)(to + (uint64_t)i * to_step) = sums[i];
}

TARGET static void JOIN(NAME, _sum_taps)(uint64_t taps, const uint32_t offsets[],
                                         const void *weights, const char *from, uint64_t from_step,
                                         char *to, uint64_t to_step, uint64_t count)
{
    for (; count >= 8; count -= 8, from += 8 * from_step, to += 8 * to_step)
        JOIN(NAME, _sum_group)(taps, offsets, weights, from, from_step, to, to_step, 8);
    if (count >= 4) {
        JOIN(NAME, _sum_group)(taps, offsets, weights, from, from_step, to, to_step, 4);
        count -= 4, from += 4 * from_step, to += 4 * to_step;
    }
    for (; count > 0; count--, from += from_step, to += to_step)
        JOIN(NAME, _sum_group)(taps, offsets, weights, from, from_step, to, to_step, 1);
}
#undef JOIN
#undef JOIN_EXPANDED
#undef NAME
#undef TARGET
#undef ELEMENT
#undef ROWS
#undef VECTOR_BYTES
