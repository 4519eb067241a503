/* Which kernel computes what, and what is said of those that cannot. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/microkernel.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/product/cases.h"

static struct gemm_problem problem_of(enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    struct gemm_problem problem = {
        .dtype = dtype, .out = out, .m = 5, .n = 6, .k = 7, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&problem);
    return problem;
}

static const char *selected(const char *name, const struct gemm_problem *problem)
{
    const struct operation_kernel *kernel = NULL;
    struct fault fault;
    ck_assert_msg(operation_select(&operation_gemm,
                                   &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, name,
                                   problem, &kernel, &fault) == GEMMD_OK,
                  "%s: %s", name, fault.detail);
    return kernel->name;
}

static void refused(const char *name, const struct gemm_problem *problem, const char *says)
{
    const struct operation_kernel *kernel = NULL;
    struct fault fault;
    ck_assert_int_eq(operation_select(&operation_gemm,
                                      &(struct gemm_device){.backend = GEMM_BACKEND_CPU}, name,
                                      problem, &kernel, &fault),
                     GEMMD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(kernel);
    ck_assert_str_eq(fault.field, "kernel");
    ck_assert_msg(strstr(fault.detail, says) != NULL, "'%s' does not say '%s'", fault.detail, says);
}

/* Products of bf16 only where the processor has no instructions for them. */
START_TEST(auto_takes_the_library_where_it_can)
{
    for (uint32_t i = 0; i < case_types_count(); i++) {
        const struct gemm_problem problem = problem_of(case_types[i].dtype, case_types[i].out);
        const bool is_own =
            problem.dtype == GEMMD_I8 || microkernel_narrow(problem.dtype, 0) != NULL;
        ck_assert_str_eq(selected("auto", &problem), is_own ? "tiled" : "openblas");
    }
}
END_TEST

/* Products of middle size are not given to the threads of OpenBLAS, but to those of the device. */
START_TEST(auto_of_middle_size)
{
    struct gemm_problem problem = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 64, .n = 64, .k = 64, .batch = 9, .alpha = 1};
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(selected("auto", &problem), "openblas");
    problem.m = 256;
    ck_assert_str_eq(selected("auto", &problem), "tiled");
    problem.n = 16; /* a tile has more columns */
    ck_assert_str_eq(selected("auto", &problem), "openblas");
    problem.m = problem.n = problem.k = 512;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(selected("auto", &problem), "openblas");
    problem.m = 1;
    ck_assert_str_eq(selected("auto", &problem), "openblas");
    problem.m = 2;
    ck_assert_str_eq(selected("auto", &problem), "tiled");
    problem.dtype = problem.out = GEMMD_F64;
    problem.m = 13;
    ck_assert_str_eq(selected("auto", &problem), "openblas");
}
END_TEST

/* Few rows are multiplied by the kernel that reads B where it is, if B is stored row by row. */
START_TEST(auto_of_few_rows)
{
#ifdef __clang__ /* its `tiled` copies every B */
    static const char few[] = "openblas";
#else
    static const char few[] = "tiled";
#endif
    static const enum gemmd_dtype types[] = {GEMMD_F64, GEMMD_F32};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct gemm_problem problem = {.dtype = types[i],
                                       .out = types[i],
                                       .m = 12,
                                       .n = 4096,
                                       .k = 4096,
                                       .batch = 1,
                                       .alpha = 1};
        gemm_problem_contiguous(&problem);
        ck_assert_str_eq(selected("auto", &problem), few);
        problem.transb = true;
        gemm_problem_contiguous(&problem);
        ck_assert_str_eq(selected("auto", &problem), "openblas");
    }
}
END_TEST

START_TEST(each_name_is_its_kernel)
{
    const struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    unsigned count = 0;
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
         *k != NULL; k++) {
        ck_assert_str_eq(selected((*k)->name, &problem), (*k)->name);
        ck_assert_uint_gt(strlen((*k)->description), 0);
        count++;
    }
    ck_assert_uint_eq(count, 3);
}
END_TEST

START_TEST(choice_is_of_the_shape_alone)
{
    struct gemm_problem one = problem_of(GEMMD_BF16, GEMMD_F32), other = one;
    char memory[8];
    other.a = other.b = other.c0 = memory;
    other.c = memory;
    ck_assert_str_eq(selected("auto", &one), selected("auto", &other));
}
END_TEST

START_TEST(unknown_names_list_what_there_is)
{
    const struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    refused("fastest", &problem, "openblas, tiled, naive");
    refused("fastest", &problem, "'fastest'");
    refused("", &problem, "openblas");
}
END_TEST

START_TEST(unfit_kernels_list_those_that_fit)
{
    const struct gemm_problem problem = problem_of(GEMMD_I8, GEMMD_I32);
    refused("openblas", &problem, "these can: tiled, naive");
    refused("openblas", &problem, "i8 to i32");
}
END_TEST

START_TEST(what_is_not_offered_no_kernel_takes)
{
    struct gemm_problem problem = problem_of(GEMMD_F16, GEMMD_BF16);
    refused("auto", &problem, "none");
    problem = problem_of(GEMMD_I8, GEMMD_I32);
    problem.act = GEMM_ACT_GELU;
    refused("auto", &problem, "none");
    problem.act = GEMM_ACT_RELU;
    problem.alpha = 0.5;
    refused("auto", &problem, "none");
    problem.alpha = 3e9;
    refused("tiled", &problem, "none");
    problem.alpha = 1;
    problem.beta = 0.5;
    refused("naive", &problem, "none");
    problem = problem_of(GEMMD_F32, GEMMD_F32);
    problem.k = 0;
    refused("auto", &problem, "none");
    problem.k = (uint64_t)GEMM_DIM_MAX + 1;
    refused("auto", &problem, "none");
}
END_TEST

/* The largest dimensions that can be asked for: a size that fits 64 bits, or a clear no. */
START_TEST(workspaces_never_wrap)
{
    for (uint32_t i = 0; i < case_types_count(); i++) {
        struct gemm_problem problem = problem_of(case_types[i].dtype, case_types[i].out);
        problem.m = problem.n = problem.k = problem.batch = GEMM_DIM_MAX;
        gemm_problem_contiguous(&problem);
        for (const struct operation_kernel *const *k =
                 operation_kernels(&operation_gemm, GEMM_BACKEND_CPU);
             *k != NULL; k++) {
            uint64_t bytes = 0;
            if (!(*k)->takes(&problem) || !(*k)->workspace_bytes(&problem, &bytes))
                continue;
            const bool widens = problem.dtype != dtype_accumulator(problem.dtype);
            if (strcmp((*k)->name, "openblas") == 0 && widens)
                ck_assert_msg(bytes / problem.k / problem.n >= 4, "%s to %s: %lu bytes",
                              dtype_name(problem.dtype), dtype_name(problem.out),
                              (unsigned long)bytes);
        }
    }
}
END_TEST

START_TEST(blas_refuses_leading_dimensions_beyond_its_integers)
{
    struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    problem.lda = 1ull << 31;
    ck_assert_str_eq(selected("auto", &problem), "tiled");
    problem.lda = 7;
    problem.ldc = 1ull << 31;
    ck_assert_str_eq(selected("auto", &problem), "tiled");
}
END_TEST

START_TEST(contiguous_operands)
{
    struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    ck_assert_uint_eq(problem.lda, 7);
    ck_assert_uint_eq(problem.ldb, 6);
    problem.transa = problem.transb = true;
    gemm_problem_contiguous(&problem);
    ck_assert_uint_eq(problem.lda, 5);
    ck_assert_uint_eq(problem.ldb, 7);
    ck_assert_uint_eq(problem.ldc, 6);
    ck_assert_uint_eq(problem.ldc0, 6);
    ck_assert_uint_eq(problem.stride_a, 35);
    ck_assert_uint_eq(problem.stride_b, 42);
    ck_assert_uint_eq(problem.stride_c, 30);
    ck_assert_uint_eq(problem.stride_c0, 30);
}
END_TEST

/* A build without CUDA says so; one with it needs a device, which a test machine may lack. */
START_TEST(cuda_without_a_device_is_an_error)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] != NULL)
        return;
    struct gemm_context *context;
    struct fault fault;
    ck_assert_uint_ne(gemm_context_create(GEMM_BACKEND_CUDA, NULL, 0, &context, &fault), GEMMD_OK);
    ck_assert_ptr_null(context);
    ck_assert_ptr_nonnull(strstr(fault.detail, "without CUDA"));
    const struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    const struct operation_kernel *kernel;
    ck_assert_uint_ne(operation_select(&operation_gemm,
                                       &(struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                                             .compute_capability = 90},
                                       "auto", &problem, &kernel, &fault),
                      GEMMD_OK);
}
END_TEST

static const char *on_gpu(uint32_t compute_capability, const char *name,
                          const struct gemm_problem *problem)
{
    const struct gemm_device device = {.backend = GEMM_BACKEND_CUDA,
                                       .compute_capability = compute_capability};
    const struct operation_kernel *kernel = NULL;
    return operation_select(&operation_gemm, &device, name, problem, &kernel, NULL) == GEMMD_OK
               ? kernel->name
               : "none";
}

/* Needs no device: the choice is made before one is looked at. */
START_TEST(kernels_stay_on_their_architecture)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    struct gemm_problem problem = problem_of(GEMMD_BF16, GEMMD_BF16);
    ck_assert_str_eq(on_gpu(90, "wgmma", &problem), "wgmma");
    ck_assert_str_eq(on_gpu(80, "wgmma", &problem), "none");
    ck_assert_str_ne(on_gpu(80, "auto", &problem), "wgmma");
}
END_TEST

/* As measured: see kernels/experiments/README.md. */
START_TEST(auto_takes_what_is_fastest_on_hopper)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    struct gemm_problem problem = problem_of(GEMMD_I8, GEMMD_I32);
    problem.n = problem.k = 512;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "wgmma");
    problem.dtype = problem.out = GEMMD_F32;
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "wgmma");
    ck_assert_str_eq(on_gpu(80, "auto", &problem), "cublas");
    problem.precision = GEMM_PRECISION_TF32;
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "wgmma");
    problem.transb = true;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "wgmma");
    problem.transa = true;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "cublas");
}
END_TEST

START_TEST(tensor_core_takes_what_it_can_multiply)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    for (uint32_t i = 0; i < case_types_count(); i++) {
        struct gemm_problem problem = problem_of(case_types[i].dtype, case_types[i].out);
        const bool full =
            problem.dtype == GEMMD_F16 || problem.dtype == GEMMD_BF16 || problem.dtype == GEMMD_I8;
        problem.n = problem.k = 512; /* not small */
        gemm_problem_contiguous(&problem);
        ck_assert_str_eq(on_gpu(80, "tensor_core", &problem), full ? "tensor_core" : "none");
        ck_assert_str_ne(on_gpu(80, "auto", &problem), "tensor_core");
        problem.precision = GEMM_PRECISION_TF32;
        ck_assert_str_eq(on_gpu(80, "tensor_core", &problem),
                         full || problem.dtype == GEMMD_F32 ? "tensor_core" : "none");
        ck_assert_str_ne(on_gpu(80, "auto", &problem), "tensor_core");
    }
}
END_TEST

/* Operands of i8 and tf32 along k and aligned stay; across it they are turned. */
START_TEST(tensor_core_turns_what_lies_across_k)
{
    static const enum gemmd_dtype dtypes[] = {GEMMD_I8, GEMMD_F32, GEMMD_BF16};
    const struct gemm_device gpu = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 80};
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    for (unsigned i = 0; i < 12; i++) {
        const enum gemmd_dtype dtype = dtypes[i / 4];
        const uint64_t size = dtype_size(dtype);
        struct gemm_problem problem = problem_of(dtype, dtype == GEMMD_I8 ? GEMMD_I32 : dtype);
        const struct operation_kernel *kernel = NULL;
        uint64_t bytes;
        problem.m = 64;
        problem.n = 128;
        problem.k = 256;
        problem.precision = GEMM_PRECISION_TF32;
        problem.transa = i & 1;
        problem.transb = i & 2;
        gemm_problem_contiguous(&problem);
        ck_assert_int_eq(
            operation_select(&operation_gemm, &gpu, "tensor_core", &problem, &kernel, NULL),
            GEMMD_OK);
        ck_assert(kernel->workspace_bytes(&problem, &bytes));
        const uint64_t turned = (problem.transa ? problem.m * problem.k : 0) +
                                (problem.transb ? 0 : problem.n * problem.k);
        ck_assert_uint_eq(bytes, dtype == GEMMD_BF16 ? 0 : turned * size);
    }
}
END_TEST

static uint64_t f8_workspace(enum gemm_precision precision, uint64_t m, uint64_t side, bool transb)
{
    const struct gemm_device gpu = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90};
    struct gemm_problem problem = problem_of(GEMMD_F8_E4M3, GEMMD_F32);
    const struct operation_kernel *kernel = NULL;
    uint64_t bytes;
    problem.precision = precision;
    problem.transb = transb;
    problem.m = m;
    problem.n = problem.k = side;
    gemm_problem_contiguous(&problem);
    ck_assert_int_eq(operation_select(&operation_gemm, &gpu, "wgmma", &problem, &kernel, NULL),
                     GEMMD_OK);
    ck_assert(kernel->workspace_bytes(&problem, &bytes));
    return bytes;
}

/* With precision full, up to 64 rows are widened by the kernel, in any layout of B, and more rows
 * in memory. Small products are computed as with precision full, whatever m is, so that they have
 * the bits that they have together with others. */
START_TEST(f8_is_widened_for_precision_full_and_for_small_products)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_FULL, 128, 512, true), 2 * (128 + 512) * 512);
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_FULL, 64, 512, true), 0);
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_FULL, 64, 512, false), 0);
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_F8, 64, 512, true), 0);
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_F8, 64, 512, false), 512 * 512); /* B along k */
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_F8, 64, 256, false), 0);
    ck_assert_uint_eq(f8_workspace(GEMM_PRECISION_F8, 128, 256, true), 2 * (128 + 256) * 256);
}
END_TEST

/* For short sums the error in parts is larger than that of a chain, and making the parts takes
 * time. */
START_TEST(auto_makes_no_parts_of_small_operands)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    struct gemm_problem problem = problem_of(GEMMD_F32, GEMMD_F32);
    problem.n = 4096;
    problem.k = 511;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(on_gpu(90, "auto", &problem), "cublas");
    ck_assert_str_eq(on_gpu(90, "wgmma", &problem), "wgmma");
    problem.k = (1 << 20) + 1;
    gemm_problem_contiguous(&problem);
    ck_assert_str_eq(on_gpu(90, "wgmma", &problem), "none");
}
END_TEST

START_TEST(auto_does_not_depend_on_the_number_of_rows)
{
    static const uint64_t rows[] = {1, 2, 64, 65, 1000, 70000};
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    for (uint32_t i = 0; i < case_types_count(); i++) {
        struct gemm_problem one = problem_of(case_types[i].dtype, case_types[i].out);
        one.m = 1;
        one.n = 600; /* never small */
        one.k = 700;
        gemm_problem_contiguous(&one);
        for (uint32_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            struct gemm_problem more = one;
            more.m = rows[r];
            gemm_problem_contiguous(&more);
            ck_assert_str_eq(on_gpu(90, "auto", &more), on_gpu(90, "auto", &one));
        }
    }
}
END_TEST

/* What the kernel needs besides the operands: packed, or with rows as far apart as gemm_leading
 * says. */
static uint64_t workspace_on_gpu(uint32_t compute_capability, const char *name,
                                 struct gemm_problem problem, bool apart)
{
    const struct gemm_device gpu = {.backend = GEMM_BACKEND_CUDA,
                                    .compute_capability = compute_capability};
    const struct operation_kernel *kernel = NULL;
    struct fault fault;
    uint64_t bytes = 0;
    gemm_problem_contiguous(&problem);
    if (apart) {
        problem.lda = gemm_leading(&gpu, problem.dtype, problem.lda, false);
        problem.ldb = gemm_leading(&gpu, problem.dtype, problem.ldb, false);
    }
    ck_assert_int_eq(operation_select(&operation_gemm, &gpu, name, &problem, &kernel, &fault),
                     GEMMD_OK);
    ck_assert(kernel->any_leading);
    ck_assert(kernel->workspace_bytes(&problem, &bytes));
    return bytes;
}

START_TEST(operands_of_odd_sizes_are_laid_out_for_tensor_cores)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    static const struct {
        enum gemmd_dtype dtype, out;
        enum gemm_precision precision;
        uint32_t compute_capability;
        const char *kernel;
    } on[] = {
        {GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 90, "wgmma"},
        {GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, 90, "wgmma"},
        {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, 90, "wgmma"},
        {GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, 80, "tensor_core"},
        {GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL, 86, "tensor_core"},
        {GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, 90, "tensor_core"},
        {GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, 90, "tensor_core"},
    };
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        struct gemm_problem problem = problem_of(on[i].dtype, on[i].out);
        problem.precision = on[i].precision;
        problem.transb = true;
        problem.m = 333;
        problem.n = 1024; /* C is aligned, whatever its type */
        problem.k = 1001;
        ck_assert_uint_gt(workspace_on_gpu(on[i].compute_capability, on[i].kernel, problem, false),
                          0);
        ck_assert_uint_eq(workspace_on_gpu(on[i].compute_capability, on[i].kernel, problem, true),
                          0);
    }
}
END_TEST

/* One of f32 may be multiplied by cuBLAS, which takes only what is packed. */
START_TEST(what_stays_is_laid_out_only_where_all_that_serve_it_gain)
{
    if (operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA)[0] == NULL)
        return;
    const struct gemm_device hopper = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 90},
                             ampere = {.backend = GEMM_BACKEND_CUDA, .compute_capability = 80};
    for (uint64_t width = 1; width < 1100; width += 13) {
        ck_assert_uint_eq(gemm_leading(&hopper, GEMMD_BF16, width, true) * 2 % 16, 0);
        ck_assert_uint_eq(gemm_leading(&hopper, GEMMD_I8, width, true) % 16, 0);
        ck_assert_uint_ge(gemm_leading(&hopper, GEMMD_I8, width, true), width);
        ck_assert_uint_lt(gemm_leading(&hopper, GEMMD_I8, width, true), width + 128);
        ck_assert_uint_eq(gemm_leading(&hopper, GEMMD_F32, width, true), width);
        ck_assert_uint_eq(gemm_leading(&hopper, GEMMD_F64, width, false), width);
        ck_assert_uint_eq(gemm_leading(&ampere, GEMMD_BF16, width, true), width);
        ck_assert_uint_eq(gemm_leading(&ampere, GEMMD_I8, width, false), width);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_select");
    TCase *tests = tcase_create("select");
    tcase_add_test(tests, auto_takes_the_library_where_it_can);
    tcase_add_test(tests, auto_of_middle_size);
    tcase_add_test(tests, auto_of_few_rows);
    tcase_add_test(tests, each_name_is_its_kernel);
    tcase_add_test(tests, choice_is_of_the_shape_alone);
    tcase_add_test(tests, unknown_names_list_what_there_is);
    tcase_add_test(tests, unfit_kernels_list_those_that_fit);
    tcase_add_test(tests, what_is_not_offered_no_kernel_takes);
    tcase_add_test(tests, workspaces_never_wrap);
    tcase_add_test(tests, blas_refuses_leading_dimensions_beyond_its_integers);
    tcase_add_test(tests, contiguous_operands);
    tcase_add_test(tests, cuda_without_a_device_is_an_error);
    tcase_add_test(tests, kernels_stay_on_their_architecture);
    tcase_add_test(tests, auto_takes_what_is_fastest_on_hopper);
    tcase_add_test(tests, tensor_core_takes_what_it_can_multiply);
    tcase_add_test(tests, tensor_core_turns_what_lies_across_k);
    tcase_add_test(tests, f8_is_widened_for_precision_full_and_for_small_products);
    tcase_add_test(tests, auto_makes_no_parts_of_small_operands);
    tcase_add_test(tests, auto_does_not_depend_on_the_number_of_rows);
    tcase_add_test(tests, operands_of_odd_sizes_are_laid_out_for_tensor_cores);
    tcase_add_test(tests, what_stays_is_laid_out_only_where_all_that_serve_it_gain);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
