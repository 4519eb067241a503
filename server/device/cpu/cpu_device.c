/* The CPU of the host as a device. It has one slot, and computes inside device_submit. A long
 * launch pauses between two parts, and the thread that submits then computes short launches by
 * itself, while the other threads go on with parts of the long one. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "kernels/cpu/cpu_context.h"
#include "server/base/clock.h"
#include "server/device/device_ops.h"
#include "server/device/device_stack.h"
#include "server/device/memory/memory_limit.h"

/* What a launch list is computed with. */
struct cpu_lane {
    struct gemm_context *context;
    unsigned char *stack_memory;            /* the workspace of stacks, in `memory` of the device */
    double residuals[OPERATION_STACK_ROWS]; /* of the rows of a stack that was checked */
};

struct cpu_device {
    struct device base;
    /* Of launches with all threads, and of those in the pauses of a launch, in one thread. */
    struct cpu_lane all, between;
    bool pauses;
    unsigned char *memory; /* the arena's span, for workspaces; then those of stacks */
    uint64_t memory_bytes;
    void *tensors; /* tensor memory */
};

void *device_cpu_host_alloc(uint64_t bytes, struct fault *fault)
{
    /* The system reserves no swap space, and allocates pages when they are first written. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "the system does not give %" PRIu64 " bytes of memory", bytes);
        return NULL;
    }
    return memory;
}

void device_cpu_host_free(void *memory, uint64_t bytes)
{
    munmap(memory, bytes);
}

static bool cpu_task_bytes(const struct device *device, const struct task *task, uint64_t *out)
{
    (void)device;
    return task->kernel->workspace_bytes(&task->problem, out);
}

static enum gemmd_error run_group(const struct cpu_device *cpu, const struct cpu_lane *lane,
                                  const struct work *works)
{
    _Static_assert((int)DEVICE_LAUNCH_WORKS_MAX <= (int)OPERATION_GROUP_MAX,
                   "a launch list fits in a group");
    struct operation_member members[DEVICE_LAUNCH_WORKS_MAX];
    uint32_t count = 0;
    for (const struct work *work = works; work != NULL; work = work->next)
        members[count++] = (struct operation_member){
            &work->task.problem, work->device_bytes > 0 ? cpu->memory + work->device_offset : NULL};
    return works->task.kernel->run_group(lane->context, members, count);
}

static enum gemmd_error run_stack(struct cpu_lane *lane, struct work *works)
{
    const enum gemmd_error code =
        device_stack_run(lane->context, works, lane->residuals, lane->stack_memory);
    if (code == GEMMD_OK)
        device_stack_judge(works, lane->residuals);
    return code;
}

static enum gemmd_error run_alone(const struct cpu_device *cpu, const struct cpu_lane *lane,
                                  struct work *work)
{
    const struct task *task = &work->task;
    unsigned char *memory = work->device_bytes > 0 ? cpu->memory + work->device_offset : NULL;
    enum gemmd_error code = operation_run(task->kernel, lane->context, &task->problem, memory);
    if (code != GEMMD_OK || work->verify == WORK_UNVERIFIED)
        return code;
    unsigned char *check = cpu->memory + work->device_offset + work->check_offset;
    code = task->operation->check(lane->context, &task->problem, work->verify_seed, check);
    memcpy(&work->residual, check, sizeof work->residual);
    return code;
}

/* A launch list that is copied and computed. */
struct cpu_launch {
    struct cpu_device *cpu;
    struct cpu_lane *lane;
    struct work *works;
    pthread_t submitter;
    /* Of the submitter alone: */
    struct device_pauses pauses;
    uint64_t copied; /* bytes since the last call of cpu_launch_stops */
};

/* Whether nobody waits for the result of any work of a launch. The threads that compute call this
 * function between two parts; the thread that submits pauses here. */
static bool cpu_launch_stops(void *argument)
{
    struct cpu_launch *launch = argument;
    struct cpu_device *cpu = launch->cpu;
    const uint64_t now_ns = clock_now_ns();
    const bool may_pause = cpu->pauses && launch->lane == &cpu->all;
    device_note_progress(&cpu->base);
    for (const struct work *work = launch->works; work != NULL; work = work->next)
        if (!work_is_useless(work, now_ns)) {
            if (may_pause && pthread_equal(pthread_self(), launch->submitter))
                device_pause(&cpu->base, launch->works, &launch->pauses, now_ns);
            return false;
        }
    return true;
}

/* How long the launch has taken so far, without its pauses. */
static uint64_t launch_ns(const struct cpu_launch *launch)
{
    return clock_now_ns() - launch->works->started_ns - launch->pauses.paused_ns;
}

/* A memory that is written for the first time takes some milliseconds for each piece. */
enum { COPY_PIECE = 1 << 20 };

/* Copies rows piece by piece. False: the launch stops. */
static bool copy_rows(struct cpu_launch *launch, const struct work_copy *copy)
{
    for (uint64_t row = 0; row < copy->rows; row++) {
        const char *from = (const char *)copy->from + row * copy->from_pitch;
        char *to = (char *)copy->to + row * copy->to_pitch;
        for (uint64_t at = 0; at < copy->row_bytes; at += COPY_PIECE) {
            const uint64_t left = copy->row_bytes - at;
            const uint64_t bytes = left < COPY_PIECE ? left : COPY_PIECE;
            memcpy(to + at, from + at, bytes);
            launch->copied += bytes;
            if (launch->copied < COPY_PIECE)
                continue;
            launch->copied = 0;
            if (cpu_launch_stops(launch))
                return false;
        }
    }
    return true;
}

/* The copies before the computation. False: the launch stops. */
static bool copy_in(struct cpu_launch *launch)
{
    const struct work *first = launch->works;
    for (uint32_t i = 0; i < first->first_copy_count; i++)
        if (!copy_rows(launch, &first->first_copies[i]))
            return false;
    for (const struct work *work = first; work != NULL; work = work->next)
        for (uint32_t i = 0; i < work->sequence_copy_count; i++)
            if (!copy_rows(launch, &work->sequence_copies[i]))
                return false;
    return true;
}

/* Computes the results. False: the launch stops. */
static bool cpu_compute(struct cpu_launch *launch)
{
    struct cpu_lane *lane = launch->lane;
    struct work *works = launch->works;
    cpu_watch_begin(lane->context, cpu_launch_stops, launch);
    const enum gemmd_error code = works->join_key == 0     ? run_alone(launch->cpu, lane, works)
                                  : work_is_stacked(works) ? run_stack(lane, works)
                                                           : run_group(launch->cpu, lane, works);
    const bool stopped = cpu_watch_end(lane->context);
    const uint64_t kernel_ns = launch_ns(launch);
    for (struct work *work = works; work != NULL; work = work->next) {
        work->kernel_ns = kernel_ns;
        work->status = code;
        if (code != GEMMD_OK)
            fault_set(&work->fault, code, NULL, "the kernel %s failed on the CPU",
                      work_kernel_name(work));
    }
    return code != GEMMD_OK || !stopped;
}

/* The copies after the computation, or of a work that computes nothing. False: the launch stops. */
static bool copy_out(struct cpu_launch *launch)
{
    for (struct work *work = launch->works; work != NULL; work = work->next)
        for (uint32_t i = 0; i < work->copy_count && work->status == GEMMD_OK; i++)
            if (!copy_rows(launch, &work->copies[i]))
                return false;
    return true;
}

static void cpu_submit(struct device *device, uint32_t slot, struct work *works)
{
    struct cpu_device *cpu = (struct cpu_device *)device;
    struct cpu_launch launch = {.cpu = cpu,
                                .lane = device_slot_is_between(device, slot) ? &cpu->between
                                                                             : &cpu->all,
                                .works = works,
                                .submitter = pthread_self(),
                                .pauses.resumed_ns = works->started_ns};
    const bool is_complete =
        copy_in(&launch) && (work_is_copy(works) || cpu_compute(&launch)) && copy_out(&launch);
    if (work_is_copy(works))
        works->d2h_ns = launch_ns(&launch);
    for (struct work *work = works; work != NULL && !is_complete; work = work->next)
        work_set_stopped(work);
}

static bool cpu_poll(struct device *device, uint32_t slot, struct work *work)
{
    (void)device;
    (void)slot;
    (void)work;
    return true;
}

static void cpu_close(struct device *device)
{
    struct cpu_device *cpu = (struct cpu_device *)device;
    if (cpu->between.context != NULL)
        gemm_context_destroy(cpu->between.context);
    if (cpu->all.context != NULL)
        gemm_context_destroy(cpu->all.context);
    arena_destroy(cpu->base.arena);
    if (cpu->memory != NULL)
        device_cpu_host_free(cpu->memory, cpu->memory_bytes);
    if (cpu->tensors != NULL)
        device_cpu_host_free(cpu->tensors, cpu->base.tensors.bytes);
    free(cpu);
}

static void cpu_tile(const struct device *device, const struct task *task,
                     struct operation_tile *out)
{
    const struct cpu_device *cpu = (const struct cpu_device *)device;
    task->kernel->tile(cpu->all.context, &task->problem, out);
}

static const struct device_ops cpu_ops = {
    .submit = cpu_submit,
    .poll = cpu_poll,
    .close = cpu_close,
    .computes_in_submit = true,
    .task_bytes = cpu_task_bytes,
    .tile = cpu_tile,
    .groups = true,
};

/* "model name	: AMD EPYC ..." of /proc/cpuinfo, where the architecture has that line. */
static void read_cpu_name(char *out, size_t capacity)
{
    static const char key[] = "model name";
    char line[256];
    snprintf(out, capacity, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, capacity, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

static void cpu_describe(struct device_info *info)
{
    struct utsname host;
    *info = (struct device_info){.backend = GEMM_BACKEND_CPU,
                                 .memory_total_bytes = memory_limit_bytes()};
    read_cpu_name(info->name, sizeof info->name);
    if (uname(&host) == 0)
        snprintf(info->arch, sizeof info->arch, "%.15s", host.machine);
}

/* Allocates memory whose size an option sets. */
static void *alloc_for(uint64_t bytes, const char *option, struct fault *fault)
{
    void *memory = device_cpu_host_alloc(bytes, fault);
    if (memory == NULL)
        snprintf(fault->field, sizeof fault->field, "%s", option);
    return memory;
}

enum gemmd_error device_cpu_open(const struct device_options *options, struct device **device,
                                 struct fault *fault)
{
    struct cpu_device *cpu = calloc(1, sizeof *cpu);
    enum gemmd_error code = GEMMD_ERR_OUT_OF_MEMORY;
    if (cpu == NULL)
        return fault_set(fault, code, NULL, "no memory for the device");
    device_init(&cpu->base, &cpu_ops, 1);
    cpu_describe(&cpu->base.info);
    cpu->base.info.index = options->index;
    cpu->pauses = options->cpu_pauses;

    cpu->memory_bytes =
        options->memory_bytes != 0 ? options->memory_bytes : cpu->base.info.memory_total_bytes / 4;
    cpu->memory = alloc_for(cpu->memory_bytes, "device-bytes", fault);
    if (cpu->memory == NULL)
        goto failed;
    cpu->base.stack_bytes = device_stack_bytes(cpu->memory_bytes, options->tensor_bytes);
    const uint64_t arena_bytes = (cpu->memory_bytes - 2 * cpu->base.stack_bytes) /
                                 DEVICE_LAYOUT_ALIGNMENT * DEVICE_LAYOUT_ALIGNMENT;
    cpu->all.stack_memory = cpu->memory + arena_bytes;
    cpu->between.stack_memory = cpu->all.stack_memory + cpu->base.stack_bytes;
    cpu->base.arena = arena_create(arena_bytes);
    if (cpu->base.arena == NULL) {
        fault_set(fault, code, NULL, "no memory for the records of %" PRIu64 " bytes", arena_bytes);
        goto failed;
    }
    if (options->tensor_bytes > 0) {
        cpu->tensors = alloc_for(options->tensor_bytes, "tensor-bytes", fault);
        if (cpu->tensors == NULL)
            goto failed;
        cpu->base.tensors = (struct device_span){cpu->tensors, options->tensor_bytes};
    }
    code =
        gemm_context_create(GEMM_BACKEND_CPU, NULL, options->cpu_threads, &cpu->all.context, fault);
    if (code == GEMMD_OK)
        code = cpu_context_beside(&cpu->between.context, fault);
    if (code != GEMMD_OK)
        goto failed;
    cpu_roofs_measure(cpu->all.context, cpu->base.info.peak_flops,
                      &cpu->base.info.peak_memory_bytes);
    *device = &cpu->base;
    return GEMMD_OK;

failed:
    cpu_close(&cpu->base);
    return code;
}
