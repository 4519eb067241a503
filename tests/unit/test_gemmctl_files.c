/* gemmctl's files: operands from files and pipes, a result that is there as a whole or not. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/gemmctl/operands.h"
#include "client/gemmctl/output.h"
#include "proto/npy.h"
#include "proto/safetensors.h"

enum { M = 2, N = 3, K = 4 };

static char folder[64];

static void enter_folder(void)
{
    snprintf(folder, sizeof folder, "gemmctl-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *here = opendir(".");
    ck_assert_ptr_nonnull(here);
    while (readdir(here) != NULL)
        count++;
    closedir(here);
    return count - 2; /* "." and ".." */
}

static void leave_folder(void)
{
    DIR *here = opendir(".");
    ck_assert_ptr_nonnull(here);
    for (struct dirent *entry; (entry = readdir(here)) != NULL;)
        unlink(entry->d_name);
    closedir(here);
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void append(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "a");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

/* Appends an array of ascending numbers from `first` on. */
static void append_npy(const char *path, uint64_t rows, uint64_t columns, bool fortran, float first)
{
    const uint64_t dims[] = {rows, columns};
    float data[M * K * N];
    char header[NPY_HEADER_MAX];
    struct tensor tensor;
    for (uint64_t i = 0; i < rows * columns; i++)
        data[i] = first + (float)i;
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, 2, data));
    tensor.fortran = fortran;
    uint32_t header_bytes = npy_header(&tensor, header);
    append(path, header, header_bytes);
    append(path, data, tensor.bytes);
}

/* Reads what `paths` name, with standard input from the file "stdin" if there is one. */
static enum gemmd_error open_paths(struct operands *operands, const struct operand_paths *paths,
                                   struct gemm_request *request, struct fault *fault)
{
    int input = open("stdin", O_RDONLY | O_CLOEXEC);
    if (input >= 0) {
        ck_assert_int_eq(dup2(input, STDIN_FILENO), STDIN_FILENO);
        close(input);
    }
    *fault = (struct fault){0};
    return operands_open(operands, paths, request, fault);
}

static void check_front(const struct tensor *tensor, float first)
{
    float value;
    memcpy(&value, tensor->data, sizeof value);
    ck_assert_float_eq(value, first);
}

START_TEST(takes_arrays_from_standard_input_in_order)
{
    const struct operand_paths paths = {.a = "-", .b = "B.npy", .bias = "-", .c0 = "-"};
    struct gemm_request request;
    struct operands operands;
    struct fault fault;
    append_npy("stdin", M, K, false, 100);
    append_npy("B.npy", K, N, false, 200);
    append_npy("stdin", 1, N, false, 300);
    append_npy("stdin", M, N, false, 400);
    gemm_request_init(&request);
    gemm_request_set(&request, "beta", "1", NULL);
    ck_assert_msg(open_paths(&operands, &paths, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    check_front(&operands.bound.a, 100);
    check_front(&operands.bound.b, 200);
    check_front(&operands.bound.bias, 300);
    check_front(&operands.bound.c0, 400);
    ck_assert_uint_eq(request.m, M);
    ck_assert_uint_eq(request.n, N);
    ck_assert_uint_eq(request.k, K);
    ck_assert(request.bias);
    operands_close(&operands);
}
END_TEST

/* A column-major matrix is its transpose; a column-major C0 has to be turned. */
START_TEST(takes_column_major_arrays)
{
    const struct operand_paths paths = {.a = "A.npy", .b = "B.npy", .c0 = "C.npy"};
    static const float turned[M * N] = {0, 2, 4, 1, 3, 5};
    struct gemm_request request;
    struct operands operands;
    struct fault fault;
    append_npy("A.npy", M, K, true, 0);
    append_npy("B.npy", K, N, false, 0);
    append_npy("C.npy", M, N, true, 0);
    gemm_request_init(&request);
    gemm_request_set(&request, "beta", "1", NULL);
    ck_assert_msg(open_paths(&operands, &paths, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    ck_assert(operands.bound.transa);
    ck_assert(!operands.bound.transb);
    ck_assert_uint_eq(request.m, M);
    ck_assert_mem_eq(operands.bound.c0.data, turned, sizeof turned);
    operands_close(&operands);
}
END_TEST

START_TEST(takes_raw_bytes_as_the_parameters_say)
{
    const enum format raw = FORMAT_RAW;
    const struct operand_paths paths = {.a = "-", .b = "-", .format = &raw};
    static const char *const sides[][2] = {{"m", "2"}, {"n", "3"}, {"k", "4"}, {"batch", "2"}};
    static const float data[2 * (M * K + K * N)] = {[0] = 7, [2 * M * K] = 8};
    struct gemm_request request;
    struct operands operands;
    struct fault fault;
    append("stdin", data, sizeof data);
    gemm_request_init(&request);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(gemm_request_set(&request, sides[i][0], sides[i][1], NULL), GEMMD_OK);
    ck_assert_msg(open_paths(&operands, &paths, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    check_front(&operands.bound.a, 7);
    check_front(&operands.bound.b, 8);
    ck_assert_uint_eq(operands.bound.a.rank, 3);
    operands_close(&operands);
}
END_TEST

START_TEST(finds_tensors_by_name_or_as_the_only_one)
{
    const struct operand_paths paths = {.a = "A.safetensors", .b = "both.safetensors"};
    static const float data[M * K + K * N] = {[0] = 7, [M * K] = 8};
    const uint64_t a_dims[] = {M, K}, b_dims[] = {K, N};
    struct safetensors_entry entries[2] = {{.name = "weights"}, {.name = "b"}};
    char header[SAFETENSORS_HEADER_MAX];
    struct gemm_request request;
    struct operands operands;
    struct fault fault;
    ck_assert(tensor_init(&entries[0].tensor, GEMMD_F32, a_dims, 2, data));
    ck_assert(tensor_init(&entries[1].tensor, GEMMD_F32, b_dims, 2, data + M * K));
    uint32_t header_bytes = safetensors_header(entries, 1, header);
    append("A.safetensors", header, header_bytes);
    append("A.safetensors", data, entries[0].tensor.bytes);
    header_bytes = safetensors_header(entries, 2, header);
    append("both.safetensors", header, header_bytes);
    append("both.safetensors", data, sizeof data);
    gemm_request_init(&request);
    ck_assert_msg(open_paths(&operands, &paths, &request, &fault) == GEMMD_OK, "%s", fault.detail);
    check_front(&operands.bound.a, 7);
    check_front(&operands.bound.b, 8);
    operands_close(&operands);
}
END_TEST

/* Each of these refuses A.npy (M x K), B.npy (K x N) and these files, and says why. */
static const struct {
    const char *a, *b, *bias, *c0, *says;
} wrong_inputs[] = {
    {"A.npy", "none.npy", NULL, NULL, "none.npy cannot be read"},
    {"A.npy", ".", NULL, NULL, ". cannot be read"},
    {"A.npy", "A.npy", NULL, NULL, "k is 2"},
    {"A.npy", "empty.npy", NULL, NULL, "ends before B"},
    {"A.npy", "two.npy", NULL, NULL, "bytes more than its operand takes"},
    {"A.npy", NULL, NULL, NULL, "B is missing"},
    {"A.npy", "B.npy", "B.npy", NULL, "bias must be one vector"},
    {"A.npy", "B.npy", NULL, "A.npy", "left out with beta=0"},
    {"A.npy", "two.bin", NULL, NULL, "give --m, --n and --k"},
    {"two.safetensors", "B.npy", NULL, NULL, "two.safetensors"},
};

START_TEST(refuses_what_does_not_fit)
{
    const struct operand_paths paths = {.a = wrong_inputs[_i].a,
                                        .b = wrong_inputs[_i].b,
                                        .bias = wrong_inputs[_i].bias,
                                        .c0 = wrong_inputs[_i].c0};
    struct gemm_request request;
    struct operands operands;
    struct fault fault;
    append_npy("A.npy", M, K, false, 0);
    append_npy("B.npy", K, N, false, 0);
    append("empty.npy", "", 0);
    append_npy("two.npy", K, N, false, 0);
    append_npy("two.npy", K, N, false, 0);
    append("two.bin", "12345678", 8);
    append("two.safetensors", "12345678", 8);
    gemm_request_init(&request);
    ck_assert_int_ne(open_paths(&operands, &paths, &request, &fault), GEMMD_OK);
    ck_assert_msg(strstr(fault.detail, wrong_inputs[_i].says) != NULL, "%s", fault.detail);
    operands_close(&operands);
}
END_TEST

static struct tensor result_shape(void)
{
    static const uint64_t dims[] = {M, N};
    struct tensor tensor;
    ck_assert(tensor_init(&tensor, GEMMD_F32, dims, 2, NULL));
    return tensor;
}

START_TEST(makes_a_file_that_can_be_read_again)
{
    static const char *const paths[] = {"C.npy", "C.safetensors", "C.bin"};
    static const float data[M * N] = {1, 2, 3, 4, 5, 6};
    const struct tensor shape = result_shape();
    enum format format = FORMAT_RAW;
    struct output output;
    struct input input;
    struct fault fault = {0};
    ck_assert(format_of_path(paths[_i], &format));
    mode_t mask = umask(027);
    enum gemmd_error code = output_open(&output, paths[_i], format, "c", &shape, &fault);
    umask(mask);
    ck_assert_msg(code == GEMMD_OK, "%s", fault.detail);
    ck_assert_int_ne(access(paths[_i], F_OK), 0);
    memcpy(output_data(&output), data, sizeof data);
    ck_assert_int_eq(output_commit(&output, &fault), GEMMD_OK);
    output_close(&output);
    ck_assert_uint_eq(count_files(), 1);
    struct stat about;
    ck_assert_int_eq(stat(paths[_i], &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0640);

    ck_assert_int_eq(input_open(&input, paths[_i], &fault), GEMMD_OK);
    ck_assert_uint_ge(input.bytes, sizeof data);
    ck_assert_mem_eq(input.data + input.bytes - sizeof data, data, sizeof data);
    struct tensor tensor;
    struct safetensors_entry entry;
    uint64_t consumed;
    uint32_t count;
    if (format == FORMAT_NPY)
        ck_assert_int_eq(
            npy_decode(input.data, input.bytes, GEMMD_DTYPE_COUNT, &tensor, &consumed, &fault),
            GEMMD_OK);
    if (format == FORMAT_SAFETENSORS)
        ck_assert_int_eq(safetensors_decode(input.data, input.bytes, &entry, 1, &count, &fault),
                         GEMMD_OK);
    input_close(&input);
}
END_TEST

START_TEST(leaves_nothing_without_a_commit)
{
    const struct tensor shape = result_shape();
    struct output output;
    struct fault fault;
    append("C.npy", "old", 3);
    ck_assert_int_eq(output_open(&output, "C.npy", FORMAT_NPY, "c", &shape, &fault), GEMMD_OK);
    ck_assert_uint_eq(count_files(), 2);
    output_close(&output);
    ck_assert_uint_eq(count_files(), 1);
    struct input input;
    ck_assert_int_eq(input_open(&input, "C.npy", &fault), GEMMD_OK);
    ck_assert_mem_eq(input.data, "old", 3);
    input_close(&input);
}
END_TEST

START_TEST(writes_to_what_is_no_file)
{
    const struct tensor shape = result_shape();
    unsigned char got[NPY_HEADER_MAX + 64];
    struct output output;
    struct fault fault = {0};
    ck_assert_int_eq(mkfifo("pipe.npy", 0600), 0);
    int reader = open("pipe.npy", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(output_open(&output, "pipe.npy", FORMAT_NPY, "c", &shape, &fault), GEMMD_OK);
    memset(output_data(&output), 7, shape.bytes);
    ck_assert_int_eq(output_commit(&output, &fault), GEMMD_OK);
    ssize_t bytes = read(reader, got, sizeof got);
    ck_assert_int_eq(bytes, (ssize_t)output.bytes);
    ck_assert_int_eq(got[bytes - 1], 7);
    output_close(&output);
    close(reader);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(says_when_it_cannot_write)
{
    static const char *const paths[] = {"no/such/folder/C.npy", "."};
    const struct tensor shape = result_shape();
    struct output output;
    struct fault fault;
    ck_assert_int_eq(output_open(&output, paths[_i], FORMAT_NPY, "c", &shape, &fault),
                     GEMMD_ERR_IO);
    ck_assert_msg(strstr(fault.detail, paths[_i]) != NULL, "%s", fault.detail);
    output_close(&output);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(refuses_a_size_that_no_file_has)
{
    struct tensor shape = result_shape();
    struct output output;
    struct fault fault;
    shape.bytes = UINT64_MAX - 10;
    ck_assert_int_eq(output_open(&output, "C.npy", FORMAT_NPY, "c", &shape, &fault), GEMMD_ERR_IO);
    output_close(&output);
    shape.bytes = (uint64_t)INT64_MAX - 4096;
    ck_assert_int_eq(output_open(&output, "C.npy", FORMAT_NPY, "c", &shape, &fault), GEMMD_ERR_IO);
    output_close(&output);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemmctl_files");
    TCase *tcase = tcase_create("gemmctl_files");
    tcase_add_checked_fixture(tcase, enter_folder, leave_folder);
    tcase_add_test(tcase, takes_arrays_from_standard_input_in_order);
    tcase_add_test(tcase, takes_column_major_arrays);
    tcase_add_test(tcase, takes_raw_bytes_as_the_parameters_say);
    tcase_add_test(tcase, finds_tensors_by_name_or_as_the_only_one);
    tcase_add_loop_test(tcase, refuses_what_does_not_fit, 0,
                        sizeof wrong_inputs / sizeof wrong_inputs[0]);
    tcase_add_loop_test(tcase, makes_a_file_that_can_be_read_again, 0, 3);
    tcase_add_test(tcase, leaves_nothing_without_a_commit);
    tcase_add_test(tcase, writes_to_what_is_no_file);
    tcase_add_loop_test(tcase, says_when_it_cannot_write, 0, 2);
    tcase_add_test(tcase, refuses_a_size_that_no_file_has);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
