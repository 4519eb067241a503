/* server/tensors/tensor_hash.c: entity tags, which clients can compute too. The expected tags are
 * from Python's hashlib. */
#include <check.h>
#include <stdlib.h>

#include "server/tensors/tensor_hash.h"

static struct tensor tensor_of(enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank)
{
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, dtype, dims, rank, NULL));
    return tensor;
}

/* hashlib.sha256(b"f32:2,3\n" + struct.pack("<6f", 1, 2, 3, 4, 5, 6)).hexdigest() */
START_TEST(a_matrix)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    const uint64_t dims[] = {2, 3};
    const struct tensor tensor = tensor_of(GEMMD_F32, dims, 2);
    struct tensor_hash hash;
    char etag[TENSOR_ETAG_SIZE];
    tensor_hash_start(&hash, &tensor);
    tensor_hash_add(&hash, values, sizeof values);
    tensor_hash_end(&hash, etag);
    ck_assert_str_eq(etag, "\"3a60c3fc35062fe1d0a2b031e85dace3b5d1632b3729688c0b15c5c0920affe8\"");
}
END_TEST

/* b"i8:1\n" + b"\x80" */
START_TEST(a_vector_of_one)
{
    const uint64_t one = 1;
    const struct tensor tensor = tensor_of(GEMMD_I8, &one, 1);
    struct tensor_hash hash;
    char etag[TENSOR_ETAG_SIZE];
    tensor_hash_start(&hash, &tensor);
    tensor_hash_add(&hash, "\x80", 1);
    tensor_hash_end(&hash, etag);
    ck_assert_str_eq(etag, "\"ffd9a012019fd87fce60f6303c9ad720b7a9fd1d0280ad71300706d1bb139c77\"");
}
END_TEST

/* b"bf16:1,2,3,4\n" + bytes(range(48)), in pieces of every length. */
START_TEST(pieces_make_the_same)
{
    unsigned char bytes[48];
    const uint64_t dims[] = {1, 2, 3, 4};
    const struct tensor tensor = tensor_of(GEMMD_BF16, dims, 4);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    struct tensor_hash hash;
    char etag[TENSOR_ETAG_SIZE];
    tensor_hash_start(&hash, &tensor);
    for (uint64_t at = 0; at < sizeof bytes; at += (uint64_t)_i)
        tensor_hash_add(&hash, bytes + at,
                        sizeof bytes - at < (uint64_t)_i ? sizeof bytes - at : (uint64_t)_i);
    tensor_hash_end(&hash, etag);
    ck_assert_str_eq(etag, "\"d9415bae392adb5a04139b4b420a8a88e57f26ed07b746be32b6c7483bcccb76\"");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tensor_hash");
    tcase_add_test(tests, a_matrix);
    tcase_add_test(tests, a_vector_of_one);
    tcase_add_loop_test(tests, pieces_make_the_same, 1, 50);
    Suite *suite = suite_create("tensor_hash");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
