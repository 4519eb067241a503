/* server/device/device_copy.c on the CPU, which makes no early copies, and on a GPU if there is
 * one, on which a body that is copied in steps gives the same bytes as one that is copied at once.
 * test_early_copy.c tests early copies on a simulated device. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "has_gpu.h"
#include "proto/dtype.h"
#include "server/device/copy_in.h"
#include "server/device/device_copy.h"

static struct device *open_on(enum gemm_backend backend)
{
    struct device_options options = {
        .backend = backend, .streams = 2, .cpu_threads = 1, .memory_bytes = UINT64_C(512) << 20};
    struct device *device = NULL;
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    return device;
}

/* A product whose operands follow one another, as in a body. */
struct product {
    struct work work;
    enum gemm_backend backend;
    unsigned char *body, *once, *in_steps; /* the latter two: results */
    uint64_t body_bytes, c_bytes;
};

static unsigned char *take(enum gemm_backend backend, uint64_t bytes)
{
    unsigned char *memory = device_host_alloc(backend, bytes, NULL);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* Small numbers of the type; the bytes between the operands are none. */
static void fill(unsigned char *at, uint64_t count, enum gemmd_dtype dtype)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t sign = (uint32_t)(i * 2654435761u) & 0x80000000u, one = 0x3f800000u;
        const uint32_t bits = sign | (one + (uint32_t)(i % 7 << 20));
        const uint16_t half = (uint16_t)(bits >> 16); /* bf16 */
        if (dtype == GEMMD_F32)
            memcpy(at + 4 * i, &bits, 4);
        else if (dtype == GEMMD_BF16)
            memcpy(at + 2 * i, &half, 2);
        else
            at[i] = (unsigned char)(i % 11);
    }
}

static void make(struct product *product, struct device *device, const struct gemm_problem *like,
                 bool more)
{
    const struct gemm_device kind = device_gemm(device);
    struct fault fault = {.detail = ""};
    *product = (struct product){.work.task = {.operation = &operation_gemm, .problem.gemm = *like},
                                .backend = kind.backend};
    struct gemm_problem *p = &product->work.task.problem.gemm;
    p->alpha = 1;
    gemm_problem_contiguous(p);
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    const uint64_t a = p->m * p->k * p->batch, b = p->k * p->n * p->batch;
    product->c_bytes = p->m * p->n * p->batch * out_size;
    product->body_bytes = (a + b) * size + (more ? p->n * out_size + product->c_bytes : 0);
    product->body = take(kind.backend, product->body_bytes);
    product->once = take(kind.backend, product->c_bytes);
    product->in_steps = take(kind.backend, product->c_bytes);
    fill(product->body, a + b, p->dtype);
    p->a = product->body;
    p->b = product->body + a * size;
    if (more) {
        unsigned char *bias = product->body + (a + b) * size;
        fill(bias, p->n, p->out);
        fill(bias + p->n * out_size, product->c_bytes / out_size, p->out);
        p->bias = bias;
        p->c0 = bias + p->n * out_size;
        p->beta = 1;
    }
    ck_assert_msg(operation_select(&operation_gemm, &kind, "auto", p, &product->work.task.kernel,
                                   &fault) == GEMMD_OK,
                  "%s", fault.detail);
    product->work.own_launch = true;
    product->work.verify = WORK_VERIFY_ASKED;
    product->work.residual = 2;
    ck_assert(device_plan(device, &product->work));
    ck_assert(arena_alloc(device_arena(device), product->work.device_bytes,
                          &product->work.device_offset));
}

static void unmake(struct product *product, struct device *device)
{
    arena_free(device_arena(device), product->work.device_offset);
    device_host_free(product->backend, product->body, product->body_bytes);
    device_host_free(product->backend, product->once, product->c_bytes);
    device_host_free(product->backend, product->in_steps, product->c_bytes);
}

static struct device_span body_of(const struct product *product)
{
    return (struct device_span){product->body, product->body_bytes};
}

static void run(struct product *product, struct device *device, unsigned char *c,
                struct copy_in *copies)
{
    struct work *work = &product->work;
    memset(c, 0xee, product->c_bytes);
    work->task.problem.gemm.c = c;
    work->copy_in = copies;
    device_submit(device, work);
    while (device_poll(device) == NULL)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    ck_assert_msg(work->status == GEMMD_OK, "%s", work->fault.detail);
}

static void wait_until_copied(struct device *device, struct copy_in *copies)
{
    while (!device_copied_in(device, copies))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
}

START_TEST(the_cpu_copies_nothing_early)
{
    struct device *device = open_on(GEMM_BACKEND_CPU);
    struct product product;
    struct copy_in copies;
    make(&product, device,
         &(struct gemm_problem){
             .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 9, .n = 9, .k = 9, .batch = 1},
         false);
    ck_assert(!device_copies_early(device));
    ck_assert(!device_plan_copies(device, &product.work, body_of(&product), &copies));
    ck_assert(device_copies_are_over(device));
    unmake(&product, device);
    device_close(device);
}
END_TEST

/* Even and odd rows, types that kernels move, batches and transpositions. */
static const struct gemm_problem problems[] = {
    {.dtype = GEMMD_F32, .out = GEMMD_F32, .m = 512, .n = 512, .k = 512, .batch = 1},
    {.dtype = GEMMD_BF16, .out = GEMMD_BF16, .m = 1024, .n = 1024, .k = 1024, .batch = 1},
    {.dtype = GEMMD_BF16, .out = GEMMD_F32, .m = 1001, .n = 777, .k = 1021, .batch = 1},
    {.dtype = GEMMD_BF16,
     .out = GEMMD_BF16,
     .m = 333,
     .n = 1031,
     .k = 515,
     .batch = 3,
     .transa = true},
    {.dtype = GEMMD_BF16,
     .out = GEMMD_F32,
     .m = 515,
     .n = 333,
     .k = 1031,
     .batch = 1,
     .transb = true},
    {.dtype = GEMMD_BF16, .out = GEMMD_BF16, .m = 1, .n = 4097, .k = 4097, .batch = 1},
    {.dtype = GEMMD_F32, .out = GEMMD_F32, .m = 777, .n = 1001, .k = 1021, .batch = 1},
    {.dtype = GEMMD_I8, .out = GEMMD_I32, .m = 777, .n = 1001, .k = 1021, .batch = 2},
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

/* With a bias and C0 too, if `more`. */
static void compare_steps(struct device *device, const struct gemm_problem *problem, bool more)
{
    static const uint64_t steps[] = {70001, 1 << 20};
    struct product product;
    struct copy_in copies;
    make(&product, device, problem, more);
    run(&product, device, product.once, NULL);
    ck_assert_msg(product.work.residual <= 1, "%s by %s: the residual is %g",
                  dtype_name(problem->dtype), product.work.task.kernel->name,
                  product.work.residual);
    for (int i = 0; i < 2; i++) {
        uint64_t started = 0;
        ck_assert(device_plan_copies(device, &product.work, body_of(&product), &copies));
        for (uint64_t received = 0; received < product.body_bytes; received += steps[i])
            started += device_copy_in(device, &copies, received);
        ck_assert_uint_le(started, product.body_bytes);
        run(&product, device, product.in_steps, &copies);
        ck_assert(copies.over);
        ck_assert_int_eq(copies.copy_stream, COPY_IN_NO_STREAM);
        ck_assert_msg(memcmp(product.in_steps, product.once, product.c_bytes) == 0,
                      "%s by %s: other bytes in steps of %lu", dtype_name(problem->dtype),
                      product.work.task.kernel->name, (unsigned long)steps[i]);
    }
    unmake(&product, device);
}

START_TEST(a_body_in_steps_gives_the_bytes_of_one_at_once)
{
    struct device *device = open_on(GEMM_BACKEND_CUDA);
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        compare_steps(device, &problems[i], false);
        compare_steps(device, &problems[i], true);
    }
    ck_assert(device_copies_are_over(device));
    device_close(device);
}
END_TEST

START_TEST(a_body_that_comes_to_nothing_leaves_its_memory_alone)
{
    struct device *device = open_on(GEMM_BACKEND_CUDA);
    struct product product, next;
    struct copy_in copies;
    make(&product, device, &problems[1], false);
    ck_assert(device_plan_copies(device, &product.work, body_of(&product), &copies));
    ck_assert_uint_gt(device_copy_in(device, &copies, product.body_bytes / 2), 0);
    wait_until_copied(device, &copies);
    ck_assert_int_eq(copies.copy_stream, COPY_IN_NO_STREAM);
    ck_assert(device_copies_are_over(device));
    unmake(&product, device);
    /* In the same memory. */
    make(&next, device, &problems[2], false);
    ck_assert(device_plan_copies(device, &next.work, body_of(&next), &copies));
    ck_assert_uint_gt(device_copy_in(device, &copies, next.body_bytes), 0);
    run(&next, device, next.in_steps, &copies);
    run(&next, device, next.once, NULL);
    ck_assert_mem_eq(next.in_steps, next.once, next.c_bytes);
    unmake(&next, device);
    device_close(device);
}
END_TEST

START_TEST(all_lanes_at_once)
{
    enum { BODIES = 70 }; /* more than there are copy streams */
    struct device *device = open_on(GEMM_BACKEND_CUDA);
    static struct product products[BODIES];
    static struct copy_in copies[BODIES];
    uint32_t with_lane = 0;
    for (int i = 0; i < BODIES; i++) {
        make(&products[i], device, &problems[0], false);
        ck_assert(device_plan_copies(device, &products[i].work, body_of(&products[i]), &copies[i]));
        with_lane += device_copy_in(device, &copies[i], products[i].body_bytes) > 0;
    }
    ck_assert_uint_lt(with_lane, BODIES);
    for (int i = 0; i < BODIES; i++) {
        run(&products[i], device, products[i].in_steps, &copies[i]);
        if (i > 0)
            ck_assert_mem_eq(products[i].in_steps, products[0].in_steps, products[0].c_bytes);
    }
    ck_assert(device_copies_are_over(device));
    for (int i = 0; i < BODIES; i++)
        unmake(&products[i], device);
    device_close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_copy");
    TCase *tests = tcase_create("device_copy");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_cpu_copies_nothing_early);
    if (has_gpu()) {
        tcase_add_test(tests, a_body_in_steps_gives_the_bytes_of_one_at_once);
        tcase_add_test(tests, a_body_that_comes_to_nothing_leaves_its_memory_alone);
        tcase_add_test(tests, all_lanes_at_once);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
