/*
 * microkernel_body.h - one microkernel. microkernel.c includes this file once for each type and
 * instruction set, because a function is compiled for one instruction set only.
 *
 * The including file defines NAME, TARGET (an attribute), ELEMENT (a type), ROWS and VECTOR_BYTES.
 * The tile is two vectors wide.
 */
TARGET static void NAME(uint64_t depth, const void *a_panel, const void *b_panel, void *tile,
                        uint64_t ld)
{
    typedef ELEMENT vector
        __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(ELEMENT)), may_alias));
    enum { LANES = VECTOR_BYTES / sizeof(ELEMENT) };
    const ELEMENT *a = a_panel, *b = b_panel;
    ELEMENT *c = tile;
    vector left[ROWS], right[ROWS];

    for (int i = 0; i < ROWS; i++) {
        left[i] = *(const vector *)(c + (uint64_t)i * ld);
        right[i] = *(const vector *)(c + (uint64_t)i * ld + LANES);
    }
    for (uint64_t p = 0; p < depth; p++, a += ROWS, b += 2 * LANES) {
        const vector b_left = *(const vector *)b, b_right = *(const vector *)(b + LANES);
        for (int i = 0; i < ROWS; i++) {
            left[i] += a[i] * b_left;
            right[i] += a[i] * b_right;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        *(vector *)(c + (uint64_t)i * ld) = left[i];
        *(vector *)(c + (uint64_t)i * ld + LANES) = right[i];
    }
}
#undef NAME
#undef TARGET
#undef ELEMENT
#undef ROWS
#undef VECTOR_BYTES
