#include "server/device/self_test.h"

#include <inttypes.h>
#include <time.h>

#include "proto/dtype.h"
#include "server/clock.h"
#include "server/device/device_ops.h"
#include "server/device/known_answer.h"
#include "server/device/known_attention.h"

static const uint64_t PATIENCE_NS = 20000000000u; /* a first launch may load much code */

/* Waits for the one work in flight. A device that does not answer counts as lost, which ends it. */
static void wait_for_end(struct device *device, const struct work *work)
{
    uint64_t begun_ns = clock_now_ns();
    while (device_poll(device) == NULL) {
        if (clock_now_ns() - begun_ns > PATIENCE_NS)
            device_set_lost(device, "the kernel %s was not done within %" PRIu64 " s",
                            work_kernel_name(work), PATIENCE_NS / 1000000000u);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
}

/* Runs a work whose device_bytes are known. */
static enum gemmd_error run_work(struct device *device, struct work *work, struct fault *fault)
{
    struct arena *arena = device_arena(device);
    if (work->device_bytes > 0 && !arena_alloc(arena, work->device_bytes, &work->device_offset))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "device-bytes",
                         "%" PRIu64 " bytes of device memory do not suffice for one small product",
                         arena_capacity_bytes(arena));
    device_submit(device, work);
    wait_for_end(device, work);
    if (work->device_bytes > 0)
        arena_free(arena, work->device_offset);
    return work->status;
}

static enum gemmd_error overflow(struct fault *fault, const char *kernel)
{
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL,
                     "the kernel %s does not know how much memory it needs", kernel);
}

static enum gemmd_error run_one(struct device *device, const struct gemm_kernel *kernel,
                                const struct gemm_problem *problem, struct fault *fault)
{
    struct work work = {
        .problem = *problem, .kernel = kernel, .shares = device_shares(device, problem, kernel)};
    uint64_t row, column;
    if (!device_work_bytes(device, problem, kernel, &work.device_bytes))
        return overflow(fault, kernel->name);
    enum gemmd_error code = run_work(device, &work, fault);
    if (work.status != GEMMD_OK)
        return fault_set(fault, work.status, NULL, "the kernel %s (%s to %s) failed: %s",
                         kernel->name, dtype_name(problem->dtype), dtype_name(problem->out),
                         work.fault.detail);
    if (code == GEMMD_OK && !known_answer_check(problem, &row, &column))
        return fault_set(
            fault, GEMMD_ERR_DEVICE_LOST, NULL,
            "the kernel %s (%s to %s) computed a wrong element at row %" PRIu64 ", column %" PRIu64,
            kernel->name, dtype_name(problem->dtype), dtype_name(problem->out), row, column);
    return code;
}

static enum gemmd_error run_attention(struct device *device, const struct attention_kernel *kernel,
                                      const struct attention_problem *problem, struct fault *fault)
{
    struct work work = {.attention = *problem, .attends = kernel};
    uint64_t row, column;
    if (!device_attention_bytes(device, problem, kernel, &work.device_bytes))
        return overflow(fault, kernel->name);
    enum gemmd_error code = run_work(device, &work, fault);
    if (work.status != GEMMD_OK)
        return fault_set(fault, work.status, NULL, "the attention kernel %s (%s) failed: %s",
                         kernel->name, dtype_name(problem->dtype), work.fault.detail);
    if (code == GEMMD_OK && !known_attention_check(problem, &row, &column))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the attention kernel %s (%s) computed a wrong element at row %" PRIu64
                         ", column %" PRIu64,
                         kernel->name, dtype_name(problem->dtype), row, column);
    return code;
}

static enum gemmd_error run_types(struct device *device, const struct gemm_kernel *kernel,
                                  enum gemmd_dtype dtype, enum gemmd_dtype out, void *memory,
                                  struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (int transposed = 0; code == GEMMD_OK && transposed < 4; transposed++) {
        struct gemm_problem problem;
        known_answer_init(&problem, dtype, out, transposed & 1, transposed & 2, memory);
        if (kernel->takes(&problem))
            code = run_one(device, kernel, &problem, fault);
    }
    return code;
}

static enum gemmd_error run_kernel(struct device *device, const struct gemm_kernel *kernel,
                                   void *memory, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (int dtype = 0; code == GEMMD_OK && dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (int out = 0; code == GEMMD_OK && out < GEMMD_DTYPE_COUNT; out++)
            if (dtype_offers_out((enum gemmd_dtype)dtype, (enum gemmd_dtype)out))
                code = run_types(device, kernel, (enum gemmd_dtype)dtype, (enum gemmd_dtype)out,
                                 memory, fault);
    return code;
}

static enum gemmd_error run_attentions(struct device *device, const struct attention_kernel *kernel,
                                       void *memory, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (int i = 0; code == GEMMD_OK && i < 2 * GEMMD_DTYPE_COUNT; i++) {
        struct attention_problem problem;
        known_attention_init(&problem, (enum gemmd_dtype)(i / 2), i % 2, memory);
        if (kernel->takes(&problem))
            code = run_attention(device, kernel, &problem, fault);
    }
    return code;
}

enum gemmd_error self_test(struct device *device, struct fault *fault)
{
    enum {
        BYTES = (int)KNOWN_ANSWER_BYTES > (int)KNOWN_ATTENTION_BYTES ? KNOWN_ANSWER_BYTES
                                                                     : KNOWN_ATTENTION_BYTES
    };
    const struct gemm_device target = device_gemm(device);
    const enum gemm_backend backend = target.backend;
    void *memory = device_host_alloc(backend, BYTES, fault);
    if (memory == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    enum gemmd_error code = GEMMD_OK;
    const struct gemm_kernel *const *kernels = gemm_kernels(backend);
    for (uint32_t i = 0; code == GEMMD_OK && kernels[i] != NULL; i++)
        if (gemm_kernel_runs_on(kernels[i], &target))
            code = run_kernel(device, kernels[i], memory, fault);
    const struct attention_kernel *const *attention = attention_kernels(backend);
    for (uint32_t i = 0; code == GEMMD_OK && attention[i] != NULL; i++)
        if (attention_kernel_runs_on(attention[i], &target))
            code = run_attentions(device, attention[i], memory, fault);
    device_host_free(backend, memory, BYTES);
    return code;
}
