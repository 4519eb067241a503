#include "server/scheduler/warm_up.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/known_answer.h"
#include "server/base/clock.h"
#include "server/device/device.h"

/* How long a product may take before the device counts as lost. */
static const uint64_t PATIENCE_NS = 20000000000u;

struct first_product {
    struct work work; /* the first member: first_product_done casts it back */
    atomic_bool ended;
};

static void first_product_done(struct work *work)
{
    atomic_store(&((struct first_product *)work)->ended, true);
}

static bool wait_for_end(struct first_product *first)
{
    const uint64_t begun_ns = clock_now_ns();
    while (!atomic_load(&first->ended)) {
        if (clock_now_ns() - begun_ns > PATIENCE_NS)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    return true;
}

/* Runs one product, whose kernel is chosen and whose operands are written. */
static enum gemmd_error warm_up_run(struct device *device, struct queue *queue,
                                    struct first_product *first, struct fault *fault)
{
    struct work *work = &first->work;
    struct arena *arena = device_arena(device);
    uint64_t row, column;
    struct admission_place place = {.admission = NULL};
    if (!device_plan(device, work) || queue_admit(queue, 0, 0, &place, fault) != GEMMD_OK)
        return GEMMD_OK; /* the limits are so tight that no request will run either */
    const bool takes_memory = work->device_bytes > 0;
    if (takes_memory && !arena_alloc(arena, work->device_bytes, &work->device_offset)) {
        admission_give(&place);
        return GEMMD_OK;
    }
    work->done = first_product_done;
    work->uncounted = true;
    work->queued_ns = clock_now_ns();
    queue_push(queue, work);
    if (!wait_for_end(first))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the first product was not done within %" PRIu64 " s",
                         PATIENCE_NS / 1000000000u);
    if (takes_memory)
        arena_free(arena, work->device_offset);
    admission_give(&place);
    if (work->status != GEMMD_OK)
        return fault_set(fault, work->status, NULL, "the first product failed: %.200s",
                         work->fault.detail);
    if (!known_answer_check(&work->task.problem.gemm, &row, &column))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the first product has a wrong element at row %" PRIu64
                         ", column %" PRIu64,
                         row, column);
    return GEMMD_OK;
}

enum gemmd_error warm_up(struct device *device, struct queue *queue, struct pool *pool,
                         struct fault *fault)
{
    static const char *const kernels[] = {"auto", "naive"};
    const struct gemm_device target = device_gemm(device);
    enum gemmd_error code = GEMMD_OK;
    struct fault ignored;
    struct first_product *first = calloc(1, sizeof *first);
    struct pool_cache *memory = pool_cache_create(pool);
    void *block = memory == NULL ? NULL : pool_alloc(memory, KNOWN_ANSWER_BYTES, &ignored);
    for (int i = 0; i < 2 && first != NULL && block != NULL && code == GEMMD_OK; i++) {
        *first = (struct first_product){.work.task.operation = &operation_gemm};
        known_answer_init(&first->work.task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false,
                          block);
        if (operation_select(&operation_gemm, &target, kernels[i], &first->work.task.problem.gemm,
                             &first->work.task.kernel, &ignored) == GEMMD_OK)
            code = warm_up_run(device, queue, first, fault);
    }
    if (first != NULL && first->work.done != NULL && !atomic_load(&first->ended))
        return code;
    if (block != NULL)
        pool_free(memory, block, KNOWN_ANSWER_BYTES);
    pool_cache_destroy(memory);
    free(first);
    return code;
}
