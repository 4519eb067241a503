#include "server/observe/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/observe/nvml_abi.h"

static const uint64_t NS_PER_S = 1000000000;
enum { STOP_MS = 500 };

struct nvml {
    struct log *log; /* borrowed */
    char uuids[NVML_GPUS_MAX][NVML_UUID_TEXT];
    uint32_t uuid_count; /* 0: all GPUs */
    struct nvml_functions call;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;             /* under the lock */
    bool ended;                /* of the thread; under the lock */
    uint64_t sampled_ns;       /* under the lock; 0: never */
    struct nvml_sample sample; /* under the lock */

    /* Used by the sampling thread only. */
    struct nvml_sample next;
    nvml_device devices[NVML_GPUS_MAX];
    nvml_event_set events; /* NULL: XIDs are not reported */
    bool failing;          /* the last sample failed, and the log says so */
};

/* Finds all functions. Returns the symbol that is missing and needed, or NULL. */
static const char *find_functions(void *library, struct nvml_functions *call)
{
    const char *missing = NULL;
    void *found;
    /* ISO C has no conversion from a pointer to an object to one to a function. */
#define NVML_FIND(member, symbol, parameters, needed)                                              \
    found = dlsym(library, symbol);                                                                \
    memcpy(&call->member, &found, sizeof found);                                                   \
    if (found == NULL && (needed) && missing == NULL)                                              \
        missing = symbol;
    NVML_FUNCTIONS(NVML_FIND)
    return missing;
}

/* Logs, unless the sampling is being stopped: the log may be gone when a thread that was left
 * behind goes on. */
static void note(struct nvml *nvml, const char *what, int code)
{
    if (nvml->failing)
        return;
    nvml->failing = true;
    pthread_mutex_lock(&nvml->lock);
    if (!nvml->stopping)
        log_event(nvml->log, CONFIG_LOG_WARNING,
                  "NVML: %s (error %d): the metrics of the GPU are absent", what, code);
    pthread_mutex_unlock(&nvml->lock);
}

/* ---- one GPU ---- */

static void set(struct nvml_gpu *gpu, enum nvml_figure figure, int code, double value)
{
    gpu->has[figure] = code == NVML_OK;
    gpu->values[figure] = value;
}

static void sample_rates(const struct nvml_functions *call, nvml_device device,
                         struct nvml_gpu *gpu)
{
    struct nvml_utilization used = {0};
    struct nvml_memory memory = {0};
    unsigned sent = 0, received = 0;
    int code = call->utilization ? call->utilization(device, &used) : -1;
    set(gpu, NVML_UTILIZATION, code, used.gpu / 100.0);
    set(gpu, NVML_MEMORY_UTILIZATION, code, used.memory / 100.0);
    code = call->memory ? call->memory(device, &memory) : -1;
    set(gpu, NVML_MEMORY_USED, code, (double)memory.used);
    set(gpu, NVML_MEMORY_CAPACITY, code, (double)memory.total);
    code = call->pcie ? call->pcie(device, NVML_PCIE_SENT, &sent) : -1;
    set(gpu, NVML_PCIE_SENT_RATE, code, sent * 1024.0);
    code = call->pcie ? call->pcie(device, NVML_PCIE_RECEIVED, &received) : -1;
    set(gpu, NVML_PCIE_RECEIVED_RATE, code, received * 1024.0);
}

static void sample_power(const struct nvml_functions *call, nvml_device device,
                         struct nvml_gpu *gpu)
{
    unsigned milliwatts = 0, limit = 0, celsius = 0;
    unsigned long long millijoules = 0;
    int code = call->power ? call->power(device, &milliwatts) : -1;
    set(gpu, NVML_POWER, code, milliwatts / 1000.0);
    code = call->power_limit ? call->power_limit(device, &limit) : -1;
    set(gpu, NVML_POWER_LIMIT, code, limit / 1000.0);
    code = call->energy ? call->energy(device, &millijoules) : -1;
    set(gpu, NVML_ENERGY, code, (double)millijoules / 1000.0);
    code = call->temperature ? call->temperature(device, NVML_TEMPERATURE_GPU, &celsius) : -1;
    set(gpu, NVML_TEMPERATURE, code, celsius);
}

static void sample_clocks(const struct nvml_functions *call, nvml_device device,
                          struct nvml_gpu *gpu)
{
    static const struct {
        enum nvml_figure now, max;
        int clock;
    } clocks[] = {{NVML_SM_CLOCK, NVML_SM_CLOCK_MAX, NVML_CLOCK_SM},
                  {NVML_MEMORY_CLOCK, NVML_MEMORY_CLOCK_MAX, NVML_CLOCK_MEMORY}};
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        unsigned megahertz = 0, most = 0;
        int code = call->clock ? call->clock(device, clocks[i].clock, &megahertz) : -1;
        set(gpu, clocks[i].now, code, megahertz * 1e6);
        code = call->max_clock ? call->max_clock(device, clocks[i].clock, &most) : -1;
        set(gpu, clocks[i].max, code, most * 1e6);
    }
    unsigned long long reasons = 0;
    gpu->has_throttle = call->throttle && call->throttle(device, &reasons) == NVML_OK;
    gpu->throttle = reasons;
    gpu->throttle_seen |= reasons;
}

static void sample_errors(const struct nvml_functions *call, nvml_device device,
                          struct nvml_gpu *gpu)
{
    unsigned long long corrected = 0, uncorrected = 0;
    int code =
        call->ecc ? call->ecc(device, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &corrected) : -1;
    set(gpu, NVML_ECC_ERRORS_CORRECTED, code, (double)corrected);
    code =
        call->ecc ? call->ecc(device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &uncorrected) : -1;
    set(gpu, NVML_ECC_ERRORS_UNCORRECTED, code, (double)uncorrected);
}

/* ---- all GPUs ---- */

static void add_gpu(struct nvml *nvml, nvml_device device)
{
    const struct nvml_functions *call = &nvml->call;
    struct nvml_gpu *gpu = &nvml->next.gpus[nvml->next.count];
    if (call->uuid(device, gpu->uuid, sizeof gpu->uuid) != NVML_OK)
        return;
    if (!call->name || call->name(device, gpu->name, sizeof gpu->name) != NVML_OK)
        gpu->name[0] = '\0';
    if (nvml->events != NULL)
        (void)call->event_register(device, NVML_EVENT_XID, nvml->events);
    nvml->devices[nvml->next.count++] = device;
}

/* Finds the GPUs and asks for their events. Returns the code of NVML. */
static int open_gpus(struct nvml *nvml)
{
    const struct nvml_functions *call = &nvml->call;
    nvml_device device;
    unsigned count = 0;
    int code = call->init();
    if (code != NVML_OK)
        return code;
    if (!call->event_set || !call->event_register || !call->event_wait ||
        call->event_set(&nvml->events) != NVML_OK)
        nvml->events = NULL;
    for (uint32_t i = 0; i < nvml->uuid_count && code == NVML_OK; i++) {
        code = call->by_uuid(nvml->uuids[i], &device);
        if (code == NVML_OK)
            add_gpu(nvml, device);
    }
    if (nvml->uuid_count > 0)
        return code;
    code = call->count(&count);
    for (unsigned i = 0; code == NVML_OK && i < count && i < NVML_GPUS_MAX; i++)
        if (call->by_index(i, &device) == NVML_OK)
            add_gpu(nvml, device);
    return code;
}

static void count_xid(struct nvml_gpu *gpu, uint64_t xid)
{
    uint32_t i = 0;
    while (i < gpu->xid_count && gpu->xids[i].xid != xid)
        i++;
    if (i == NVML_XIDS_MAX)
        return;
    if (i == gpu->xid_count)
        gpu->xids[gpu->xid_count++] = (struct nvml_xid){.xid = xid};
    gpu->xids[i].count++;
}

/* Takes the events that wait. At most as many as a GPU could report in a second. */
static void take_events(struct nvml *nvml)
{
    enum { EVENTS_MAX = 1000 };
    struct nvml_event event;
    for (uint32_t taken = 0; nvml->events != NULL && taken < EVENTS_MAX; taken++) {
        if (nvml->call.event_wait(nvml->events, &event, 0) != NVML_OK)
            return;
        for (uint32_t i = 0; i < nvml->next.count; i++)
            if (nvml->devices[i] == event.device && (event.type & NVML_EVENT_XID) != 0)
                count_xid(&nvml->next.gpus[i], event.data);
    }
}

/* Samples all GPUs, and publishes the sample. Returns false if the sampling is stopped. */
static bool sample_all(struct nvml *nvml)
{
    for (uint32_t i = 0; i < nvml->next.count; i++) {
        sample_rates(&nvml->call, nvml->devices[i], &nvml->next.gpus[i]);
        sample_power(&nvml->call, nvml->devices[i], &nvml->next.gpus[i]);
        sample_clocks(&nvml->call, nvml->devices[i], &nvml->next.gpus[i]);
        sample_errors(&nvml->call, nvml->devices[i], &nvml->next.gpus[i]);
    }
    take_events(nvml);
    pthread_mutex_lock(&nvml->lock);
    nvml->sample = nvml->next;
    nvml->sampled_ns = clock_now_ns();
    const uint64_t due_ns = nvml->sampled_ns + NS_PER_S;
    const struct timespec due = {.tv_sec = (time_t)(due_ns / NS_PER_S),
                                 .tv_nsec = (long)(due_ns % NS_PER_S)};
    while (!nvml->stopping && clock_now_ns() < due_ns)
        pthread_cond_timedwait(&nvml->changed, &nvml->lock, &due);
    const bool goes_on = !nvml->stopping;
    pthread_mutex_unlock(&nvml->lock);
    return goes_on;
}

static void *nvml_run(void *argument)
{
    struct nvml *nvml = argument;
    pthread_setname_np(pthread_self(), "nvml");
    const int code = open_gpus(nvml);
    if (code == NVML_OK) {
        while (sample_all(nvml))
            continue;
        (void)nvml->call.shutdown();
    } else {
        note(nvml, "the GPUs cannot be listed", code);
    }
    pthread_mutex_lock(&nvml->lock);
    nvml->ended = true;
    pthread_cond_broadcast(&nvml->changed);
    pthread_mutex_unlock(&nvml->lock);
    return NULL;
}

static bool start_thread(struct nvml *nvml)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&nvml->lock, NULL) != 0)
        return false;
    if (pthread_condattr_init(&attributes) != 0)
        goto no_condition;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const bool has_condition = pthread_cond_init(&nvml->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!has_condition)
        goto no_condition;
    if (pthread_create(&nvml->thread, NULL, nvml_run, nvml) == 0)
        return true;
    pthread_cond_destroy(&nvml->changed);

no_condition:
    pthread_mutex_destroy(&nvml->lock);
    return false;
}

struct nvml *nvml_start(const char *const uuids[], uint32_t count, struct log *log)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        log_event(log, CONFIG_LOG_WARNING,
                  "NVML (libnvidia-ml.so.1) cannot be loaded: the metrics of the GPU are absent");
        return NULL;
    }
    /* The library stays loaded, since a thread of it may be left behind. */
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL)
        return NULL;
    nvml->log = log;
    for (uint32_t i = 0; i < count && i < NVML_GPUS_MAX; i++)
        strncpy(nvml->uuids[nvml->uuid_count++], uuids[i], sizeof nvml->uuids[0] - 1);
    const char *missing = find_functions(library, &nvml->call);
    if (missing != NULL)
        log_event(log, CONFIG_LOG_WARNING, "NVML has no %s: the metrics of the GPU are absent",
                  missing);
    if (missing == NULL && start_thread(nvml))
        return nvml;
    free(nvml);
    return NULL;
}

void nvml_stop(struct nvml *nvml)
{
    struct timespec until;
    if (nvml == NULL)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += STOP_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&nvml->lock);
    nvml->stopping = true;
    pthread_cond_broadcast(&nvml->changed);
    while (!nvml->ended && pthread_cond_timedwait(&nvml->changed, &nvml->lock, &until) == 0)
        continue;
    const bool ended = nvml->ended;
    pthread_mutex_unlock(&nvml->lock);
    if (!ended) {
        (void)pthread_detach(nvml->thread);
        return;
    }
    (void)pthread_join(nvml->thread, NULL);
    pthread_cond_destroy(&nvml->changed);
    pthread_mutex_destroy(&nvml->lock);
    free(nvml);
}

void nvml_read(struct nvml *nvml, struct nvml_sample *sample)
{
    pthread_mutex_lock(&nvml->lock);
    const uint64_t age_ns = clock_now_ns() - nvml->sampled_ns;
    if (nvml->sampled_ns != 0 && age_ns < NVML_FRESH_S * NS_PER_S) {
        *sample = nvml->sample;
        sample->up = true;
    } else {
        sample->count = 0;
        sample->up = false;
    }
    pthread_mutex_unlock(&nvml->lock);
}
