#include "server/device/self_test.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "server/base/clock.h"
#include "server/device/device_ops.h"

/* How long a launch may take before the device counts as lost. A first launch may load much code.
 */
static const uint64_t PATIENCE_NS = 20000000000u;

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

/* `shared`: in a shared launch of small problems, in place of a launch of its own. */
static enum gemmd_error run_task(struct device *device, const struct task *task, bool shared,
                                 struct fault *fault)
{
    const struct operation *operation = task->operation;
    const char *dtype = dtype_name(operation->dtype(&task->problem));
    struct work work = {.task = *task, .own_launch = !shared};
    uint64_t row, column;
    if (!device_plan(device, &work))
        return fail_of_size(fault, task->kernel->name);
    enum gemmd_error code = run_work(device, &work, fault);
    if (work.status != GEMMD_OK)
        return fault_set(fault, work.status, NULL, "the %s kernel %s (%s) failed: %s",
                         operation->name, task->kernel->name, dtype, work.fault.detail);
    if (code == GEMMD_OK && !operation->known.check(&task->problem, &row, &column))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the %s kernel %s (%s) computed a wrong element at row %" PRIu64
                         ", column %" PRIu64,
                         operation->name, task->kernel->name, dtype, row, column);
    return code;
}

/* Runs known problem number `number` of an operation with a kernel: in a launch of its own, and in
 * a shared launch if it is small. `is_new`: `memory` and `task` hold the problem, and no result
 * yet. */
static enum gemmd_error run_tasks(struct device *device, struct task *task, uint32_t number,
                                  bool is_new, void *memory, struct fault *fault)
{
    const struct operation_known *known = &task->operation->known;
    if (!is_new)
        known->init(number, memory, &task->problem);
    enum gemmd_error code = run_task(device, task, false, fault);
    if (code != GEMMD_OK || !device_shares_launch(device, task))
        return code;
    known->init(number, memory, &task->problem);
    return run_task(device, task, true, fault);
}

/* --- the kernels that are left out, and whether enough kernels remain --- */

/* Leaves out kernel number `number` of an operation. */
__attribute__((format(printf, 4, 5))) static void leave_out(struct device *device,
                                                            const struct operation *operation,
                                                            uint32_t number, const char *format,
                                                            ...)
{
    const enum gemm_backend backend = device->info.backend;
    struct device_left_out *left = &device->left_out[device->left_out_count++];
    assert(number < 32 && device->left_out_count <= DEVICE_KERNELS_MAX);
    left->kernel = operation_kernels(operation, backend)[number]->name;
    left->operation = operation->name;
    device->without[operation->number] |= UINT32_C(1) << number;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(left->reason, sizeof left->reason, format, arguments);
    va_end(arguments);
}

static bool is_named(const char *kernel, const char *name, size_t length)
{
    return strlen(kernel) == length && memcmp(kernel, name, length) == 0;
}

/* Whether a name is in a list of names with ", " between them. */
static bool is_listed(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = names; *p != '\0'; p += strspn(p, ", ")) {
        const size_t one = strcspn(p, ",");
        if (one == length && memcmp(p, name, length) == 0)
            return true;
        p += one;
    }
    return false;
}

/* Leaves out the kernels of that name, of all operations. Returns how many. */
static uint32_t leave_out_one(struct device *device, const char *name, size_t length)
{
    static const char reason[] = "--without-kernels names it";
    const struct gemm_device target = device_gemm(device);
    const uint32_t before = device->left_out_count;
    for (uint32_t o = 0; o < OPERATION_COUNT; o++) {
        const struct operation_kernel *const *of =
            operation_kernels(operation_table[o], target.backend);
        for (uint32_t i = 0; of[i] != NULL; i++)
            if (operation_kernel_runs_on(operation_table[o], of[i], &target) &&
                is_named(of[i]->name, name, length))
                leave_out(device, operation_table[o], i, "%s", reason);
    }
    return device->left_out_count - before;
}

static enum gemmd_error refuse_name(const struct device *device, const char *name, size_t length,
                                    struct fault *fault)
{
    const struct gemm_device target = device_gemm(device);
    char names[160] = "";
    for (uint32_t o = 0; o < OPERATION_COUNT; o++) {
        const struct operation_kernel *const *k =
            operation_kernels(operation_table[o], target.backend);
        for (; *k != NULL; k++) {
            const size_t used = strlen(names);
            if (operation_kernel_runs_on(operation_table[o], *k, &target) &&
                !is_listed(names, (*k)->name))
                snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "",
                         (*k)->name);
        }
    }
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "without-kernels",
                     "the %s backend has no kernel '%.*s' for --without-kernels; it has: %s",
                     gemm_backend_name(target.backend), (int)(length < 32 ? length : 32), name,
                     names);
}

/* Leaves out the kernels that the configuration names. */
static enum gemmd_error leave_out_named(struct device *device, const char *names,
                                        struct fault *fault)
{
    const char *name = names[0] != '\0' ? names : NULL, *end;
    for (; name != NULL; name = *end == ',' ? end + 1 : NULL) {
        end = name + strcspn(name, ",");
        if (leave_out_one(device, name, (size_t)(end - name)) == 0)
            return refuse_name(device, name, (size_t)(end - name), fault);
    }
    return GEMMD_OK;
}

/* Whether a failure concerns only this kernel, so that the kernel can be left out. If the kernel
 * has made the device lost, the fault names the option that leaves the kernel out. */
static bool is_of_kernel(const struct device *device, enum gemmd_error code, const char *kernel,
                         struct fault *fault)
{
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        return false;
    if (!device_lost(device))
        return true;
    const struct fault lost = *fault;
    fault_set(fault, code, "without-kernels", "%.400s; --without-kernels %s leaves the kernel out",
              lost.detail, kernel);
    return false;
}

/* Runs a known problem with every kernel that takes it and has not been left out. A problem is
 * written anew only for a kernel that takes it after another one. */
static enum gemmd_error test_problem(struct device *device, const struct operation *operation,
                                     uint32_t number, void *memory, struct fault *fault)
{
    const struct operation_kernel *const *kernels =
        operation_kernels(operation, device->info.backend);
    struct task task = {.operation = operation};
    bool is_new = true;
    operation->known.init(number, memory, &task.problem);
    for (uint32_t i = 0; kernels[i] != NULL; i++) {
        const struct gemm_device target = device_gemm(device);
        task.kernel = kernels[i];
        if (!operation_kernel_runs_on(operation, kernels[i], &target) ||
            !kernels[i]->takes(&task.problem))
            continue;
        const enum gemmd_error code = run_tasks(device, &task, number, is_new, memory, fault);
        is_new = false;
        if (code == GEMMD_OK)
            continue;
        if (!is_of_kernel(device, code, kernels[i]->name, fault))
            return code;
        leave_out(device, operation, i, "%s", fault->detail);
    }
    return GEMMD_OK;
}

static enum gemmd_error test_operation(struct device *device, const struct operation *operation,
                                       void *memory, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < operation->known.cases && code == GEMMD_OK; i++)
        code = test_problem(device, operation, i, memory, fault);
    return code;
}

/* Whether a problem that a kernel of the backend takes has no kernel left. */
static bool lacks_kernel(const struct device *device, const struct operation *operation,
                         const void *problem)
{
    const struct gemm_device now = device_gemm(device);
    struct gemm_device whole = now;
    const struct operation_kernel *kernel;
    whole.without[operation->number] = 0;
    return operation_select(operation, &whole, "auto", problem, &kernel, NULL) == GEMMD_OK &&
           operation_select(operation, &now, "auto", problem, &kernel, NULL) != GEMMD_OK;
}

/* The reason for which a kernel of an operation was left out last. */
static const char *last_reason(const struct device *device, const char *operation)
{
    uint32_t i = device->left_out_count - 1;
    while (i > 0 && strcmp(device->left_out[i].operation, operation) != 0)
        i--;
    return device->left_out[i].reason;
}

/* Checks that every problem of an operation still has a kernel. */
static enum gemmd_error check_operation(const struct device *device,
                                        const struct operation *operation, void *memory,
                                        struct fault *fault)
{
    union operation_problem problem;
    if (device->without[operation->number] == 0)
        return GEMMD_OK;
    for (uint32_t i = 0; i < operation->known.cases; i++) {
        operation->known.init(i, memory, &problem);
        if (lacks_kernel(device, operation, &problem))
            return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                             "no kernel is left for %s in %s: %s", operation->name,
                             dtype_name(operation->dtype(&problem)),
                             last_reason(device, operation->name));
    }
    return GEMMD_OK;
}

/* Checks that every problem the daemon offers still has a kernel. */
static enum gemmd_error check_rest(const struct device *device, void *memory, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < OPERATION_COUNT && code == GEMMD_OK; i++)
        code = check_operation(device, operation_table[i], memory, fault);
    return code;
}

enum gemmd_error self_test(struct device *device, const char *without, struct fault *fault)
{
    const enum gemm_backend backend = device->info.backend;
    struct fault ignored = {.detail = ""};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++)
        if (operation_table[i]->known.bytes > bytes)
            bytes = operation_table[i]->known.bytes;
    fault = fault != NULL ? fault
                          : &ignored; /* reasons of kernels that are left out are copied from it */
    void *memory = device_host_alloc(backend, bytes, fault);
    if (memory == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    enum gemmd_error code = without != NULL ? leave_out_named(device, without, fault) : GEMMD_OK;
    for (uint32_t i = 0; i < OPERATION_COUNT && code == GEMMD_OK; i++)
        code = test_operation(device, operation_table[i], memory, fault);
    if (code == GEMMD_OK)
        code = check_rest(device, memory, fault);
    device_host_free(backend, memory, bytes);
    return code;
}
