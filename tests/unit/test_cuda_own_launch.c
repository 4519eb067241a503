/* server/device/cuda/own_launch.c: products and attentions on a GPU that are cut into several
 * launches, their bits, and their end when nobody waits for them any more. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"
#include "has_gpu.h"
#include "kernels/launch_cut.h"
#include "kernels/operations.h"

enum { ROWS = 2000, COLUMNS = 96, DEPTH = 64, LAUNCHES = 7, POISON = 0xa5 };
static const uint64_t A_BYTES = ROWS * DEPTH * 4, B_BYTES = DEPTH * COLUMNS * 4,
                      C_BYTES = ROWS * COLUMNS * 4;

static void fill(unsigned char *memory, uint64_t bytes)
{
    uint32_t state = 12345;
    for (uint64_t i = 0; i < bytes / 4; i++) {
        state = state * 1664525 + 1013904223;
        const float value = (float)(state >> 8) / (float)(1 << 24) - 0.5f;
        memcpy(memory + 4 * i, &value, sizeof value);
    }
}

/* A work with a copy of a kernel that has shorter launches. */
struct long_work {
    struct work work;
    struct operation_kernel kernel;
};

static void reserve(struct device *device, struct work *work)
{
    work->own_launch = true;
    ck_assert(device_plan(device, work));
    ck_assert(arena_alloc(device_arena(device), work->device_bytes, &work->device_offset));
}

static void reserve_and_run(struct device *device, struct work *work)
{
    reserve(device, work);
    run(device, work);
    arena_free(device_arena(device), work->device_offset);
}

/* Selects the kernel, and gives the work a copy of it that cuts the problem into so many launches.
 */
static void shorten(struct device *device, struct long_work *cut, const char *name, double launches)
{
    const struct gemm_device gpu = device_gemm(device);
    struct fault fault = {.detail = ""};
    struct task *task = &cut->work.task;
    ck_assert_msg(operation_select(task->operation, &gpu, name, &task->problem, &task->kernel,
                                   &fault) == GEMMD_OK,
                  "%s", fault.detail);
    cut->kernel = *task->kernel;
    ck_assert_double_gt(cut->kernel.launch_flops, 0);
    ck_assert(task->operation->cut != NULL || cut->kernel.tiles != NULL);
    cut->kernel.launch_flops = task->operation->flops(&task->problem) / launches;
    task->kernel = &cut->kernel;
}

/* A product, whose result is behind its operands. */
static void init_product(struct device *device, struct long_work *cut, unsigned char *memory,
                         const char *name, double launches)
{
    *cut = (struct long_work){.work = {.task.operation = &operation_gemm,
                                       .task.problem.gemm = {.dtype = GEMMD_F32,
                                                             .out = GEMMD_F32,
                                                             .m = ROWS,
                                                             .n = COLUMNS,
                                                             .k = DEPTH,
                                                             .batch = 1,
                                                             .alpha = 1,
                                                             .a = memory,
                                                             .b = memory + A_BYTES,
                                                             .c = memory + A_BYTES + B_BYTES}}};
    gemm_problem_contiguous(&cut->work.task.problem.gemm);
    shorten(device, cut, name, launches);
}

/* An attention of one head with ROWS queries and DEPTH columns, whose result is behind its
 * operands.
 */
static void init_attention(struct device *device, struct long_work *cut, unsigned char *memory,
                           const char *name, double launches)
{
    const struct attention_strides strides = attention_strides(ATTENTION_BHSD, 1, ROWS, DEPTH);
    *cut = (struct long_work){.work = {.task.operation = &operation_attention,
                                       .task.problem.attention = {.dtype = GEMMD_F32,
                                                                  .batch = 1,
                                                                  .heads = 1,
                                                                  .kv_heads = 1,
                                                                  .sq = ROWS,
                                                                  .skv = ROWS,
                                                                  .d = DEPTH,
                                                                  .dv = DEPTH,
                                                                  .causal = true,
                                                                  .scale = 0.125f,
                                                                  .q = memory,
                                                                  .k = memory + A_BYTES,
                                                                  .v = memory + 2 * A_BYTES,
                                                                  .o = memory + 3 * A_BYTES,
                                                                  .q_strides = strides,
                                                                  .k_strides = strides,
                                                                  .v_strides = strides,
                                                                  .o_strides = strides}}};
    shorten(device, cut, name, launches);
}

static const struct {
    const char *kernel;
    bool attention;
} kinds[] = {{"naive", false},           {"tiled", false}, {"tiled_padded", false},
             {"double_buffered", false}, {"naive", true},  {"tiled", true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void init(struct device *device, struct long_work *cut, unsigned char *memory, int kind,
                 double launches)
{
    if (kinds[kind].attention)
        init_attention(device, cut, memory, kinds[kind].kernel, launches);
    else
        init_product(device, cut, memory, kinds[kind].kernel, launches);
}

static unsigned char *result_of(int kind, unsigned char *memory)
{
    return kinds[kind].attention ? memory + 3 * A_BYTES : memory + A_BYTES + B_BYTES;
}
static uint64_t result_bytes_of(int kind)
{
    return kinds[kind].attention ? A_BYTES : C_BYTES;
}

START_TEST(a_work_in_several_launches_has_the_same_bytes)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(4 * A_BYTES), *whole = malloc(C_BYTES);
    struct long_work cut;
    ck_assert_ptr_nonnull(whole);
    fill(memory, 4 * A_BYTES);
    for (int launches = 1; launches <= LAUNCHES; launches++) {
        unsigned char *result = result_of(_i, memory);
        const uint64_t bytes = result_bytes_of(_i), before = device_progress(device);
        memset(result, POISON, bytes);
        init(device, &cut, memory, _i, launches);
        reserve_and_run(device, &cut.work);
        ck_assert_msg(cut.work.status == GEMMD_OK, "%s", cut.work.fault.detail);
        if (launches == 1)
            memcpy(whole, result, bytes);
        else if (launches > 2) /* more than the begin and the end of the work */
            ck_assert_uint_gt(device_progress(device), before + 2);
        ck_assert_mem_eq(result, whole, bytes);
        ck_assert_uint_gt(cut.work.h2d_ns, 0);
        ck_assert_uint_gt(cut.work.kernel_ns, 0);
        ck_assert_uint_gt(cut.work.d2h_ns, 0);
    }
    free(whole);
    device_host_free(GEMM_BACKEND_CUDA, memory, 4 * A_BYTES);
    device_close(device);
}
END_TEST

/* Nobody waits for the results from the beginning, so that the first look between launches ends the
 * works, and nothing is copied out. */
START_TEST(a_work_of_no_use_ends_between_its_launches)
{
    struct device *device = open_gpu();
    unsigned char *memory = take_host(4 * A_BYTES);
    struct long_work cut;
    fill(memory, 4 * A_BYTES);
    for (int late = 0; late < 2; late++) {
        unsigned char *result = result_of(_i, memory);
        memset(result, POISON, result_bytes_of(_i));
        init(device, &cut, memory, _i, LAUNCHES);
        atomic_store(&cut.work.stop, !late);
        cut.work.deadline_ns = late ? 1 : 0;
        reserve_and_run(device, &cut.work);
        ck_assert_int_eq(cut.work.status, late ? GEMMD_ERR_DEADLINE : GEMMD_ERR_CANCELLED);
        for (uint64_t i = 0; i < result_bytes_of(_i); i++)
            ck_assert_int_eq(result[i], POISON);
    }
    device_host_free(GEMM_BACKEND_CUDA, memory, 4 * A_BYTES);
    device_close(device);
}
END_TEST

/* A work in many launches does not keep others from the device. */
START_TEST(others_run_beside_a_work_in_many_launches)
{
    struct device *device = open_gpu();
    const uint64_t bytes = 4 * A_BYTES;
    unsigned char *memory = take_host(bytes), *other = take_host(bytes);
    struct long_work cut, alone;
    fill(memory, bytes);
    fill(other, bytes);
    init_product(device, &cut, memory, "naive", LAUNCHES);
    init_product(device, &alone, other, "naive", 1);
    struct work *both[] = {&cut.work, &alone.work};
    for (int i = 0; i < 2; i++) {
        reserve(device, both[i]);
        device_submit(device, both[i]);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wait_for_one(device)->status, GEMMD_OK);
    ck_assert_mem_eq(cut.work.task.problem.gemm.c, alone.work.task.problem.gemm.c, C_BYTES);
    for (int i = 0; i < 2; i++)
        arena_free(device_arena(device), both[i]->device_offset);
    device_host_free(GEMM_BACKEND_CUDA, memory, bytes);
    device_host_free(GEMM_BACKEND_CUDA, other, bytes);
    device_close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_own_launch");
    TCase *tests = tcase_create("cuda_own_launch");
    tcase_set_timeout(tests, 240);
    if (has_gpu()) {
        tcase_add_loop_test(tests, a_work_in_several_launches_has_the_same_bytes, 0, KINDS);
        tcase_add_loop_test(tests, a_work_of_no_use_ends_between_its_launches, 0, KINDS);
        tcase_add_test(tests, others_run_beside_a_work_in_many_launches);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
