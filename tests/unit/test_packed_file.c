/* Files of packed weights of each format are found, checked, arranged and restored. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "packed_weights.h"

/* The place of an element as the head of proto/packed.h describes it. */
static uint32_t element_of(const struct packed_layout *layout, const unsigned char *b, uint64_t p,
                           uint64_t j)
{
    const uint64_t steps = layout->bits == 4 ? 64 : 32, blocks = (layout->k + steps - 1) / steps;
    const unsigned char *block = b + (j / 16 * blocks + p / steps) * 512;
    const uint64_t tile = p % steps / 16, g = j % 8, right = j % 16 / 8;
    const uint64_t t = p % 8 / 2, odd = p % 2, upper = p % 16 / 8;
    const unsigned char *place = block + (8 * t + g) * 16;
    if (layout->bits == 8)
        return place[8 * tile + 4 * upper + right + 2 * odd];
    const uint64_t nibble = right + 2 * upper + 4 * odd;
    return place[4 * tile + nibble / 2] >> 4 * (nibble % 2) & 15;
}

START_TEST(a_file_is_arranged_and_restored)
{
    struct weights w = weights_cases[_i];
    weights_create(&w, (uint64_t)_i);
    const struct packed_file file = weights_found(&w);
    ck_assert_uint_eq(file.layout.k, w.k);
    ck_assert_uint_eq(file.layout.n, w.n);
    ck_assert_uint_eq(file.layout.group, w.group);
    unsigned char *b = weights_arranged(&file);
    for (uint64_t p = 0; p < w.k; p++)
        for (uint64_t j = 0; j < w.n; j++)
            ck_assert_msg(element_of(&file.layout, b, p, j) == w.q[p * w.n + j], "element %lu, %lu",
                          (unsigned long)p, (unsigned long)j);
    unsigned char *data = malloc(packed_data_bytes(&file)), *at = data;
    ck_assert_ptr_nonnull(data);
    memset(data, 0xff, packed_data_bytes(&file));
    for (uint64_t i = 0; i < packed_stripes(&file); i++)
        packed_restore_stripe(&file, i, b, data);
    packed_restore_others(&file, b, data);
    for (uint32_t i = 0; i < file.count; i++) {
        const struct tensor *tensor = &file.entries[i].tensor;
        ck_assert_msg(memcmp(at, tensor->data, tensor->bytes) == 0, "%s", file.entries[i].name);
        at += tensor->bytes;
    }
    free(data);
    free(b);
    weights_destroy(&w);
}
END_TEST

/* A stripe needs only the bytes of the file that packed_stripes_bytes says. */
START_TEST(stripes_can_be_arranged_as_they_arrive)
{
    struct weights w = weights_cases[_i];
    weights_create(&w, (uint64_t)_i);
    const struct packed_file file = weights_found(&w);
    unsigned char *whole = weights_arranged(&file);
    unsigned char *b = calloc(1, file.layout.bytes);
    const struct tensor *weights = &file.entries[PACKED_WEIGHTS].tensor;
    unsigned char *bytes = malloc(weights->bytes);
    ck_assert(b != NULL && bytes != NULL);
    memcpy(bytes, weights->data, weights->bytes);
    unsigned char *in_file = (unsigned char *)weights->data;
    memset(in_file, 0, weights->bytes);
    uint64_t arrived = 0;
    for (uint64_t i = 0; i < packed_stripes(&file); i++) {
        const uint64_t needed = packed_stripes_bytes(&file, i + 1);
        memcpy(in_file + arrived, bytes + arrived, needed - arrived);
        arrived = needed;
        packed_arrange_stripe(&file, i, b);
    }
    ck_assert_uint_eq(arrived, weights->bytes);
    ck_assert_int_eq(memcmp(b, whole, file.layout.scale_offset), 0);
    free(bytes);
    free(b);
    free(whole);
    weights_destroy(&w);
}
END_TEST

static struct fault refused(const struct weights *w, uint32_t bits, enum gemmd_error wanted)
{
    struct packed_file file;
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code =
        packed_find(w->format, bits, w->file, w->file_bytes, w->file_bytes, &file, &fault);
    if (code == GEMMD_OK)
        code = packed_check(&file, &fault);
    ck_assert_msg(code == wanted, "%s: %s", error_name(code), fault.detail);
    return fault;
}

/* The bytes of a tensor in the file. */
static unsigned char *data_of(const struct weights *w, enum packed_role role)
{
    const struct packed_file file = weights_found(w);
    return (unsigned char *)packed_entry(&file, role)->tensor.data;
}

/* Replaces a text of the file's header by another one of the same length. */
static void replace(const struct weights *w, const char *text, const char *by)
{
    char *at = memmem(w->file, 1024, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    memcpy(at, by, strlen(by));
}

START_TEST(bad_files_are_refused)
{
    static const uint16_t bad_scales[] = {0x7c00, 0x7e01, 0x8001, 0xbc00};
    struct weights w = weights_cases[5];
    weights_create(&w, 1);
    unsigned char *scales = data_of(&w, PACKED_SCALES), *zeros = data_of(&w, PACKED_ZEROS);
    unsigned char *order = data_of(&w, PACKED_ORDER), kept[4];
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(kept, scales + 6, 2);
        memcpy(scales + 6, &bad_scales[i], 2);
        ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                         "element 3 of scales is negative, infinite or NaN; scales must be finite "
                         "and not negative");
        memcpy(scales + 6, kept, 2);
    }
    memcpy(scales + 6, &(uint16_t){0x8000}, 2); /* the negative zero */
    weights_found(&w);
    kept[0] = zeros[2];
    zeros[2] |= 0xf0;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "integer 5 of qzeros is 15, which with format=gptq is the zero point 16; the "
                     "largest is 15");
    zeros[2] = kept[0];
    order[4 * 3] = 1;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "element 3 of g_idx is 1; groups must follow each other, which makes it 0");
    order[4 * 3] = 0;
    ck_assert_str_eq(refused(&w, 8, GEMMD_ERR_MALFORMED).detail,
                     "qzeros has the shape 2,33; beside the other tensors it must be 2,66");
    replace(&w, "qzeros", "kzeros");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "the tensor 'qzeros' is missing; the tensors of gptq are qweight, scales, "
                     "qzeros, g_idx");
    replace(&w, "kzeros", "qzeros");
    replace(&w, "g_idx", "c_idx");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "'c_idx' is no tensor of gptq, whose tensors are qweight, scales, qzeros, "
                     "g_idx");
    replace(&w, "c_idx", "g_idx");
    replace(&w, "[32,264]", "[264,32]");
    refused(&w, 4, GEMMD_ERR_MALFORMED);
    weights_destroy(&w);
}
END_TEST

START_TEST(bad_shapes_are_refused)
{
    struct weights w = weights_cases[0];
    weights_create(&w, 1);
    unsigned char *shape = data_of(&w, PACKED_SHAPE);
    shape[0]++;
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_shape is 49,256; with bits=4 the other tensors hold 48,256");
    shape[0]--;
    replace(&w, "BF16", "I16 ");
    refused(&w, 4, GEMMD_ERR_UNSUPPORTED); /* no type of safetensors.h */
    replace(&w, "I16 ", "BF16");
    replace(&w, "[48,2]", "[2,48]");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_scale has the shape 2,48; it must have the n=48 columns and as many "
                     "groups as divide k=256");
    weights_destroy(&w);
    w = weights_cases[0];
    w.group = 16;
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_scale has 16 groups of 16 steps of k; groups must have 32, 64, 128 or "
                     "all steps");
    weights_destroy(&w);
    w = weights_cases[0];
    w.k = w.group = 48;
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_packed holds a matrix with k=48 and n=48; k must be a multiple of 32 "
                     "and n of 8");
    weights_destroy(&w);
}
END_TEST

/* Every byte that a scale can have comes back, and the others are refused. */
START_TEST(bytes_of_scales)
{
    static const enum packed_format formats[] = {PACKED_MXFP4, PACKED_NVFP4};
    struct weights w = {formats[_i], 4, 512, 264, _i == 0 ? 32 : 16, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    unsigned char *scales = data_of(&w, PACKED_SCALES);
    uint32_t taken = 0;
    for (uint32_t bits = 0; bits < 256; bits++) {
        const uint8_t kept = scales[7];
        scales[7] = (uint8_t)bits;
        const bool is_good = _i == 0 ? bits != 0xff : bits < 0x7f || bits == 0x80;
        if (!is_good)
            ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).field, "weight_scale");
        scales[7] = kept;
        scales[8 + taken] = (uint8_t)bits;
        taken += is_good;
    }
    scales[8 + taken] = 1;
    ck_assert_uint_eq(taken, _i == 0 ? 255 : 128);
    const struct packed_file file = weights_found(&w);
    unsigned char *b = weights_arranged(&file), *data = malloc(packed_data_bytes(&file));
    ck_assert_ptr_nonnull(data);
    packed_restore_others(&file, b, data);
    const struct tensor *weights = &file.entries[PACKED_WEIGHTS].tensor;
    ck_assert_mem_eq(data + weights->bytes, scales, file.entries[PACKED_SCALES].tensor.bytes);
    free(data);
    free(b);
    weights_destroy(&w);
}
END_TEST

START_TEST(bad_factors_are_refused)
{
    static const float bad[] = {0, -1, INFINITY, NAN};
    struct weights w = {PACKED_NVFP4, 4, 64, 8, 16, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    unsigned char *factor = data_of(&w, PACKED_FACTOR);
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(factor, &bad[i], sizeof bad[i]);
        ck_assert_ptr_nonnull(
            strstr(refused(&w, 4, GEMMD_ERR_MALFORMED).detail, "must be positive and finite"));
    }
    memcpy(factor, &(float){1}, sizeof(float));
    replace(&w, "\"U8\"", "\"I8\"");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "weight_packed is a tensor of I8 with 2 dimensions; it must be of U8 with 2 "
                     "dimensions");
    replace(&w, "\"I8\"", "\"U8\"");
    replace(&w, "[8,4]", "[4,8]");
    refused(&w, 4, GEMMD_ERR_MALFORMED);
    replace(&w, "[4,8]", "[8,4]");
    replace(&w, "weight_global_scale", "weight_global_scalf");
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_MALFORMED).detail,
                     "the tensor 'weight_global_scale' is missing; the tensors of nvfp4 are "
                     "weight_packed, weight_scale, weight_global_scale");
    weights_destroy(&w);
    w = (struct weights){PACKED_MXFP4, 4, 64, 8, 64, 0, 0, 0, 0, 0, 0, 0};
    weights_create(&w, 1);
    ck_assert_str_eq(refused(&w, 4, GEMMD_ERR_UNSUPPORTED).detail,
                     "weight_scale has 1 groups of 64 steps of k; groups must have 32 steps");
    weights_destroy(&w);
}
END_TEST

START_TEST(formats_have_widths)
{
    ck_assert(packed_has_bits(PACKED_GPTQ, 0) && packed_has_bits(PACKED_GPTQ, 8));
    ck_assert(packed_has_bits(PACKED_AWQ, 4) && !packed_has_bits(PACKED_AWQ, 8));
    ck_assert(packed_has_bits(PACKED_INT_QUANTIZED, 8) && !packed_has_bits(PACKED_MXFP4, 8));
    ck_assert(!packed_has_bits(PACKED_FLOAT_QUANTIZED, 4));
}
END_TEST

START_TEST(a_header_may_arrive_in_parts)
{
    struct weights w = weights_cases[0];
    weights_create(&w, 1);
    const uint64_t front = (uint64_t)(data_of(&w, PACKED_SHAPE) - w.file);
    struct packed_file file;
    struct fault fault;
    for (uint64_t length = 0; length < front; length += 7)
        ck_assert_int_eq(packed_find(w.format, 4, w.file, length, w.file_bytes, &file, &fault),
                         GEMMD_ERR_CONFLICT);
    ck_assert_int_eq(packed_find(w.format, 4, w.file, front, w.file_bytes, &file, &fault),
                     GEMMD_OK);
    weights_destroy(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packed_file");
    TCase *files = tcase_create("files"), *bad = tcase_create("bad files");
    tcase_add_loop_test(files, a_file_is_arranged_and_restored, 0, WEIGHTS_CASES);
    tcase_add_loop_test(files, stripes_can_be_arranged_as_they_arrive, 0, WEIGHTS_CASES);
    tcase_add_loop_test(files, bytes_of_scales, 0, 2);
    tcase_add_test(files, formats_have_widths);
    tcase_add_test(files, a_header_may_arrive_in_parts);
    suite_add_tcase(suite, files);
    tcase_add_test(bad, bad_files_are_refused);
    tcase_add_test(bad, bad_shapes_are_refused);
    tcase_add_test(bad, bad_factors_are_refused);
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
