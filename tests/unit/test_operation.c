/* kernels/operation.c: the choice among the kernels of a backend that this file makes up, and what
 * is said of those that are not chosen. The backend takes the place of CUDA's, which a test without
 * a GPU cannot use. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/operations.h"

static enum gemmd_error run_nothing(struct gemm_context *context, const void *problem,
                                    void *workspace)
{
    (void)context;
    (void)problem;
    (void)workspace;
    return GEMMD_OK;
}

static enum gemmd_error group_nothing(struct gemm_context *context,
                                      const struct operation_member members[], uint32_t count)
{
    (void)context;
    (void)members;
    (void)count;
    return GEMMD_OK;
}

/* ---- products ---- */

static bool takes_f32(const void *problem)
{
    return ((const struct gemm_problem *)problem)->dtype == GEMMD_F32;
}

static bool takes_floats(const void *problem)
{
    return ((const struct gemm_problem *)problem)->dtype != GEMMD_I8;
}

static bool takes_small_floats(const void *problem)
{
    return takes_floats(problem) && ((const struct gemm_problem *)problem)->m != 13;
}

static const struct operation_kernel library = {
    .name = "library", .takes = takes_f32, .run = run_nothing};

/* The library is faster for a transposed A. */
static const struct operation_kernel *fast_preferred(const void *problem)
{
    return ((const struct gemm_problem *)problem)->transa ? &library : NULL;
}

static const struct operation_kernel fast = {.name = "fast",
                                             .compute_capability = 90,
                                             .takes = takes_floats,
                                             .preferred_kernel = fast_preferred,
                                             .run = run_nothing};
static const struct operation_kernel together = {.name = "together",
                                                 .takes = takes_small_floats,
                                                 .run = run_nothing,
                                                 .run_group = group_nothing};
static const struct operation_kernel last = {
    .name = "last", .takes = takes_floats, .run = run_nothing};
static const struct operation_kernel *const products[] = {&fast, &library, &together, &last, NULL};
enum { FAST, LIBRARY, TOGETHER, LAST }; /* places in the list */

/* ---- softmaxes, whose operation does not ask for a kernel with run_group if they are small ----
 */

static bool takes_f32_softmax(const void *problem)
{
    return ((const struct softmax_problem *)problem)->dtype == GEMMD_F32;
}

static bool takes_short_f32_softmax(const void *problem)
{
    return takes_f32_softmax(problem) && ((const struct softmax_problem *)problem)->length < 10;
}

static const struct operation_kernel plain = {
    .name = "plain", .takes = takes_f32_softmax, .run = run_nothing};
static const struct operation_kernel grouping = {.name = "grouping",
                                                 .takes = takes_short_f32_softmax,
                                                 .run = run_nothing,
                                                 .run_group = group_nothing};
static const struct operation_kernel *const softmaxes[] = {&plain, &grouping, NULL};

/* ---- attentions, of which the kernel does not take each property ---- */

static bool takes_some_f16(const void *problem)
{
    const struct attention_problem *p = problem;
    return p->dtype == GEMMD_F16 && !p->ragged && !p->right_windowed && p->slopes == NULL &&
           p->sinks == NULL && attention_problem_offered(p);
}

static const struct operation_kernel only = {
    .name = "only", .takes = takes_some_f16, .run = run_nothing};
static const struct operation_kernel *const attentions[] = {&only, NULL};

const struct gemm_backend_entry gemm_backend_cuda = {.name = "cuda",
                                                     .kernels = {
                                                         [OPERATION_GEMM] = products,
                                                         [OPERATION_ATTENTION] = attentions,
                                                         [OPERATION_SOFTMAX] = softmaxes,
                                                     }};

static struct gemm_device gpu(uint32_t capability, uint32_t without)
{
    return (struct gemm_device){.backend = GEMM_BACKEND_CUDA,
                                .compute_capability = capability,
                                .without = {[OPERATION_GEMM] = without}};
}

static struct gemm_problem product(enum gemmd_dtype dtype, uint64_t m)
{
    struct gemm_problem problem = {
        .dtype = dtype, .out = dtype, .m = m, .n = 6, .k = 7, .batch = 1, .alpha = 1};
    gemm_problem_contiguous(&problem);
    return problem;
}

static struct softmax_problem softmax(enum gemmd_dtype dtype, uint64_t length)
{
    const struct array_shape shape = {2, {3, length}};
    struct softmax_problem problem;
    softmax_problem_of(&problem, &shape, 0);
    problem.dtype = problem.out = dtype;
    return problem;
}

static const struct operation_kernel *chosen(const struct operation *operation,
                                             struct gemm_device device, const char *name,
                                             const void *problem)
{
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_msg(operation_select(operation, &device, name, problem, &kernel, &fault) == GEMMD_OK,
                  "%s", fault.detail);
    return kernel;
}

enum { SMALL = 5, LARGE = 10000 };

START_TEST(a_small_product_gets_the_first_kernel_with_groups)
{
    const struct gemm_problem small = product(GEMMD_F32, SMALL), large = product(GEMMD_F32, LARGE);
    ck_assert(operation_gemm.is_small(&small) && !operation_gemm.is_small(&large));
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "auto", &small), &together);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(80, 0), "auto", &small), &together);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "auto", &large), &fast);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(80, 0), "auto", &large), &library);
    /* The other operations take the first kernel of the list. */
    const struct softmax_problem few = softmax(GEMMD_F32, 4);
    ck_assert(operation_softmax.is_small(&few));
    ck_assert_ptr_eq(chosen(&operation_softmax, gpu(90, 0), "auto", &few), &plain);
    ck_assert(!operation_is_small(&operation_softmax, &plain, &few));
    ck_assert(operation_is_small(&operation_softmax, &grouping, &few));
}
END_TEST

START_TEST(a_small_product_without_a_kernel_with_groups_gets_any)
{
    const struct gemm_problem small = product(GEMMD_F32, SMALL), thirteen = product(GEMMD_F32, 13);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 1u << TOGETHER), "auto", &small), &fast);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "auto", &thirteen), &fast);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(80, 0), "auto", &thirteen), &library);
}
END_TEST

START_TEST(a_faster_kernel_takes_the_place_of_the_first)
{
    struct gemm_problem turned = product(GEMMD_F32, LARGE), of_f16 = product(GEMMD_F16, LARGE);
    turned.transa = of_f16.transa = true;
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "auto", &turned), &library);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "fast", &turned), &fast);
    /* The faster kernel is left out, or does not take the problem. */
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 1u << LIBRARY), "auto", &turned), &fast);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 0), "auto", &of_f16), &fast);
    /* The kernel that names a faster one is left out. */
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 1u << FAST), "auto", &turned), &library);
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 1u << FAST | 1u << LIBRARY), "auto", &turned),
                     &together);
    turned.m = 13; /* which `together` does not take */
    ck_assert_ptr_eq(chosen(&operation_gemm, gpu(90, 1u << FAST | 1u << LIBRARY), "auto", &turned),
                     &last);
}
END_TEST

/* What is said of a kernel if `name` is asked for. */
static const char *reason(struct gemm_device device, const char *name, const void *problem,
                          const struct operation_kernel *kernel)
{
    return operation_reason(&operation_gemm, &device, name, problem,
                            chosen(&operation_gemm, device, name, problem), kernel);
}

START_TEST(why_a_kernel_is_chosen)
{
    const struct gemm_problem small = product(GEMMD_F32, SMALL), f16 = product(GEMMD_F16, SMALL);
    struct gemm_problem large = product(GEMMD_F32, LARGE), turned = large;
    turned.transa = true;
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &large, &fast),
                     "this is the first kernel of the list that takes the problem");
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &large, &library),
                     "the kernel takes the problem, and comes later in the list, which begins with "
                     "the kernels that are faster");
    ck_assert_str_eq(reason(gpu(80, 0), "auto", &large, &fast),
                     "the device does not run this kernel");
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &small, &together),
                     "the problem is small, and this is the first kernel of the list that computes "
                     "many small problems in one launch");
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &small, &fast),
                     "the kernel takes the problem, and the chosen one is faster for it");
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &turned, &library),
                     "the first kernel of the list that takes the problem names this one as "
                     "faster");
    ck_assert_str_eq(reason(gpu(90, 0), "fast", &turned, &fast), "the request names this kernel");
    ck_assert_str_eq(reason(gpu(90, 0), "fast", &turned, &library),
                     "the kernel takes the problem, and the request names another one");
    ck_assert_str_eq(reason(gpu(90, 0), "auto", &f16, &library),
                     "the kernel does not take the problem");
}
END_TEST

static void refused(const struct operation *operation, struct gemm_device device, const char *name,
                    const void *problem, const char *field, const char *says)
{
    const struct operation_kernel *kernel = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_int_eq(operation_select(operation, &device, name, problem, &kernel, &fault),
                     GEMMD_ERR_UNSUPPORTED);
    ck_assert_ptr_null(kernel);
    ck_assert_str_eq(fault.field, field);
    ck_assert_str_eq(fault.detail, says);
}

START_TEST(what_is_said_of_products)
{
    const struct gemm_problem f32 = product(GEMMD_F32, SMALL), i8 = product(GEMMD_I8, SMALL),
                              f16 = product(GEMMD_F16, 13);
    refused(&operation_gemm, gpu(90, 0), "best", &f32, "kernel",
            "the cuda backend has no kernel 'best' for gemm; it has: auto, fast, library, "
            "together, last");
    refused(&operation_gemm, gpu(80, 1u << LAST), "last", &f32, "kernel",
            "the cuda backend has no kernel 'last' for gemm; it has: auto, library, together");
    refused(
        &operation_gemm, gpu(80, 0), "fast", &f32, "kernel",
        "the cuda backend has no kernel 'fast' for gemm; it has: auto, library, together, last");
    refused(&operation_gemm, gpu(90, 0), "library", &f16, "kernel",
            "kernel 'library' cannot compute f16 to f16 of 13 x 6 x 7 on the cuda backend; these "
            "can: fast, last");
    refused(&operation_gemm, gpu(90, 0), "auto", &i8, "kernel",
            "kernel 'auto' cannot compute i8 to i8 of 5 x 6 x 7 on the cuda backend; these can: "
            "none");
}
END_TEST

START_TEST(what_is_said_of_other_operations)
{
    const struct softmax_problem f32 = softmax(GEMMD_F32, 100), f64 = softmax(GEMMD_F64, 4);
    const struct conv_problem conv = {.dtype = GEMMD_F32};
    refused(&operation_softmax, gpu(90, 0), "best", &f32, "kernel",
            "the cuda backend has no kernel 'best' for softmax; it has: auto, plain, grouping");
    refused(&operation_softmax, gpu(90, 0), "grouping", &f32, "kernel",
            "kernel 'grouping' cannot compute this softmax; kernel=auto can");
    refused(&operation_softmax, gpu(90, 0), "auto", &f64, "dtype",
            "softmax in f64 is not offered on the cuda backend; these types are: f32");
    refused(&operation_softmax, gpu(90, 0), "plain", &f64, "dtype",
            "softmax in f64 is not offered on the cuda backend; these types are: f32");
    /* The backend has no kernels for the operation. */
    refused(&operation_conv2d, gpu(90, 0), "plain", &conv, "kernel",
            "the cuda backend has no kernel 'plain' for conv2d; it has: none");
    refused(&operation_conv2d, gpu(90, 0), "auto", &conv, "dtype",
            "conv2d in f32 is not offered on the cuda backend; these types are: none");
}
END_TEST

/* What the kernels of CUDA do not know of is refused by its name, and not by the type, unless the
 * type is not offered either. */
START_TEST(properties_that_no_kernel_of_cuda_takes)
{
    static const char *const offered[] = {"mask", "offset"};
    struct attention_problem problem, f32;
    uint32_t count = 0, refusals = 0;
    ck_assert(operation_attention.example(GEMMD_F32, GEMMD_F32, &f32));
    for (const struct operation_property *p = operation_attention.properties; p->name != NULL;
         p++, count++) {
        char says[128];
        ck_assert(operation_attention.example(GEMMD_F16, GEMMD_F16, &problem));
        ck_assert(!p->has(&problem));
        p->give(&problem);
        ck_assert(p->has(&problem));
        const bool takes = count < 2 && strcmp(p->name, offered[count]) == 0;
        ck_assert(operation_takes_property(&operation_attention, &only, p, GEMMD_F16) == takes);
        ck_assert(!operation_takes_property(&operation_attention, &only, p, GEMMD_F32));
        ck_assert(
            operation_takes_property(&operation_attention, &attention_cpu_tiled, p, GEMMD_F16));
        if (takes) {
            ck_assert_ptr_eq(chosen(&operation_attention, gpu(90, 0), "auto", &problem), &only);
            continue;
        }
        refusals++;
        snprintf(says, sizeof says, "attention with %s is not offered on the cuda backend",
                 p->name);
        refused(&operation_attention, gpu(90, 0), "auto", &problem, p->parameter, says);
        refused(&operation_attention, gpu(90, 0), "only", &problem, p->parameter, says);
        p->give(&f32);
    }
    ck_assert_uint_eq(refusals, 4);
    refused(&operation_attention, gpu(90, 0), "auto", &f32, "dtype",
            "attention in f32 is not offered on the cuda backend; these types are: f16");
}
END_TEST

/* Bit i of each operation is entry i of its own list. */
START_TEST(what_is_left_out_is_of_one_operation)
{
    const struct softmax_problem f32 = softmax(GEMMD_F32, 4);
    const struct gemm_problem large = product(GEMMD_F32, LARGE);
    struct gemm_device device = gpu(90, 0);
    device.without[OPERATION_SOFTMAX] = 1;
    ck_assert_ptr_eq(chosen(&operation_softmax, device, "auto", &f32), &grouping);
    ck_assert_ptr_eq(chosen(&operation_gemm, device, "auto", &large), &fast);
    ck_assert(operation_kernel_runs_on(&operation_gemm, &fast, &device));
    ck_assert(!operation_kernel_runs_on(&operation_softmax, &plain, &device));
}
END_TEST

/* Every operation is at the place of its number, so that whoever finds it there may use it. */
START_TEST(the_table_is_by_number)
{
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        ck_assert_uint_eq(operation_table[i]->number, i);
        for (uint32_t j = 0; j < i; j++)
            ck_assert_str_ne(operation_table[i]->name, operation_table[j]->name);
    }
    ck_assert_ptr_eq(operation_table[OPERATION_GEMM], &operation_gemm);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operation");
    TCase *tests = tcase_create("operation");
    tcase_add_test(tests, a_small_product_gets_the_first_kernel_with_groups);
    tcase_add_test(tests, a_small_product_without_a_kernel_with_groups_gets_any);
    tcase_add_test(tests, a_faster_kernel_takes_the_place_of_the_first);
    tcase_add_test(tests, why_a_kernel_is_chosen);
    tcase_add_test(tests, what_is_said_of_products);
    tcase_add_test(tests, what_is_said_of_other_operations);
    tcase_add_test(tests, properties_that_no_kernel_of_cuda_takes);
    tcase_add_test(tests, what_is_left_out_is_of_one_operation);
    tcase_add_test(tests, the_table_is_by_number);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
