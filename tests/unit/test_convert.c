/* Every bit pattern of the narrow types, and every place where narrowing changes its mind. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"

enum { F16_PATTERNS = 1 << 16, F16_INFINITY = 0x7c00, BF16_INFINITY = 0x7f80 };

/* What IEEE 754 says that bits mean, written without a look at convert.c. */
static double meaning(uint32_t bits, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = (int)(bits & ((1u << mantissa_bits) - 1));
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

static void check_same(uint32_t bits, double expected, float got)
{
    ck_assert_msg((double)got == expected && !signbit(got) == !signbit(expected),
                  "0x%04x became %a and should be %a", bits, (double)got, expected);
}

START_TEST(f16_widens_exactly)
{
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++) {
        const uint32_t magnitude = bits & 0x7fff;
        const float got = convert_f16_to_f32((uint16_t)bits);
        if (magnitude > F16_INFINITY)
            ck_assert_msg(isnan(got), "0x%04x is NaN and became %a", bits, (double)got);
        else if (magnitude == F16_INFINITY)
            ck_assert_msg(isinf(got) && !signbit(got) == !(bits >> 15),
                          "0x%04x is an infinity and became %a", bits, (double)got);
        else
            check_same(bits, meaning(bits, 5, 10), got);
    }
}
END_TEST

START_TEST(bf16_widens_exactly)
{
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++) {
        const uint32_t magnitude = bits & 0x7fff;
        const float got = convert_bf16_to_f32((uint16_t)bits);
        if (magnitude > BF16_INFINITY)
            ck_assert_msg(isnan(got), "0x%04x is NaN and became %a", bits, (double)got);
        else if (magnitude == BF16_INFINITY)
            ck_assert_msg(isinf(got) && !signbit(got) == !(bits >> 15),
                          "0x%04x is an infinity and became %a", bits, (double)got);
        else
            check_same(bits, meaning(bits, 8, 7), got);
    }
}
END_TEST

/* OCP 8-bit floating point: no infinity, one NaN of each sign, the rest are numbers up to 448. */
START_TEST(f8_e4m3_widens_exactly)
{
    for (uint32_t bits = 0; bits < 256; bits++) {
        const float got = convert_f8_e4m3_to_f32((uint8_t)bits);
        if ((bits & 0x7f) == 0x7f)
            ck_assert_msg(isnan(got), "0x%02x is NaN and became %a", bits, (double)got);
        else
            check_same(bits, meaning(bits, 4, 3), got);
    }
    ck_assert_float_eq(convert_f8_e4m3_to_f32(0x7e), 448);
}
END_TEST

struct narrow_type {
    uint16_t (*narrow)(float value);
    float (*widen)(uint16_t bits);
    uint16_t infinity;
    float beyond; /* the number that would follow the largest */
};

static const struct narrow_type narrow_types[] = {
    {convert_f32_to_f16, convert_f16_to_f32, F16_INFINITY, 0x1p16f},
    {convert_f32_to_bf16, convert_bf16_to_f32, BF16_INFINITY, 0},
};

static void check_narrow(const struct narrow_type *type, float value, uint32_t expected)
{
    const uint16_t got = type->narrow(value), negative = type->narrow(-value);
    ck_assert_msg(got == expected, "%a became 0x%04x and should be 0x%04x", (double)value, got,
                  expected);
    ck_assert_msg(negative == (expected | 0x8000), "%a became 0x%04x and should be 0x%04x",
                  (double)-value, negative, expected | 0x8000);
}

START_TEST(numbers_come_back)
{
    const struct narrow_type *type = &narrow_types[_i];
    for (uint32_t bits = 0; bits <= type->infinity; bits++)
        check_narrow(type, type->widen((uint16_t)bits), bits);
}
END_TEST

/* Between two neighbours the middle goes to the even one, and what is on either side to the nearer.
 * That decides every f32. */
START_TEST(narrowing_rounds_to_nearest_even)
{
    const struct narrow_type *type = &narrow_types[_i];
    for (uint32_t low = 0; low < type->infinity; low++) {
        const double below = (double)type->widen((uint16_t)low);
        double above = (double)type->widen((uint16_t)(low + 1));
        if (low + 1 == type->infinity) /* the largest: as if the next were a number */
            above = type->beyond != 0 ? (double)type->beyond : 0x1p128;
        const float middle = (float)((below + above) / 2);
        ck_assert_msg((double)middle == (below + above) / 2, "the middle is a number of f32");
        check_narrow(type, middle, low + (low & 1));
        check_narrow(type, nextafterf(middle, 0), low);
        check_narrow(type, nextafterf(middle, INFINITY), low + 1);
    }
}
END_TEST

START_TEST(narrowing_keeps_nan_and_infinity)
{
    const struct narrow_type *type = &narrow_types[_i];
    check_narrow(type, INFINITY, type->infinity);
    check_narrow(type, 0x1.fffffep127f, type->infinity);
    for (uint32_t payload = 1; payload < 1u << 23; payload = payload * 2 + 1) {
        const uint16_t bits = type->narrow(convert_bits_to_f32(0x7f800000u | payload));
        ck_assert_msg((bits & 0x7fff) > type->infinity, "a NaN became 0x%04x", bits);
        const uint16_t low = type->narrow(convert_bits_to_f32(0x7f800000u | (payload & 0xfffu)));
        ck_assert_msg((low & 0x7fff) > type->infinity, "a NaN became 0x%04x", low);
    }
}
END_TEST

/* Rows go through the processor's instructions where it has them; no bit may differ. */
START_TEST(rows_of_f16_are_as_elements)
{
    static uint16_t patterns[F16_PATTERNS], back[F16_PATTERNS];
    static float wide[F16_PATTERNS];
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++)
        patterns[bits] = (uint16_t)bits;
    convert_widen(GEMMD_F16, patterns, wide, F16_PATTERNS);
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++)
        ck_assert_uint_eq(convert_f32_to_bits(wide[bits]),
                          convert_f32_to_bits(convert_f16_to_f32((uint16_t)bits)));
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++) {
        /* Spread over all of f32, subnormals, infinities and NaN among them. */
        wide[bits] = convert_bits_to_f32(bits << 16 | (bits * 40503u & 0xffffu));
    }
    convert_narrow(GEMMD_F16, wide, back, F16_PATTERNS);
    for (uint32_t bits = 0; bits < F16_PATTERNS; bits++)
        ck_assert_msg(back[bits] == convert_f32_to_f16(wide[bits]),
                      "%a became 0x%04x in a row and 0x%04x alone", (double)wide[bits], back[bits],
                      convert_f32_to_f16(wide[bits]));
}
END_TEST

START_TEST(rows_of_any_length)
{
    const enum gemmd_dtype dtype = (enum gemmd_dtype)_i;
    enum { LONGEST = 40, POISON = 0x5a };
    unsigned char from[LONGEST * 8 + 8], to[LONGEST * 8 + 8];
    for (uint32_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 37 + 11);
    for (uint64_t count = 0; count <= LONGEST; count++) {
        const uint64_t bytes = count * dtype_size(dtype_accumulator(dtype));
        memset(to, POISON, sizeof to);
        convert_widen(dtype, from, to, count);
        for (uint64_t i = bytes; i < sizeof to; i++)
            ck_assert_msg(to[i] == POISON, "%s: %lu elements wrote byte %lu", dtype_name(dtype),
                          (unsigned long)count, (unsigned long)i);
        double wide[LONGEST + 1];
        wide[count] = 77;
        convert_to_f64(dtype, from, wide, count);
        ck_assert_double_eq(wide[count], 77);
        for (uint64_t i = 0; i < count; i++) {
            double alone;
            convert_to_f64(dtype, from + i * dtype_size(dtype), &alone, 1);
            ck_assert_msg(alone == wide[i] || (isnan(alone) && isnan(wide[i])),
                          "%s: element %lu of %lu differs from the same alone", dtype_name(dtype),
                          (unsigned long)i, (unsigned long)count);
        }
    }
}
END_TEST

START_TEST(rows_narrow_any_length)
{
    static const enum gemmd_dtype outs[] = {GEMMD_F64, GEMMD_F32, GEMMD_F16, GEMMD_BF16, GEMMD_I32};
    const enum gemmd_dtype out = outs[_i];
    enum { LONGEST = 40, POISON = 0x5a };
    double from[LONGEST]; /* as bytes: any bits will do */
    unsigned char to[LONGEST * 8 + 8];
    for (uint32_t i = 0; i < LONGEST; i++)
        from[i] = i * 1.37 - 20;
    for (uint64_t count = 0; count <= LONGEST; count++) {
        memset(to, POISON, sizeof to);
        convert_narrow(out, from, to, count);
        for (uint64_t i = count * dtype_size(out); i < sizeof to; i++)
            ck_assert_msg(to[i] == POISON, "%s: %lu elements wrote byte %lu", dtype_name(out),
                          (unsigned long)count, (unsigned long)i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("convert");
    TCase *tests = tcase_create("convert");
    tcase_add_test(tests, f16_widens_exactly);
    tcase_add_test(tests, bf16_widens_exactly);
    tcase_add_test(tests, f8_e4m3_widens_exactly);
    tcase_add_loop_test(tests, numbers_come_back, 0, 2);
    tcase_add_loop_test(tests, narrowing_rounds_to_nearest_even, 0, 2);
    tcase_add_loop_test(tests, narrowing_keeps_nan_and_infinity, 0, 2);
    tcase_add_test(tests, rows_of_f16_are_as_elements);
    tcase_add_loop_test(tests, rows_of_any_length, 0, GEMMD_DTYPE_COUNT);
    tcase_add_loop_test(tests, rows_narrow_any_length, 0, 5);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
