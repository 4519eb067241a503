/*
 * microkernel_body.h - the functions of one microkernel. microkernel.c includes this file once for
 * each type and instruction set, because a function is compiled for one instruction set only.
 *
 * The including file defines NAME, TARGET (an attribute), ELEMENT (a type), ROWS and VECTOR_BYTES,
 * and, for a microkernel that multiplies f16 too, WIDEN_F16(from), which widens as many numbers as
 * a vector has. The functions are called NAME_run, NAME_run_few, NAME_run_few_f16, NAME_run_lines
 * and NAME_sum_taps. The tiles of NAME_run and NAME_run_lines are two vectors wide.
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

/* The first `rows` rows of `count` columns, `vectors` vectors at a time. Both `rows` and `vectors`
 * are constants in each call, so that the sums are registers. The rows of B that are some steps of
 * k ahead are fetched where so few columns are read of each that the processor does not foresee it.
 */
#define FEW_ROWS(SUFFIX, B_ELEMENT, LOAD)                                                          \
    TARGET static inline __attribute__((always_inline)) uint64_t JOIN(NAME, _columns##SUFFIX)(     \
        uint64_t depth, const ELEMENT *a, const B_ELEMENT *b, uint64_t b_ld, ELEMENT *c,           \
        uint64_t ld, uint64_t first, uint64_t count, const int rows, const int vectors)            \
    {                                                                                              \
        typedef ELEMENT vector                                                                     \
            __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));       \
        enum { LANES = VECTOR_BYTES / sizeof(ELEMENT), AHEAD = 12 };                               \
        const uint64_t step = (uint64_t)vectors * LANES;                                           \
        for (; first + step <= count; first += step) {                                             \
            const ELEMENT *a_step = a;                                                             \
            const B_ELEMENT *b_step = b + first;                                                   \
            vector sums[2 * ROWS < 16 ? 16 : 2 * ROWS];                                            \
            _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                \
                _Pragma("GCC unroll 16") for (int v = 0; v < vectors; v++) sums[i * vectors + v] = \
                    *(const vector *)(c + (uint64_t)i * ld + first + (uint64_t)v * LANES);         \
            for (uint64_t p = 0; p < depth; p++, a_step += ROWS, b_step += b_ld) {                 \
                vector right[16];                                                                  \
                _Pragma("GCC unroll 16") for (int v = 0; v < vectors; v++) right[v] =              \
                    LOAD(b_step + (uint64_t)v * LANES);                                            \
                if (vectors <= 4)                                                                  \
                    for (uint64_t line = 0; line < step * sizeof(B_ELEMENT); line += 64)           \
                        __builtin_prefetch((const char *)(b_step + AHEAD * b_ld) + line);          \
                _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                            \
                    _Pragma("GCC unroll 16") for (int v = 0; v < vectors; v++)                     \
                        sums[i * vectors + v] += a_step[i] * right[v];                             \
            }                                                                                      \
            _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                \
                    _Pragma("GCC unroll 16") for (int v = 0; v < vectors; v++) *                   \
                (vector *)(c + (uint64_t)i * ld + first + (uint64_t)v * LANES) =                   \
                sums[i * vectors + v];                                                             \
        }                                                                                          \
        return first;                                                                              \
    }                                                                                              \
    /* Strips as wide as the registers allow, and then of a tile. */                               \
    TARGET static inline __attribute__((always_inline)) uint64_t JOIN(NAME, _strips##SUFFIX)(      \
        uint64_t depth, const ELEMENT *a, const B_ELEMENT *b, uint64_t b_ld, ELEMENT *c,           \
        uint64_t ld, uint64_t count, const int rows, const int vectors)                            \
    {                                                                                              \
        uint64_t first = 0;                                                                        \
        if (vectors > 2)                                                                           \
            first = JOIN(NAME, _columns##SUFFIX)(depth, a, b, b_ld, c, ld, first, count, rows,     \
                                                 vectors);                                         \
        return JOIN(NAME, _columns##SUFFIX)(depth, a, b, b_ld, c, ld, first, count, rows, 2);      \
    }                                                                                              \
    TARGET static uint64_t JOIN(NAME, _run_few##SUFFIX)(                                           \
        uint64_t depth, const void *a, const void *b, uint64_t b_ld, void *c, uint64_t ld,         \
        uint64_t rows, uint64_t columns)                                                           \
    {                                                                                              \
        enum { MANY = ROWS >= 12 }; /* registers */                                                \
        if (rows == 1)                                                                             \
            return JOIN(NAME, _strips##SUFFIX)(depth, a, b, b_ld, c, ld, columns, 1,               \
                                               MANY ? 16 : 8);                                     \
        if (rows == 2)                                                                             \
            return JOIN(NAME, _strips##SUFFIX)(depth, a, b, b_ld, c, ld, columns, 2,               \
                                               MANY ? 8 : 4);                                      \
        if (rows <= 4)                                                                             \
            return JOIN(NAME, _strips##SUFFIX)(depth, a, b, b_ld, c, ld, columns, 4,               \
                                               MANY ? 4 : 2);                                      \
        if (rows <= 8 && MANY)                                                                     \
            return JOIN(NAME, _strips##SUFFIX)(depth, a, b, b_ld, c, ld, columns, 8, 2);           \
        return JOIN(NAME, _strips##SUFFIX)(depth, a, b, b_ld, c, ld, columns, ROWS, 2);            \
    }

#if defined HAS_FEW && !defined __clang__ /* which fuses multiply-adds in some functions only */
#define LOAD_VECTOR(from) (*(const vector *)(from))
FEW_ROWS(, ELEMENT, LOAD_VECTOR)
#ifdef WIDEN_F16
#define LOAD_F16(from) ((vector)WIDEN_F16(from))
FEW_ROWS(_f16, uint16_t, LOAD_F16)
#undef LOAD_F16
#endif
#undef LOAD_VECTOR
#endif
#undef FEW_ROWS

/* The first `rows` rows and `vectors` vectors of a tile; constants in each call. A processor has 16
 * registers for addresses, so that the lines of some rows are read again in each step; compilers
 * would keep their addresses in vector registers, for moves that take the place of multiply-adds.
 */
TARGET static inline __attribute__((always_inline)) void
JOIN(NAME, _lines)(uint64_t depth, const void *const lines[], const uint32_t offsets[],
                   const ELEMENT *b, uint64_t b_ld, ELEMENT *c, uint64_t ld, bool adds,
                   const int rows, const int vectors)
{
    typedef ELEMENT vector
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));
    enum { LANES = VECTOR_BYTES / sizeof(ELEMENT), ADDRESSES = ROWS < 9 ? ROWS : 9 };
    const ELEMENT *a[ROWS], *volatile more[ROWS - ADDRESSES + 1];
    vector left[ROWS], right[ROWS];

#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        if (i < ADDRESSES)
            a[i] = lines[i];
        else
            more[i - ADDRESSES] = lines[i];
        left[i] = right[i] = (vector){0};
        __builtin_prefetch(c + (uint64_t)i * ld, 1);
        if (vectors > 1)
            __builtin_prefetch(c + (uint64_t)i * ld + 2 * LANES - 1, 1);
        if (adds)
            left[i] = *(const vector *)(c + (uint64_t)i * ld);
        if (adds && vectors > 1)
            right[i] = *(const vector *)(c + (uint64_t)i * ld + LANES);
    }
    for (const uint32_t *end = offsets + depth; offsets < end; offsets++, b += b_ld) {
        const uint64_t offset = *offsets;
        const vector b_left = *(const vector *)b, b_right = *(const vector *)(b + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const ELEMENT x = i < ADDRESSES ? a[i][offset] : more[i - ADDRESSES][offset];
            left[i] += x * b_left;
            if (vectors > 1)
                right[i] += x * b_right;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        *(vector *)(c + (uint64_t)i * ld) = left[i];
        if (vectors > 1)
            *(vector *)(c + (uint64_t)i * ld + LANES) = right[i];
    }
}

TARGET static void JOIN(NAME, _run_lines)(uint64_t depth, const void *const lines[],
                                          const uint32_t offsets[], const void *b, uint64_t b_ld,
                                          void *tile, uint64_t ld, uint64_t rows, uint64_t columns,
                                          bool adds)
{
    enum { PART = ROWS % 3 == 0 ? ROWS / 3 : ROWS / 4 };
    const bool half = MICROKERNEL_PARTS == 2 && columns <= VECTOR_BYTES / sizeof(ELEMENT);
#ifdef __clang__ /* as above */
    rows = ROWS;
#endif
    if (rows > ROWS - PART && half)
        JOIN(NAME, _lines)(depth, lines, offsets, b, b_ld, tile, ld, adds, ROWS, 1);
    else if (rows > ROWS - PART)
        JOIN(NAME, _lines)(depth, lines, offsets, b, b_ld, tile, ld, adds, ROWS, 2);
    else if (rows > PART)
        JOIN(NAME, _lines)(depth, lines, offsets, b, b_ld, tile, ld, adds, ROWS - PART, 2);
    else if (rows > 1)
        JOIN(NAME, _lines)(depth, lines, offsets, b, b_ld, tile, ld, adds, PART, 2);
    else
        JOIN(NAME, _lines)(depth, lines, offsets, b, b_ld, tile, ld, adds, 1, 2);
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
#undef WIDEN_F16
#undef HAS_FEW
