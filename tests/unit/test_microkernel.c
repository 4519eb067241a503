/* Every microkernel that this processor can run, not only the one that it would choose. */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/microkernel.h"
#include "tests/product/random.h"

enum {
    DEPTH_MAX = 300,
    LD = MICROKERNEL_COLUMNS + 3,
    TILE = MICROKERNEL_ROWS * LD,
};

static union {
    double f64[DEPTH_MAX * MICROKERNEL_COLUMNS];
    float f32[DEPTH_MAX * MICROKERNEL_COLUMNS];
    uint32_t u32[DEPTH_MAX * MICROKERNEL_COLUMNS];
} a, b, tile, expected;

static void fill(void)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < sizeof a.u32 / sizeof a.u32[0]; i++) {
        a.u32[i] = (uint32_t)random_next(&seed);
        b.u32[i] = (uint32_t)random_next(&seed);
    }
    for (unsigned i = 0; i < TILE; i++)
        tile.u32[i] = expected.u32[i] = (uint32_t)random_next(&seed);
}

static void fill_f32(void)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < sizeof a.f32 / sizeof a.f32[0]; i++) {
        a.f32[i] = (float)random_unit(&seed);
        b.f32[i] = (float)random_unit(&seed);
    }
    for (unsigned i = 0; i < TILE; i++)
        tile.f32[i] = expected.f32[i] = (float)random_unit(&seed);
}

static void fill_f64(void)
{
    uint64_t seed = 1;
    for (unsigned i = 0; i < sizeof a.f64 / sizeof a.f64[0]; i++) {
        a.f64[i] = random_unit(&seed);
        b.f64[i] = random_unit(&seed);
    }
    for (unsigned i = 0; i < TILE; i++)
        tile.f64[i] = expected.f64[i] = random_unit(&seed);
}

static void shape_divides(const struct microkernel *micro)
{
    ck_assert_uint_eq(MICROKERNEL_ROWS % micro->rows, 0);
    ck_assert_uint_eq(MICROKERNEL_COLUMNS % micro->columns, 0);
}

START_TEST(integers)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_for(GEMMD_I32, number)) != NULL; number++)
        for (uint64_t depth = 0; depth <= DEPTH_MAX; depth += 75) {
            shape_divides(micro);
            fill();
            for (uint64_t i = 0; i < micro->rows; i++)
                for (uint64_t j = 0; j < micro->columns; j++)
                    for (uint64_t p = 0; p < depth; p++)
                        expected.u32[i * LD + j] +=
                            a.u32[p * micro->rows + i] * b.u32[p * micro->columns + j];
            micro->run(depth, &a, &b, &tile, LD, micro->rows);
            ck_assert_msg(memcmp(&tile, &expected, TILE * sizeof(uint32_t)) == 0,
                          "number %u, depth %lu", number, (unsigned long)depth);
        }
    ck_assert_uint_ne((uintptr_t)microkernel_for(GEMMD_I32, 0), 0);
}
END_TEST

/* The rows that are needed have the bits that they have in a whole tile. */
START_TEST(used_rows)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_for(GEMMD_F32, number)) != NULL; number++)
        for (uint64_t used = 1; used <= micro->rows; used++) {
            fill_f32();
            micro->run(DEPTH_MAX, &a, &b, &expected, LD, micro->rows);
            micro->run(DEPTH_MAX, &a, &b, &tile, LD, used);
            ck_assert_msg(memcmp(&tile, &expected, used * LD * sizeof(float)) == 0,
                          "number %u, %lu rows", number, (unsigned long)used);
        }
}
END_TEST

/* Operands that are not in panels give the same bits, in the rows and columns that are needed and
 * no others beyond the tile. */
START_TEST(lines)
{
    enum { DEPTH = 70, B_LD = MICROKERNEL_COLUMNS + 5 };
    static float apart[DEPTH * B_LD], sums[TILE];
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_for(GEMMD_F32, number)) != NULL; number++)
        for (uint64_t used = 1; used <= micro->rows; used++)
            for (uint64_t columns = 1; columns <= micro->columns; columns++) {
                const void *rows[MICROKERNEL_ROWS];
                uint32_t offsets[DEPTH];
                const bool adds = (used + columns) % 2 != 0;
                fill_f32();
                for (uint64_t i = 0; i < micro->rows; i++)
                    rows[i] = a.f32 + (i < used ? i : used - 1);
                for (uint32_t p = 0; p < DEPTH; p++) {
                    offsets[p] = (DEPTH - 1 - p) * micro->rows;
                    memcpy(apart + p * B_LD, b.f32 + (DEPTH - 1 - p) * micro->columns,
                           micro->columns * sizeof(float));
                }
                for (unsigned i = 0; i < TILE; i++)
                    sums[i] = adds ? expected.f32[i] : 0;
                for (uint64_t p = 0; p < DEPTH; p++) /* one step after another, backwards */
                    micro->run(1, a.f32 + (DEPTH - 1 - p) * micro->rows,
                               b.f32 + (DEPTH - 1 - p) * micro->columns, sums, LD, micro->rows);
                micro->run_lines(DEPTH, rows, offsets, apart, B_LD, &tile, LD, used, columns, adds);
                for (uint64_t i = 0; i < MICROKERNEL_ROWS; i++)
                    for (uint64_t j = 0; j < LD; j++) {
                        const bool needed = i < used && j < columns;
                        const bool free = i < micro->rows && j < micro->columns;
                        const float *is = tile.f32 + i * LD + j, *was = expected.f32 + i * LD + j;
                        ck_assert_msg(free && !needed ? true
                                                      : memcmp(is, needed ? sums + i * LD + j : was,
                                                               sizeof *is) == 0,
                                      "number %u, %lu rows, %lu columns: %lu %lu", number,
                                      (unsigned long)used, (unsigned long)columns, (unsigned long)i,
                                      (unsigned long)j);
                    }
                const uint64_t part = micro->columns / MICROKERNEL_PARTS;
                for (uint64_t j = part; columns <= part && used == micro->rows && j < LD; j++)
                    ck_assert(memcmp(tile.f32 + j, expected.f32 + j, sizeof(float)) == 0);
            }
}
END_TEST

/* One rounding a step, two where a processor has no fused multiply-add; outside the tile nothing.
 */
START_TEST(singles)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_for(GEMMD_F32, number)) != NULL; number++)
        for (uint64_t depth = 0; depth <= DEPTH_MAX; depth += 75) {
            shape_divides(micro);
            fill_f32();
            micro->run(depth, &a, &b, &tile, LD, micro->rows);
            for (uint64_t i = 0; i < MICROKERNEL_ROWS; i++)
                for (uint64_t j = 0; j < LD; j++) {
                    double sum = (double)expected.f32[i * LD + j], magnitude = fabs(sum);
                    for (uint64_t p = 0; i < micro->rows && j < micro->columns && p < depth; p++) {
                        const double term = (double)a.f32[p * micro->rows + i] *
                                            (double)b.f32[p * micro->columns + j];
                        sum += term;
                        magnitude += fabs(term);
                    }
                    const bool inside = i < micro->rows && j < micro->columns;
                    const double allowed = inside ? 2 * (double)depth * 0x1p-24 * magnitude : 0;
                    ck_assert_msg(fabs((double)tile.f32[i * LD + j] - sum) <= allowed,
                                  "number %u, depth %lu, row %lu, column %lu", number,
                                  (unsigned long)depth, (unsigned long)i, (unsigned long)j);
                }
        }
}
END_TEST

START_TEST(doubles)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_for(GEMMD_F64, number)) != NULL; number++)
        for (uint64_t depth = 0; depth <= DEPTH_MAX; depth += 75) {
            shape_divides(micro);
            fill_f64();
            micro->run(depth, &a, &b, &tile, LD, micro->rows);
            for (uint64_t i = 0; i < MICROKERNEL_ROWS; i++)
                for (uint64_t j = 0; j < LD; j++) {
                    long double sum = expected.f64[i * LD + j], magnitude = fabsl(sum);
                    for (uint64_t p = 0; i < micro->rows && j < micro->columns && p < depth; p++) {
                        const long double term =
                            (long double)a.f64[p * micro->rows + i] * b.f64[p * micro->columns + j];
                        sum += term;
                        magnitude += fabsl(term);
                    }
                    const bool inside = i < micro->rows && j < micro->columns;
                    const long double allowed =
                        inside ? 2 * (long double)depth * 0x1p-53L * magnitude : 0;
                    ck_assert_msg(fabsl(tile.f64[i * LD + j] - sum) <= allowed,
                                  "number %u, depth %lu, row %lu, column %lu", number,
                                  (unsigned long)depth, (unsigned long)i, (unsigned long)j);
                }
        }
}
END_TEST

/* Element `p` of a line holds steps p * steps to p * steps + steps - 1. */
static int32_t narrow_step(const struct microkernel *micro, uint32_t element, uint32_t step)
{
    const uint32_t bits = 32 / micro->steps;
    const uint32_t number = element >> (step * bits) & ((1u << (bits - 1) << 1) - 1);
    return micro->steps == 4 ? (int8_t)number : (int16_t)number;
}

START_TEST(narrow_integers)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_narrow(GEMMD_I8, number)) != NULL; number++)
        for (uint64_t used = 1; used <= micro->rows; used++) {
            const uint64_t depth = 75 * (used % 4);
            shape_divides(micro);
            fill();
            if (micro->steps == 2) /* i16 that were i8; -128 everywhere in the first elements */
                for (unsigned i = 0; i < sizeof a.u32 / sizeof a.u32[0]; i++) {
                    a.u32[i] = i < 99 ? 0xff80ff80 : a.u32[i] & 0x007f007f;
                    b.u32[i] = i < 99 ? 0xff80ff80 : b.u32[i] & 0x007f007f;
                }
            for (uint64_t i = 0; i < micro->rows; i++)
                for (uint64_t j = 0; j < micro->columns; j++)
                    for (uint64_t p = 0; p < depth; p++)
                        for (uint32_t s = 0; s < micro->steps; s++)
                            expected.u32[i * LD + j] +=
                                (uint32_t)(narrow_step(micro, a.u32[p * micro->rows + i], s) *
                                           narrow_step(micro,
                                                       b.u32[p * micro->columns + j] ^ micro->flip,
                                                       s));
            micro->run(depth, &a, &b, &tile, LD, used);
            ck_assert_msg(memcmp(&tile, &expected, used * LD * sizeof(uint32_t)) == 0,
                          "number %u, %lu rows", number, (unsigned long)used);
        }
}
END_TEST

static float narrow_bf16(uint32_t element, uint32_t step)
{
    const uint32_t bits = step == 0 ? element << 16 : element & 0xffff0000;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Sums of normal numbers, with and without the instructions for bf16. */
START_TEST(narrow_bf16_sums)
{
    const struct microkernel *micro;
    for (uint32_t number = 0; (micro = microkernel_narrow(GEMMD_BF16, number)) != NULL; number++)
        for (uint64_t used = 1; used <= 2 * (uint64_t)micro->rows; used++) {
            const uint64_t rows = (used + 1) / 2;
            shape_divides(micro);
            fill();
            for (unsigned i = 0; i < sizeof a.u32 / sizeof a.u32[0]; i++) {
                a.u32[i] = (a.u32[i] & 0x81ff81ff) | 0x3c003c00;
                b.u32[i] = (b.u32[i] & 0x81ff81ff) | 0x3c003c00;
            }
            memset(&tile, 0, sizeof tile);
            (used % 2 == 0 ? micro->run : micro->run_tiny)(DEPTH_MAX, &a, &b, &tile, LD, rows);
            for (uint64_t i = 0; i < rows; i++)
                for (uint64_t j = 0; j < micro->columns; j++) {
                    double sum = 0, magnitude = 0;
                    for (uint64_t p = 0; p < 2 * DEPTH_MAX; p++) {
                        const uint32_t of_a = a.u32[p / 2 * micro->rows + i];
                        const uint32_t of_b = b.u32[p / 2 * micro->columns + j];
                        const double term =
                            (double)narrow_bf16(of_a, p % 2) * (double)narrow_bf16(of_b, p % 2);
                        sum += term;
                        magnitude += fabs(term);
                    }
                    ck_assert_msg(fabs((double)tile.f32[i * LD + j] - sum) <=
                                      2 * DEPTH_MAX * 0x1p-24 * magnitude,
                                  "number %u, row %lu of %lu, column %lu", number, (unsigned long)i,
                                  (unsigned long)rows, (unsigned long)j);
                }
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("microkernel");
    TCase *tests = tcase_create("microkernel");
    tcase_add_test(tests, integers);
    tcase_add_test(tests, used_rows);
    tcase_add_test(tests, lines);
    tcase_add_test(tests, narrow_integers);
    tcase_add_test(tests, narrow_bf16_sums);
    tcase_add_test(tests, singles);
    tcase_add_test(tests, doubles);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
