#include "server/device/self_test.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/dtype.h"
#include "server/base/clock.h"
#include "server/device/device_ops.h"
#include "server/device/known_answer.h"
#include "server/device/known_attention.h"

static const uint64_t PATIENCE_NS = 20000000000u; /* a first launch may load much code */

/* Waits for the only work in flight. A device that does not answer in time is set lost, which ends
 * the work. */
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

/* Runs a work whose device_bytes are set. */
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

static enum gemmd_error fail_of_size(struct fault *fault, const char *kernel)
{
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL,
                     "the kernel %s does not know how much memory it needs", kernel);
}

static enum gemmd_error run_one(struct device *device, const struct gemm_kernel *kernel,
                                const struct gemm_problem *problem, struct fault *fault)
{
    struct work work = {.problem = *problem,
                        .kernel = kernel,
                        .shared_launch = device_can_share_launch(device, problem, kernel)};
    uint64_t row, column;
    if (!device_work_bytes(device, problem, kernel, &work.device_bytes))
        return fail_of_size(fault, kernel->name);
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
    struct work work = {.attention = *problem, .attention_kernel = kernel};
    uint64_t row, column;
    if (!device_attention_bytes(device, problem, kernel, &work.device_bytes))
        return fail_of_size(fault, kernel->name);
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

/* --- what is left out, and whether enough is left --- */

__attribute__((format(printf, 4, 5))) static void
leave_out(struct device *device, uint32_t number, bool is_attention, const char *format, ...)
{
    const enum gemm_backend backend = device->info.backend;
    struct device_left_out *left = &device->left_out[device->left_out_count++];
    assert(number < 32 && device->left_out_count <= DEVICE_KERNELS_MAX);
    left->kernel = is_attention ? attention_kernels(backend)[number]->name
                                : gemm_kernels(backend)[number]->name;
    left->is_attention = is_attention;
    *(is_attention ? &device->without_attention : &device->without_gemm) |= UINT32_C(1) << number;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(left->reason, sizeof left->reason, format, arguments);
    va_end(arguments);
}

static bool is_named(const char *kernel, const char *name, size_t length)
{
    return strlen(kernel) == length && memcmp(kernel, name, length) == 0;
}

/* Leaves out the kernels of that name, for products and for attentions. Returns how many. */
static uint32_t leave_out_one(struct device *device, const char *name, size_t length)
{
    static const char reason[] = "--without-kernels names it";
    const struct gemm_device target = device_gemm(device);
    const struct gemm_kernel *const *kernels = gemm_kernels(target.backend);
    const struct attention_kernel *const *attention = attention_kernels(target.backend);
    const uint32_t before = device->left_out_count;
    for (uint32_t i = 0; kernels[i] != NULL; i++)
        if (gemm_kernel_runs_on(kernels[i], &target) && is_named(kernels[i]->name, name, length))
            leave_out(device, i, false, "%s", reason);
    for (uint32_t i = 0; attention[i] != NULL; i++)
        if (attention_kernel_runs_on(attention[i], &target) &&
            is_named(attention[i]->name, name, length))
            leave_out(device, i, true, "%s", reason);
    return device->left_out_count - before;
}

/* Leaves out the kernels that the configuration names. */
static enum gemmd_error leave_out_named(struct device *device, const char *names,
                                        struct fault *fault)
{
    const char *name = names[0] != '\0' ? names : NULL, *end;
    for (; name != NULL; name = *end == ',' ? end + 1 : NULL) {
        end = name + strcspn(name, ",");
        if (leave_out_one(device, name, (size_t)(end - name)) == 0)
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "without-kernels",
                             "--without-kernels: this device has no kernel '%.*s'",
                             (int)(end - name < 64 ? end - name : 64), name);
    }
    return GEMMD_OK;
}

/* Whether a failure is one of this kernel alone, so that the kernel can be left out. If a kernel
 * has lost the device, the fault names the option that leaves the kernel out. */
static bool is_of_kernel(const struct device *device, enum gemmd_error code, const char *kernel,
                         struct fault *fault)
{
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        return false;
    if (!device_lost(device))
        return true;
    const struct fault lost = *fault;
    fault_set(fault, code, "without-kernels", "%.400s; --without-kernels %s does without it",
              lost.detail, kernel);
    return false;
}

static enum gemmd_error test_gemm(struct device *device, void *memory, struct fault *fault)
{
    const struct gemm_device target = device_gemm(device);
    const struct gemm_kernel *const *kernels = gemm_kernels(target.backend);
    for (uint32_t i = 0; kernels[i] != NULL; i++) {
        if (!gemm_kernel_runs_on(kernels[i], &target))
            continue;
        const enum gemmd_error code = run_kernel(device, kernels[i], memory, fault);
        if (code == GEMMD_OK)
            continue;
        if (!is_of_kernel(device, code, kernels[i]->name, fault))
            return code;
        leave_out(device, i, false, "%s", fault->detail);
    }
    return GEMMD_OK;
}

static enum gemmd_error test_attention(struct device *device, void *memory, struct fault *fault)
{
    const struct gemm_device target = device_gemm(device);
    const struct attention_kernel *const *kernels = attention_kernels(target.backend);
    for (uint32_t i = 0; kernels[i] != NULL; i++) {
        if (!attention_kernel_runs_on(kernels[i], &target))
            continue;
        const enum gemmd_error code = run_attentions(device, kernels[i], memory, fault);
        if (code == GEMMD_OK)
            continue;
        if (!is_of_kernel(device, code, kernels[i]->name, fault))
            return code;
        leave_out(device, i, true, "%s", fault->detail);
    }
    return GEMMD_OK;
}

/* Whether a problem that a kernel of the backend takes has no kernel left. */
static bool lacks_gemm(const struct device *device, const struct gemm_problem *problem)
{
    const struct gemm_device now = device_gemm(device);
    struct gemm_device whole = now;
    const struct gemm_kernel *kernel;
    whole.without_gemm = 0;
    return gemm_select(&whole, "auto", problem, &kernel, NULL) == GEMMD_OK &&
           gemm_select(&now, "auto", problem, &kernel, NULL) != GEMMD_OK;
}

static bool lacks_attention(const struct device *device, const struct attention_problem *problem)
{
    const struct gemm_device now = device_gemm(device);
    struct gemm_device whole = now;
    const struct attention_kernel *kernel;
    whole.without_attention = 0;
    return attention_select(&whole, "auto", problem, &kernel, NULL) == GEMMD_OK &&
           attention_select(&now, "auto", problem, &kernel, NULL) != GEMMD_OK;
}

/* Checks that every problem the daemon offers still has a kernel. */
static enum gemmd_error check_rest(const struct device *device, void *memory, struct fault *fault)
{
    for (int i = 0; device->without_gemm != 0 && i < 4 * GEMMD_DTYPE_COUNT * GEMMD_DTYPE_COUNT;
         i++) {
        const enum gemmd_dtype dtype = (enum gemmd_dtype)(i / 4 / GEMMD_DTYPE_COUNT);
        const enum gemmd_dtype out = (enum gemmd_dtype)(i / 4 % GEMMD_DTYPE_COUNT);
        struct gemm_problem problem;
        if (!dtype_offers_out(dtype, out))
            continue;
        known_answer_init(&problem, dtype, out, i & 1, i & 2, memory);
        if (lacks_gemm(device, &problem))
            return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                             "no kernel is left for products of %s to %s: %s", dtype_name(dtype),
                             dtype_name(out), device->left_out[0].reason);
    }
    for (int i = 0; device->without_attention != 0 && i < 2 * GEMMD_DTYPE_COUNT; i++) {
        struct attention_problem problem;
        known_attention_init(&problem, (enum gemmd_dtype)(i / 2), i % 2, memory);
        if (lacks_attention(device, &problem))
            return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                             "no kernel is left for attention in %s: %s", dtype_name(problem.dtype),
                             device->left_out[device->left_out_count - 1].reason);
    }
    return GEMMD_OK;
}

enum gemmd_error self_test(struct device *device, const char *without, struct fault *fault)
{
    enum {
        BYTES = (int)KNOWN_ANSWER_BYTES > (int)KNOWN_ATTENTION_BYTES ? KNOWN_ANSWER_BYTES
                                                                     : KNOWN_ATTENTION_BYTES
    };
    const enum gemm_backend backend = device->info.backend;
    struct fault ignored = {.detail = ""};
    fault = fault != NULL ? fault
                          : &ignored; /* reasons of kernels that are left out are copied from it */
    void *memory = device_host_alloc(backend, BYTES, fault);
    if (memory == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    enum gemmd_error code = without != NULL ? leave_out_named(device, without, fault) : GEMMD_OK;
    if (code == GEMMD_OK)
        code = test_gemm(device, memory, fault);
    if (code == GEMMD_OK)
        code = test_attention(device, memory, fault);
    if (code == GEMMD_OK)
        code = check_rest(device, memory, fault);
    device_host_free(backend, memory, BYTES);
    return code;
}
