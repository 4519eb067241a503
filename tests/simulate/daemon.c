#include "tests/simulate/daemon.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "server/observe/log.h"
#include "tests/simulate/requests.h"
#include "tests/simulate/threads.h"

static const uint64_t TICK_NS = 20000000, AUDIT_NS = 10000000, DRAIN_MAX_NS = 60000000000u;
enum { TICKS_PER_CHECK = 10, SLOTS = 3, PROBE_MS = 500 };
enum { POOL_BYTES = 48 << 20, MEMORY_BYTES = 32 << 20, TENSOR_BYTES = 1 << 20 };

/* Memory of a daemon, at the same address in every run: a seed decides all that happens. */
struct daemon_memory {
    unsigned char pool[POOL_BYTES];
    unsigned char device[DEVICES_SIMULATED][MEMORY_BYTES];
    unsigned char tensors[DEVICES_SIMULATED][TENSOR_BYTES];
};
static struct daemon_memory *memories;

static struct daemon_memory *memory_of(const struct daemon *daemon)
{
    if (memories == NULL)
        memories = mmap((void *)0x200000000000, SLOTS * sizeof *memories, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memories == MAP_FAILED)
        fail("there is no memory for the daemon");
    return &memories[daemon->number % SLOTS];
}

/* Lines of the log become lines of the trace: the linker sends the calls here (-Wl,--wrap). */
void __wrap_log_event(struct log *log, enum config_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void __wrap_log_event(struct log *log, enum config_log_level level, const char *format, ...)
{
    char text[512];
    va_list arguments;
    (void)log, (void)level;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    trace("log: %s", text);
}

/* ---- I/O threads ---- */

static void io_stop(struct inbox_message *message)
{
    OWNER_OF(message, struct io_thread, stop)->stopping = true;
}

static void io_run(void *argument)
{
    struct io_thread *io = argument;
    for (;;) {
        inbox_act(&io->inbox);
        const uint64_t due_ns = requests_advance(io);
        if (io->stopping && io->requests == NULL)
            break;
        const uint64_t now = now_ns();
        if (due_ns > now)
            inbox_wait(&io->inbox, NULL, 0,
                       due_ns == UINT64_MAX ? -1 : (int)((due_ns - now + 999999) / 1000000));
    }
    pool_cache_destroy(io->memory);
    io->ended = true;
}

/* ---- checks ---- */

static void audit_admission(const struct daemon *daemon)
{
    const struct admission_limits *limits = &daemon->traits.limits;
    /* A job that was cancelled counts too. Its count is taken first, because that may take time. */
    const uint32_t jobs = jobs_unfinished(daemon->services.jobs);
    const struct admission_held held = admission_held(daemon->services.admission);
    if (held.requests > daemon->active + jobs)
        fail("%llu requests hold reservations; %u requests and %u jobs are not over",
             (unsigned long long)held.requests, daemon->active, jobs);
    if (daemon->traits.reloads > 0) /* which leave reservations beyond lowered limits */
        return;
    if (held.requests > limits->requests || held.bytes > limits->bytes)
        fail("%llu requests and %llu bytes are reserved, which is more than the limits allow",
             (unsigned long long)held.requests, (unsigned long long)held.bytes);
    for (uint32_t i = 0; limits->tenant_requests > 0 && i < limits->tenants; i++)
        if (admission_held_by(daemon->services.admission, i).requests > limits->tenant_requests)
            fail("tenant %u has more reservations than its limit allows", i);
}

/* Notes since when a device has had works all the time and has finished none. */
static void audit_progress(struct daemon *daemon, uint32_t i)
{
    const struct device *device = &daemon->devices[i]->base;
    const uint64_t progress = device_progress(device);
    const bool busy = device_in_flight(device) > 0 || daemon->orders[i].count > 0;
    if (!busy || progress != daemon->progress[i])
        daemon->still_since_ns[i] = now_ns();
    daemon->progress[i] = progress;
}

/* A device that has just been looked at counts as stalled exactly if it has had works all the time
 * and has finished none for longer than the limit. The first look at a change may be at fault. */
static void check_stall(struct daemon *daemon, uint32_t i)
{
    const struct executor *executor = &daemon->services.executors.list[i];
    const uint64_t limit_ns = daemon->traits.stall_limit_ns, look_ns = TICKS_PER_CHECK * TICK_NS;
    const uint64_t stalled_ns = dispatch_stalled_ns(executor->dispatch);
    const uint64_t still_ns = now_ns() - daemon->still_since_ns[i];
    const bool wrong = stalled_ns > 0
                           ? still_ns + look_ns < limit_ns
                           : still_ns > limit_ns + 2 * look_ns && !device_lost(executor->device);
    daemon->wrong_looks[i] = wrong ? daemon->wrong_looks[i] + 1 : 0;
    if (daemon->wrong_looks[i] > 1)
        fail("device %u has had work and finished nothing for %llu ms, and counts as stalled for "
             "%llu ms",
             i, (unsigned long long)still_ns / 1000000, (unsigned long long)stalled_ns / 1000000);
}

static void audit_run(void *argument)
{
    struct daemon *daemon = argument;
    while (!daemon->ended) {
        if (daemon->services.executors.count == 0)
            break;
        audit_admission(daemon);
        for (uint32_t i = 0; i < daemon->traits.devices; i++) {
            const struct device *device = &daemon->devices[i]->base;
            /* The last stream is not for every work. */
            const bool room[LANES] = {device_has_room(device) && !device_has_last_room(device),
                                      device_has_shared_room(device)};
            order_audit(&daemon->orders[i], room);
            audit_progress(daemon, i);
        }
        sleep_ns(AUDIT_NS);
    }
}

/* Nothing is held any more. */
static void check_all_given_back(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    struct jobs_counts jobs = jobs_counts(services->jobs);
    const struct admission_held held = admission_held(services->admission);
    if (held.requests != 0 || held.bytes != 0)
        fail("after the drain %llu requests and %llu bytes are reserved",
             (unsigned long long)held.requests, (unsigned long long)held.bytes);
    for (uint32_t i = 0; i < daemon->traits.tenants; i++) {
        const struct admission_held of = admission_held_by(services->admission, i);
        if (of.requests != 0 || of.bytes != 0)
            fail("after the drain tenant %u holds a reservation", i);
    }
    for (uint32_t i = 0; i < daemon->traits.devices; i++) {
        struct executor *executor = &services->executors.list[i];
        if (executor->charged_ns != 0)
            fail("after the drain device %u is charged with %llu ns", i,
                 (unsigned long long)executor->charged_ns);
        if (daemon->orders[i].count != 0)
            fail("after the drain %u works have not ended", daemon->orders[i].count);
    }
    if (jobs.states[JOB_QUEUED] + jobs.states[JOB_RUNNING] + jobs.states[JOB_RECEIVING] > 0)
        fail("after the drain jobs are unfinished");
}

/* Every wrong result was noticed, and no other. */
static void check_verified(const struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->traits.devices; i++) {
        const struct verify_counts *counts =
            dispatch_verify_counts(daemon->services.executors.list[i].dispatch);
        const uint64_t noticed = counts->count[WORK_VERIFY_ASKED][VERIFY_FAIL] +
                                 counts->count[WORK_VERIFY_SAMPLED][VERIFY_FAIL];
        if (noticed != daemon->devices[i]->wrong_results)
            fail("device %u has computed %llu wrong results, of which %llu count as noticed", i,
                 (unsigned long long)daemon->devices[i]->wrong_results,
                 (unsigned long long)noticed);
    }
}

/* Once the dispatch threads have ended, which may still have had early copies to end. */
static void check_device_memory(const struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->traits.devices; i++) {
        const uint64_t used = arena_used_bytes(device_arena(&daemon->devices[i]->base));
        if (used != daemon->memory_at_start[i])
            fail("after the drain %llu bytes of the memory of device %u are used",
                 (unsigned long long)used, i);
    }
}

/* ---- probes ---- */

static void probe_answered(struct probe_wait *wait)
{
    struct prober *prober = (struct prober *)wait;
    const struct simulated_device *device = prober->daemon->devices[prober->device];
    if (prober->asked_ns == 0)
        fail("a probe of device %u is answered twice", prober->device);
    if (!wait->right && !prober->daemon->closing && !device_lost(&device->base) &&
        device->stalled_until_ns < prober->asked_ns)
        fail("device %u, which computes, does not count as ready: %s", prober->device,
             wait->reason);
    prober->asked_ns = 0;
}

static void probe(struct daemon *daemon, uint32_t i)
{
    struct prober *prober = &daemon->probers[i];
    if (prober->asked_ns != 0) {
        if (now_ns() > prober->asked_ns + PROBE_MS * 1000000u + 3 * TICK_NS)
            fail("a probe of device %u has no answer", i);
        return;
    }
    *prober = (struct prober){
        .wait.done = probe_answered, .daemon = daemon, .device = i, .asked_ns = now_ns()};
    if (dispatch_probe(daemon->services.executors.list[i].dispatch, &prober->wait, PROBE_MS))
        prober->asked_ns = 0;
}

/* ---- the timer, as in main_loop.c ---- */

static void notice_losses(struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->traits.devices; i++)
        if (!daemon->knows_lost[i] && device_lost(&daemon->devices[i]->base)) {
            tensor_store_lose_device(daemon->services.tensors, i);
            daemon->knows_lost[i] = true;
        }
}

/* New limits, as after SIGHUP. */
static void reload(struct daemon *daemon)
{
    struct admission_limits limits = daemon->traits.limits;
    limits.requests = 2 + (uint32_t)draw(limits.requests);
    limits.tenant_requests = draw(2) == 0 ? 0 : 1 + (uint32_t)draw(limits.requests);
    trace("reload: %u requests, %u of a tenant", limits.requests, limits.tenant_requests);
    admission_set_limits(daemon->services.admission, &limits);
    jobs_set_tenant_limits(daemon->services.jobs, (uint32_t)draw(8), 0);
    tensor_store_set_tenant_bytes(daemon->services.tensors, draw(2) * (16 << 10));
}

static void tick(struct daemon *daemon, uint32_t ticks)
{
    struct services *services = &daemon->services;
    const uint64_t now = now_ns();
    executors_expire(&services->executors, now);
    job_thread_check(services->job_thread, now);
    notice_losses(daemon);
    if (draw_one_in(daemon->traits.reloads))
        reload(daemon);
    if (ticks % TICKS_PER_CHECK != 0)
        return;
    admission_sample(services->admission, now);
    jobs_sample(services->jobs, now);
    executors_look(&services->executors, now);
    for (uint32_t i = 0; i < daemon->traits.devices; i++) {
        check_stall(daemon, i);
        if (!daemon->closing)
            probe(daemon, i);
    }
}

static void remove_tensors(struct tensor_store *store)
{
    static const struct tensor_condition none;
    char name[32], tenant[8];
    struct fault fault;
    for (uint32_t t = 0; t < TENANTS_SIMULATED; t++)
        for (uint32_t i = 0; i < NAMES; i++) {
            snprintf(name, sizeof name, "t%u-b%u", t, i);
            snprintf(tenant, sizeof tenant, "t%u", t);
            (void)tensor_store_remove(store, name, tenant, &none, &fault);
        }
    const struct tensor_store_state state = tensor_store_state(store);
    if (state.used_bytes != 0 || state.count != 0)
        fail("after all tensors were removed %llu bytes of %llu tensors are used",
             (unsigned long long)state.used_bytes, (unsigned long long)state.count);
}

static void stop(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    threads_interfere((struct interference){daemon->traits.interference.preempted, 0});
    check_all_given_back(daemon);
    if (!executors_stop(&services->executors, 30000000000u))
        fail("a dispatch thread has not ended within 30 s");
    check_device_memory(daemon);
    check_verified(daemon);
    job_thread_stop(services->job_thread);
    jobs_close(services->jobs);
    for (uint32_t i = 0; i < daemon->traits.io_threads; i++)
        inbox_post(&daemon->io[i].inbox, &daemon->io[i].stop);
    for (uint32_t i = 0; i < daemon->traits.io_threads; i++) {
        while (!daemon->io[i].ended)
            sleep_ns(1000000);
        inbox_close(&daemon->io[i].inbox);
    }
    daemon->ended = true;
    sleep_ns(2 * AUDIT_NS); /* for the audit to end */
    remove_tensors(services->tensors);
    job_thread_destroy(services->job_thread);
    jobs_destroy(services->jobs);
    metrics_destroy(daemon->metrics);
    for (uint32_t i = 0; i < daemon->traits.devices; i++)
        order_close(&daemon->orders[i]);
    executors_destroy(&services->executors);
    admission_destroy(services->admission);
    tensor_store_destroy(services->tensors);
    if (pool_used_bytes(services->pool) != 0)
        fail("after the drain %llu bytes of pinned memory are used",
             (unsigned long long)pool_used_bytes(services->pool));
    pool_destroy(services->pool);
    executors_close_devices(&services->executors);
}

static void main_run(void *argument)
{
    struct daemon *daemon = argument;
    uint32_t ticks = 0;
    while (!daemon->closing) {
        sleep_ns(TICK_NS);
        tick(daemon, ++ticks);
        if (executors_are_lost(&daemon->services.executors))
            daemon->closing = true;
    }
    trace("daemon %u drains", daemon->number);
    executors_refuse(&daemon->services.executors);
    const uint64_t give_up_ns = now_ns() + DRAIN_MAX_NS;
    while (daemon->active + jobs_unfinished(daemon->services.jobs) > 0) {
        if (now_ns() > give_up_ns)
            fail("after 60 s of the drain %u requests and %u jobs are unfinished", daemon->active,
                 jobs_unfinished(daemon->services.jobs));
        sleep_ns(TICK_NS);
        tick(daemon, ++ticks);
    }
    stop(daemon);
    trace("daemon %u has stopped", daemon->number);
}

/* ---- the start ---- */

static void need(bool ok, const char *what)
{
    if (!ok)
        fail("the daemon does not start: %s", what);
}

static void start_device(struct daemon *daemon, uint32_t i,
                         const struct executor_settings *settings)
{
    struct daemon_memory *memory = memory_of(daemon);
    struct executor *executor = &daemon->services.executors.list[i];
    struct device_traits traits = daemon->traits.device[i];
    struct fault fault = {.detail = ""};
    traits.fails = traits.stalls = traits.is_lost = traits.wrong = 0; /* until the daemon serves */
    traits.memory_bytes = MEMORY_BYTES;
    traits.tensor_bytes = TENSOR_BYTES;
    daemon->devices[i] = simulated_device_open(&traits, (int32_t)i, memory->device[i],
                                               memory->tensors[i], &daemon->orders[i]);
    need(daemon->devices[i] != NULL, "device");
    executor->device = &daemon->devices[i]->base;
    daemon->services.executors.count = i + 1;
    need(executor_open(executor, settings, &fault) == GEMMD_OK, fault.detail);
    order_open(&daemon->orders[i], executor->queue);
    need(executor_start(executor, settings, metrics_shard(daemon->metrics, i), &fault) == GEMMD_OK,
         fault.detail);
}

static void start_stores(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    struct daemon_memory *memory = memory_of(daemon);
    const struct gemm_device about = {.backend = GEMM_BACKEND_CPU};
    struct device_span spans[DEVICES_SIMULATED];
    for (uint32_t i = 0; i < daemon->traits.devices; i++)
        spans[i] = (struct device_span){memory->tensors[i], TENSOR_BYTES};
    services->tensors = tensor_store_create(spans, daemon->traits.devices, &about,
                                            daemon->traits.tenant_tensor_bytes);
    services->jobs = jobs_create(&daemon->traits.jobs);
    need(services->tensors != NULL && services->jobs != NULL, "stores");
    services->job_thread = job_thread_start(services->jobs, services->pool, daemon->traits.tenants);
    need(services->job_thread != NULL, "job thread");
}

static void start_io(struct daemon *daemon, uint32_t i)
{
    struct io_thread *io = &daemon->io[i];
    *io = (struct io_thread){.daemon = daemon, .stop.act = io_stop};
    io->memory = pool_cache_create(daemon->services.pool);
    need(io->memory != NULL && inbox_open(&io->inbox), "I/O thread");
    threads_start("io", io_run, io);
}

void daemon_start(struct daemon *daemon, const struct daemon_traits *traits, uint32_t number)
{
    static const struct metrics_identity identity = {"0", "0", "cpu", "", "", ""};
    *daemon = (struct daemon){.traits = *traits, .number = number};
    struct services *services = &daemon->services;
    daemon->config.max_body_bytes = daemon->config.max_result_bytes = 16 << 20;
    daemon->config.max_jobs = traits->jobs.max_jobs;
    daemon->config.verify_share = traits->verify_share;
    threads_interfere((struct interference){0, 0});
    services->admission = admission_create(&traits->limits);
    services->pool = pool_create(memory_of(daemon)->pool, POOL_BYTES);
    daemon->metrics = metrics_create(traits->devices, &identity);
    need(services->admission != NULL && services->pool != NULL && daemon->metrics != NULL,
         "memory");
    need(verify_draw_init(&services->verify_draw), "random numbers");
    const struct executor_settings settings = {.admission = services->admission,
                                               .tenants = traits->tenants,
                                               .pool = services->pool,
                                               .max_launch_works = traits->max_launch_works,
                                               .busy_poll_us = traits->busy_poll_us,
                                               .stall_ns = traits->stall_limit_ns};
    for (uint32_t i = 0; i < traits->devices; i++)
        start_device(daemon, i, &settings);
    start_stores(daemon);
    for (uint32_t i = 0; i < traits->io_threads; i++)
        start_io(daemon, i);
    for (uint32_t i = 0; i < traits->devices; i++) {
        struct device_traits *device = &daemon->devices[i]->traits;
        daemon->still_since_ns[i] = now_ns();
        daemon->memory_at_start[i] = arena_used_bytes(device_arena(&daemon->devices[i]->base));
        device->fails = traits->device[i].fails;
        device->stalls = traits->device[i].stalls;
        device->is_lost = traits->device[i].is_lost;
        device->wrong = traits->device[i].wrong;
    }
    threads_interfere(traits->interference);
    threads_start("timer", main_run, daemon);
    threads_start("audit", audit_run, daemon);
    trace("daemon %u serves: %u devices, %u tenants, %u I/O threads, %u requests, %u works a "
          "launch",
          number, traits->devices, traits->tenants, traits->io_threads, traits->limits.requests,
          traits->max_launch_works);
}

void daemon_drain(struct daemon *daemon)
{
    daemon->closing = true;
}
