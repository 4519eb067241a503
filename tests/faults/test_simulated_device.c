/* server/device/cuda on the GPU that simulated_cuda.c simulates: launch lists of small problems of
 * several operations, probes, the check of results, and matrices in tensor memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/known_answer.h"
#include "kernels/operations.h"
#include "kernels/subproblem.h"
#include "server/device/cuda/cuda_device.h"
#include "server/device/device.h"
#include "tests/faults/fault_kernels.h"
#include "tests/product/random.h"

static struct device *device;
static struct gemm_device gpu;
static unsigned char *memory; /* pinned */

static void open_device(const char *without_kernels)
{
    const struct device_options options = {.backend = GEMM_BACKEND_CUDA,
                                           .streams = 2,
                                           .memory_bytes = UINT64_C(16) << 20,
                                           .tensor_bytes = UINT64_C(16) << 20,
                                           .without_kernels = without_kernels};
    struct fault fault = {.detail = ""};
    ck_assert_msg(device_open(&options, &device, &fault) == GEMMD_OK, "%s", fault.detail);
    gpu = device_gemm(device);
    memory = device_host_alloc(GEMM_BACKEND_CUDA, KNOWN_ANSWER_BYTES, &fault);
    ck_assert_ptr_nonnull(memory);
}

static void close_device(void)
{
    device_host_free(GEMM_BACKEND_CUDA, memory, KNOWN_ANSWER_BYTES);
    device_close(device);
}

static void wait_for(const struct work *works)
{
    struct work *ended;
    while ((ended = device_poll(device)) == NULL) {
    }
    ck_assert_ptr_eq(ended, works);
}

static void run(struct work *works)
{
    device_submit(device, works);
    wait_for(works);
}

static void reserve(struct work *work)
{
    ck_assert(device_plan(device, work));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
}

static void release(const struct work *work)
{
    arena_free(device_arena(device), work->device_offset);
}

static const struct operation_kernel *kernel_named(const char *name)
{
    const struct operation_kernel *const *k = operation_kernels(&operation_gemm, gpu.backend);
    while (*k != NULL && strcmp((*k)->name, name) != 0)
        k++;
    ck_assert_ptr_nonnull(*k);
    return *k;
}

/* ---- launch lists ---- */

enum { KERNELS = 4, EACH = 3, WORKS = KERNELS * EACH };
static struct work works[WORKS];
static unsigned launches[KERNELS], computed[WORKS]; /* how often */
static unsigned failing = KERNELS;                  /* the kernel that fails; KERNELS: none */

/* Counts a launch of kernel number `number`, whose problems are in the order of their works. */
static enum gemmd_error count_launch(unsigned number, const struct operation_member members[],
                                     uint32_t count)
{
    uint32_t member = 0;
    launches[number]++;
    for (const struct work *work = &works[0]; work < works + WORKS; work++)
        for (uint32_t i = 0; i < count; i++)
            if (members[i].problem == &work->task.problem) {
                computed[work - works]++;
                member++;
            }
    ck_assert_uint_eq(member, count); /* each is one of the works */
    return number == failing ? GEMMD_ERR_INTERNAL : GEMMD_OK;
}

#define COUNTING(number)                                                                           \
    static enum gemmd_error count_##number(                                                        \
        struct gemm_context *context, const struct operation_member members[], uint32_t count)     \
    {                                                                                              \
        (void)context;                                                                             \
        return count_launch(number, members, count);                                               \
    }
COUNTING(0)
COUNTING(1)
COUNTING(2)
COUNTING(3)

/* Two kernels of products, and one of each other operation with small problems. */
static const struct {
    const struct operation *operation;
    struct operation_kernel kernel;
} kinds[KERNELS] = {
    {&operation_gemm, {.name = "zero", .run_group = count_0}},
    {&operation_softmax, {.name = "one", .run_group = count_1}},
    {&operation_gemm, {.name = "two", .run_group = count_2}},
    {&operation_reduce, {.name = "three", .run_group = count_3}},
};

static void make_small(struct work *work, unsigned kind)
{
    const struct array_shape shape = {2, {3, 4}};
    *work =
        (struct work){.task = {.operation = kinds[kind].operation, .kernel = &kinds[kind].kernel}};
    union operation_problem *problem = &work->task.problem;
    if (work->task.operation == &operation_gemm) {
        problem->gemm = (struct gemm_problem){
            .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 2, .n = 3, .k = 4, .batch = 1, .alpha = 1};
        gemm_problem_contiguous(&problem->gemm);
    } else if (work->task.operation == &operation_softmax) {
        softmax_problem_of(&problem->softmax, &shape, 0);
        problem->softmax.dtype = problem->softmax.out = GEMMD_F32;
    } else {
        reduce_problem_of(&problem->reduce, &shape, 1, 4);
        problem->reduce.dtype = problem->reduce.out = GEMMD_F32;
    }
    ck_assert(device_shares_launch(device, &work->task));
    ck_assert(device_plan(device, work));
    ck_assert(work->shared_launch);
    ck_assert_uint_eq(work->join_key, 0);
    ck_assert_uint_eq(work->device_bytes, 0);
}

/* A launch list with EACH works of each kind, in an order that `seed` draws. Returns the first. */
static struct work *make_list(uint64_t *seed)
{
    unsigned order[WORKS];
    for (unsigned i = 0; i < WORKS; i++) {
        make_small(&works[i], i % KERNELS);
        order[i] = i;
    }
    for (unsigned i = WORKS - 1; i > 0; i--) {
        const unsigned j = (unsigned)(random_next(seed) % (i + 1)), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    for (unsigned i = 0; i + 1 < WORKS; i++)
        works[order[i]].next = &works[order[i + 1]];
    memset(launches, 0, sizeof launches);
    memset(computed, 0, sizeof computed);
    return &works[order[0]];
}

/* Every kernel is launched once for all its problems, wherever they are in the list. */
START_TEST(the_order_of_a_launch_list_does_not_matter)
{
    uint64_t seed = 3;
    open_device(NULL);
    for (int again = 0; again < 50; again++) {
        run(make_list(&seed));
        for (unsigned i = 0; i < KERNELS; i++)
            ck_assert_msg(launches[i] == 1, "the kernel %s was launched %u times",
                          kinds[i].kernel.name, launches[i]);
        for (unsigned i = 0; i < WORKS; i++) {
            ck_assert_uint_eq(computed[i], 1);
            ck_assert_int_eq(works[i].status, GEMMD_OK);
            ck_assert_uint_eq(works[i].launch_works, WORKS);
        }
    }
    close_device();
}
END_TEST

/* For _i: the kernel that fails. */
START_TEST(a_kernel_that_fails_fails_its_launch_list)
{
    uint64_t seed = 4;
    open_device(NULL);
    failing = (unsigned)_i;
    run(make_list(&seed));
    for (unsigned i = 0; i < WORKS; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_ERR_INTERNAL);
        ck_assert_msg(strstr(works[i].fault.detail, kinds[_i].kernel.name) != NULL, "%s",
                      works[i].fault.detail);
    }
    ck_assert(!device_lost(device));
    failing = KERNELS;
    run(make_list(&seed));
    ck_assert_int_eq(works[0].status, GEMMD_OK);
    close_device();
}
END_TEST

/* ---- probes ---- */

/* For _i: with the kernel of small products, and without it. */
START_TEST(a_probe_is_launched_as_its_kernel_asks)
{
    struct work probe = {.task.operation = &operation_gemm};
    uint64_t row, column;
    open_device(_i == 1 ? "small" : NULL);
    struct task *task = &probe.task;
    known_answer_init(&task->problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
    ck_assert_int_eq(
        operation_select(task->operation, &gpu, "auto", &task->problem, &task->kernel, NULL),
        GEMMD_OK);
    ck_assert_str_eq(task->kernel->name, _i == 1 ? "large" : "small");
    ck_assert(device_plan(device, &probe));
    ck_assert_uint_eq(probe.shared_launch, (_i == 0));
    ck_assert_uint_eq((probe.device_bytes > 0), (_i == 1));
    if (probe.device_bytes > 0)
        ck_assert(arena_alloc(device_arena(device), probe.device_bytes, &probe.device_offset));
    for (int again = 0; again < 2; again++) {
        known_answer_init(&task->problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
        ck_assert(!known_answer_check(&task->problem.gemm, &row, &column));
        device_submit_probe(device, &probe);
        ck_assert_uint_eq(device_in_flight(device), 0);
        wait_for(&probe);
        ck_assert_msg(probe.status == GEMMD_OK, "%s", probe.fault.detail);
        ck_assert(known_answer_check(&task->problem.gemm, &row, &column));
    }
    if (probe.device_bytes > 0)
        release(&probe);
    close_device();
}
END_TEST

/* ---- results that are checked ---- */

static enum gemmd_error group_nothing(struct gemm_context *context,
                                      const struct operation_member members[], uint32_t count)
{
    (void)context, (void)members, (void)count;
    return GEMMD_OK;
}

/* Small products are verified behind the launch of their list, each by its own result, next to a
 * product that is not to be verified. */
START_TEST(small_products_are_verified_behind_their_launch)
{
    enum { COUNT = 4, PLAIN = 1, WRONG = 2 };
    float *c[COUNT];
    open_device(NULL);
    const struct operation_kernel *kernel = kernel_named("small");
    struct operation_kernel nothing = *kernel;
    nothing.run_group = group_nothing;
    for (unsigned i = 0; i < COUNT; i++) {
        struct work *work = &works[i];
        struct gemm_problem *p = &work->task.problem.gemm;
        *work = (struct work){.task = {&operation_gemm, i == WRONG ? &nothing : kernel, {{0}}},
                              .next = i > 0 ? &works[i - 1] : NULL,
                              .verify = i == PLAIN ? WORK_UNVERIFIED : WORK_VERIFY_ASKED,
                              .verify_seed = i,
                              .residual = -1};
        known_answer_init(p, GEMMD_F32, GEMMD_F32, false, false, memory);
        c[i] = calloc(p->m * p->n, sizeof *c[i]);
        ck_assert_ptr_nonnull(c[i]);
        p->c = c[i];
        ck_assert(device_plan(device, work));
        ck_assert(work->shared_launch);
        ck_assert_uint_eq(work->device_bytes, 0);
    }
    run(&works[COUNT - 1]);
    for (unsigned i = 0; i < COUNT; i++) {
        const double residual = works[i].residual;
        ck_assert_int_eq(works[i].status, GEMMD_OK);
        ck_assert_msg(i == PLAIN   ? residual == -1
                      : i == WRONG ? residual > 1
                                   : residual >= 0 && residual <= 1,
                      "work %u: the residual is %g", i, residual);
        free(c[i]);
    }
    close_device();
}
END_TEST

/* ---- sequences ---- */

enum { ROWS = 3, ROW_BYTES = 8, PITCH = 16 };

/* The works of a group have their keys and values copied to tensor memory before the kernel
 * computes, and a work with such copies goes to no stream for shared launches, however small. */
static const unsigned char *expected_pages; /* what the kernel must find in tensor memory */

static enum gemmd_error group_after_copies(struct gemm_context *context,
                                           const struct operation_member members[], uint32_t count)
{
    (void)context, (void)members;
    ck_assert_uint_eq(count, 2);
    for (uint32_t i = 0; i < 2 * ROWS; i++)
        ck_assert_mem_eq((const unsigned char *)device->tensors.start + (size_t)i * PITCH,
                         expected_pages + (size_t)i * ROW_BYTES, ROW_BYTES);
    return GEMMD_OK;
}

START_TEST(a_group_copies_the_positions_of_each_work_first)
{
    unsigned char rows[2 * ROWS * ROW_BYTES];
    struct work_copy copies[2];
    open_device(NULL);
    struct operation_kernel kernel = *kernel_named("small");
    kernel.run_group = group_after_copies;
    for (size_t i = 0; i < sizeof rows; i++)
        rows[i] = (unsigned char)(i + 1);
    expected_pages = rows;
    memset(device->tensors.start, 0, 2 * ROWS * PITCH);
    for (unsigned i = 0; i < 2; i++) {
        copies[i] = (struct work_copy){.from = rows + (size_t)i * ROWS * ROW_BYTES,
                                       .to = (unsigned char *)device->tensors.start +
                                             (size_t)i * ROWS * PITCH,
                                       .rows = ROWS,
                                       .row_bytes = ROW_BYTES,
                                       .from_pitch = ROW_BYTES,
                                       .to_pitch = PITCH};
        works[i] = (struct work){.task = {&operation_gemm, &kernel, {{0}}},
                                 .next = i > 0 ? &works[i - 1] : NULL,
                                 .copies_sequence = true,
                                 .sequence_copies = &copies[i],
                                 .sequence_copy_count = 1};
        known_answer_init(&works[i].task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false, memory);
        reserve(&works[i]);
        works[i].join_key = 1; /* as works of a group have; products have no groups */
        ck_assert(!works[i].shared_launch);
    }
    run(&works[1]);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(works[i].status, GEMMD_OK);
        release(&works[i]);
    }
    close_device();
}
END_TEST

/* ---- results that are checked alone ---- */

static const struct operation_kernel *right; /* which run_wrongly follows */

static enum gemmd_error run_wrongly(struct gemm_context *context, const void *problem,
                                    void *workspace)
{
    const enum gemmd_error code = operation_run(right, context, problem, workspace);
    *(float *)((const struct gemm_problem *)problem)->c += 1;
    return code;
}

/* A small product of i32 that is to be verified has a launch of its own, in which it is checked. */
START_TEST(a_small_product_of_i32_is_verified_in_its_own_launch)
{
    struct work work = {.task.operation = &operation_gemm};
    struct gemm_problem *p = &work.task.problem.gemm;
    uint64_t row, column;
    open_device(NULL);
    right = kernel_named("small");
    struct operation_kernel wrong = *right;
    wrong.run = run_wrongly;
    known_answer_init(p, GEMMD_I8, GEMMD_I32, false, false, memory);
    work.task.kernel = right;
    ck_assert(device_plan(device, &work));
    ck_assert(work.shared_launch);
    work.verify = WORK_VERIFY_ASKED;
    reserve(&work);
    ck_assert(!work.shared_launch);
    ck_assert_uint_gt(work.check_offset, 0);
    ck_assert_uint_gt(work.device_bytes, work.check_offset);
    work.residual = -1;
    run(&work);
    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert(known_answer_check(p, &row, &column));
    ck_assert_msg(work.residual >= 0 && work.residual <= 1, "the residual is %g", work.residual);
    work.task.kernel = &wrong;
    run(&work);
    ck_assert_int_eq(work.status, GEMMD_OK);
    ck_assert_double_gt(work.residual, 1);
    release(&work);
    close_device();
}
END_TEST

/* ---- several launches ---- */

enum { BUSY_MS = 100, CUT_LAUNCHES = 4, CUT_WIDTH = 4 };

/* A launch after which all streams of the device are busy for a time. */
static enum gemmd_error run_long(struct gemm_context *context, const void *problem, void *workspace)
{
    (void)context, (void)problem, (void)workspace;
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    for (uint32_t i = 0; i < device->slots; i++)
        fault_kernel_busy(cuda->slots[i].stream, BUSY_MS);
    return GEMMD_OK;
}

/* A work that nobody wants any more leaves the device when the launches that were enqueued have
 * ended, which use the work's memory. */
START_TEST(a_work_that_is_stopped_ends_behind_its_launches)
{
    struct work work = {.task.operation = &operation_gemm, .own_launch = true};
    struct gemm_problem *p = &work.task.problem.gemm;
    struct work *ended;
    open_device(NULL);
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    struct operation_kernel kernel = *kernel_named("large");
    kernel.run = run_long;
    *p = (struct gemm_problem){.dtype = GEMMD_F32,
                               .out = GEMMD_F32,
                               .m = CUT_LAUNCHES * SUBPROBLEM_ROWS,
                               .n = CUT_WIDTH,
                               .k = CUT_WIDTH,
                               .batch = 1,
                               .alpha = 1,
                               .a = memory,
                               .b = memory,
                               .c = memory};
    gemm_problem_contiguous(p);
    work.task.kernel = &kernel;
    kernel.launch_flops = operation_gemm.flops(p) / CUT_LAUNCHES;
    reserve(&work);
    device_submit(device, &work);
    atomic_store(&work.stop, true);
    while ((ended = device_poll(device)) == NULL)
        ck_assert_uint_eq(device_in_flight(device), 1);
    for (uint32_t i = 0; i < device->slots; i++)
        ck_assert_msg(cudaStreamQuery(cuda->slots[i].stream) == cudaSuccess,
                      "the work ended before its launches");
    ck_assert_ptr_eq(ended, &work);
    ck_assert_int_ne(work.status, GEMMD_OK);
    release(&work);
    close_device();
}
END_TEST

/* ---- tensor memory ---- */

enum { GAP = 3, POISON = 0xa5 };

/* Copies the rows of a matrix to tensor memory, with gaps between them. */
static void put(float *there, const float *from, uint64_t rows, uint64_t columns)
{
    memset(there, POISON, rows * (columns + GAP) * sizeof *there);
    for (uint64_t i = 0; i < rows; i++)
        memcpy(there + i * (columns + GAP), from + i * columns, columns * sizeof *from);
}

/* A kernel whose bits could depend on gaps gets A and B without them, and its C is spread again.
 * For _i: a kernel that takes any leading dimension, and one that does not. */
START_TEST(matrices_in_tensor_memory_keep_their_gaps)
{
    struct work work = {.task.operation = &operation_gemm, .own_launch = true};
    struct gemm_problem *p = &work.task.problem.gemm, known;
    const uint32_t poison = POISON * 0x01010101u;
    uint64_t row, column;
    open_device(NULL);
    struct operation_kernel kernel = *kernel_named("large");
    kernel.any_leading = _i == 0;
    work.task.kernel = &kernel;
    known_answer_init(p, GEMMD_F32, GEMMD_F32, false, false, memory);
    known = *p;
    float *a = device_tensor_memory(device).start, *b = a + 65536, *c = b + 65536;
    put(a, p->a, p->m, p->k);
    put(b, p->b, p->k, p->n);
    put(c, p->c, p->m, p->n);
    p->a = a;
    p->b = b;
    p->c = c;
    p->lda = p->k + GAP;
    p->ldb = p->n + GAP;
    p->ldc = p->n + GAP;
    ck_assert(device_plan(device, &work));
    ck_assert_uint_eq(work.device_bytes > 0, _i == 1);
    if (work.device_bytes > 0)
        reserve(&work);
    run(&work);
    ck_assert_msg(work.status == GEMMD_OK, "%s", work.fault.detail);
    for (uint64_t i = 0; i < known.m; i++) {
        memcpy((float *)known.c + i * known.n, c + i * p->ldc, known.n * sizeof *c);
        for (uint64_t j = known.n; j < p->ldc; j++)
            ck_assert_mem_eq(&c[i * p->ldc + j], &poison, sizeof poison);
    }
    ck_assert(known_answer_check(&known, &row, &column));
    if (work.device_bytes > 0)
        release(&work);
    close_device();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simulated_device");
    TCase *tests = tcase_create("simulated_device");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, the_order_of_a_launch_list_does_not_matter);
    tcase_add_loop_test(tests, a_kernel_that_fails_fails_its_launch_list, 0, KERNELS);
    tcase_add_loop_test(tests, a_probe_is_launched_as_its_kernel_asks, 0, 2);
    tcase_add_test(tests, small_products_are_verified_behind_their_launch);
    tcase_add_test(tests, a_group_copies_the_positions_of_each_work_first);
    tcase_add_test(tests, a_small_product_of_i32_is_verified_in_its_own_launch);
    tcase_add_test(tests, a_work_that_is_stopped_ends_behind_its_launches);
    tcase_add_loop_test(tests, matrices_in_tensor_memory_keep_their_gaps, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
