#include "simulated_device.h"

#include <stdlib.h>
#include <time.h>

static struct simulated_device *simulated(struct device *device)
{
    return (struct simulated_device *)device;
}

static void fail(struct work *works)
{
    for (struct work *work = works; work != NULL; work = work->next)
        work->status = fault_set(&work->fault, GEMMD_ERR_INTERNAL, NULL, "a simulated failure");
}

/* What goes wrong with a launch already as it is made. */
static void fall_over(struct device *device, struct work *works)
{
    for (struct work *work = works; work != NULL; work = work->next) {
        enum simulated_event event = ((struct simulated_work *)work)->at_submit;
        if (event == SIMULATED_LOST)
            device_set_lost(device, "a simulated loss");
        if (event == SIMULATED_FAILED)
            fail(works);
    }
}

/* A scripted work's own look. */
static enum simulated_event look_at_script(const struct work *work)
{
    union {
        const struct work *in;
        struct simulated_work *out;
    } scripted = {.in = work};
    if (scripted.out->at_submit != SIMULATED_RUNNING)
        return scripted.out->at_submit;
    if (atomic_load(&scripted.out->held))
        return SIMULATED_RUNNING;
    if (atomic_load(&scripted.out->looks) == 0)
        return atomic_load(&scripted.out->at_end);
    atomic_fetch_sub(&scripted.out->looks, 1);
    return SIMULATED_RUNNING;
}

static void simulated_submit(struct device *device, uint32_t slot, struct work *works)
{
    if (slot == device->slots) {
        atomic_fetch_add(&simulated(device)->probes, 1);
        return;
    }
    atomic_fetch_add(&simulated(device)->launches, 1);
    for (const struct work *work = works; work != NULL; work = work->next)
        atomic_fetch_add(&simulated(device)->submitted, 1);
    if (simulated(device)->scripted)
        fall_over(device, works);
}

static void simulated_compute(struct device *device, uint32_t slot, struct work *work)
{
    simulated_submit(device, slot, work);
    while (slot != device->slots && simulated(device)->look(work) == SIMULATED_RUNNING)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Row by row, in f32. */
static void compute(const struct gemm_problem *problem)
{
    const float *a = problem->a, *b = problem->b;
    float *c = problem->c;
    for (uint64_t i = 0; i < problem->m; i++)
        for (uint64_t j = 0; j < problem->n; j++) {
            float sum = 0;
            for (uint64_t l = 0; l < problem->k; l++)
                sum += a[i * problem->lda + l] * b[l * problem->ldb + j];
            c[i * problem->ldc + j] = sum;
        }
}

static bool poll_probe(struct device *device, const struct work *work)
{
    enum simulated_probe probe = atomic_load(&simulated(device)->probe);
    if (probe == SIMULATED_PROBE_RIGHT)
        compute(&work->problem);
    return probe != SIMULATED_PROBE_SILENT;
}

/* A launch runs as long as one of its works does, and fails as a whole. */
static enum simulated_event look_at_all(struct device *device, const struct work *works)
{
    enum simulated_event all = SIMULATED_DONE;
    for (; works != NULL; works = works->next) {
        enum simulated_event one = simulated(device)->look(works);
        if (one == SIMULATED_RUNNING)
            return one;
        if (one > all)
            all = one;
    }
    return all;
}

static bool simulated_poll(struct device *device, uint32_t slot, struct work *works)
{
    if (slot == device->slots)
        return poll_probe(device, works);
    enum simulated_event event = look_at_all(device, works);
    if (event == SIMULATED_LOST)
        device_set_lost(device, "a simulated loss");
    if (event == SIMULATED_FAILED)
        fail(works);
    for (struct work *work = works; work != NULL; work = work->next) {
        work->h2d_ns = 1000;
        work->kernel_ns = 2000;
        work->d2h_ns = 3000;
    }
    return event != SIMULATED_RUNNING;
}

static void simulated_close(struct device *device)
{
    arena_destroy(device->arena);
    free(device);
}

static bool simulated_work_bytes(const struct device *device, const struct gemm_problem *problem,
                                 const struct gemm_kernel *kernel, uint64_t *out)
{
    (void)device;
    (void)problem;
    (void)kernel;
    *out = 4096;
    return true;
}

static bool simulated_shares(const struct gemm_problem *problem, const struct gemm_kernel *kernel)
{
    (void)kernel;
    return gemm_is_small(problem);
}

static const struct device_ops simulated_ops = {
    .submit = simulated_submit,
    .poll = simulated_poll,
    .close = simulated_close,
    .work_bytes = simulated_work_bytes,
    .shares = simulated_shares,
};

static const struct device_ops computing_ops = {
    .submit = simulated_compute,
    .poll = simulated_poll,
    .close = simulated_close,
    .computes_in_submit = true,
    .work_bytes = simulated_work_bytes,
};

static struct simulated_device *make(const struct device_ops *ops, uint32_t slots,
                                     enum simulated_event (*look)(const struct work *))
{
    struct simulated_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device_init(&device->base, ops, slots);
    device->base.info.backend = GEMM_BACKEND_CPU;
    device->base.arena = arena_create(1 << 20);
    device->look = look;
    return device;
}

struct simulated_device *simulated_device_open(uint32_t slots,
                                               enum simulated_event (*look)(const struct work *))
{
    return make(&simulated_ops, slots, look);
}

struct simulated_device *simulated_device_open_scripted(uint32_t slots)
{
    struct simulated_device *device = make(&simulated_ops, slots, look_at_script);
    if (device != NULL)
        device->scripted = true;
    return device;
}

struct simulated_device *
    simulated_device_open_computing(enum simulated_event (*look)(const struct work *))
{
    return make(&computing_ops, 1, look);
}
