#include "server/api/dashboard/sampler.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/number.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/observe/history.h"
#include "server/observe/notable.h"

/* A request that computes is slow if it takes longer than 99 % of such requests of the last minute.
 * If the last minute had fewer than LEAST_REQUESTS, a request is slow if it takes longer than
 * SLOW_NS. No limit is below LEAST_NS. */
enum { MINUTE_SAMPLES = 60, LEAST_REQUESTS = 100 };
static const uint64_t SECOND_NS = 1000000000, SLOW_NS = 100000000, LEAST_NS = 1000000;

/* Processor time since the start of the process and of the host, in nanoseconds. */
struct host_times {
    uint64_t process_ns, host_ns;
};

struct sampler {
    struct services *services;
    pthread_t thread;
    pthread_mutex_t lock; /* of `stopping` */
    pthread_cond_t changed;
    bool stopping;

    /* Only the thread uses the fields from here on. */
    struct metrics_totals before; /* at the end of the last second */
    uint64_t before_ns;
    struct host_times cpu_before; /* at the end of the last second */
    uint32_t looks;
    double waiting_sum;
    float waiting_max, share_max;
    struct history_sample minute[MINUTE_SAMPLES];
};

/* Looks at the length of the queue. */
static void look(struct sampler *sampler)
{
    const struct services *services = sampler->services;
    struct config config;
    const struct admission_held held = admission_held(services->admission);
    (void)config_in_force_copy(services->http->options, &config);
    const float requests = (float)held.requests / (float)config.queue_requests;
    const float bytes = (float)held.bytes / (float)config.queue_bytes;
    const float share = requests > bytes ? requests : bytes;
    uint32_t works = 0;
    for (uint32_t i = 0; i < services->executors.count; i++)
        works += queue_state(services->executors.list[i].queue).waiting;
    const float waiting = (float)works;
    sampler->looks++;
    sampler->waiting_sum += works;
    sampler->waiting_max = waiting > sampler->waiting_max ? waiting : sampler->waiting_max;
    sampler->share_max = share > sampler->share_max ? share : sampler->share_max;
}

/* By how much a total has grown. A total never shrinks: it is the sum of the shards' counters,
 * which only grow, even while they are read one after another. */
static uint32_t grown(uint64_t now, uint64_t before)
{
    const uint64_t growth = now - before;
    return growth < UINT32_MAX ? (uint32_t)growth : UINT32_MAX;
}

static void set_counts(struct history_sample *sample, const struct metrics_totals *now,
                       const struct metrics_totals *before)
{
    for (int op = 0; op < METRICS_OP_COUNT; op++)
        sample->requests[op] = grown(now->requests[op], before->requests[op]);
    for (int i = 0; i < METRICS_LATENCY_BUCKETS; i++)
        sample->latency[i] = grown(now->latency[i], before->latency[i]);
    for (int op = 0; op < METRICS_COMPUTING_OPS; op++)
        for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
            sample->stage_ms[op][stage] =
                (float)((double)(now->stage_ns[op][stage] - before->stage_ns[op][stage]) * 1e-6);
    sample->refused = grown(now->refused, before->refused);
    sample->failed = grown(now->failed, before->failed);
    sample->client_errors = grown(now->client_errors, before->client_errors);
    sample->flops = now->flops - before->flops;
    sample->received_bytes = (double)(now->request_bytes - before->request_bytes);
    sample->sent_bytes = (double)(now->response_bytes - before->response_bytes);
}

/* Reads the beginning of a file of /proc. Returns false if it cannot be read. */
static bool read_proc(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    text[fread(text, 1, room - 1, file)] = '\0';
    (void)fclose(file);
    return true;
}

/* The time that all processors of the host have been busy: the fields of /proc/stat but those of
 * idle time, of waiting for disks, and of guests, whose time is in the first two fields, too. */
static uint64_t host_busy_ns(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    char text[512], *rest = text;
    uint64_t ticks = 0, field;
    if (!read_proc("/proc/stat", text, sizeof text) || strncmp(text, "cpu ", 4) != 0)
        return 0;
    rest += strspn(rest, "cpu ");
    for (int i = USER; i < FIELDS; i++) {
        const char *word = strsep(&rest, " \n");
        if (word == NULL || !number_u64(word, &field))
            return 0;
        if (i != IDLE && i != IOWAIT)
            ticks += field;
    }
    return ticks * (SECOND_NS / (uint64_t)sysconf(_SC_CLK_TCK));
}

static struct host_times read_host_times(void)
{
    struct timespec cpu;
    struct host_times times = {.host_ns = host_busy_ns()};
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        times.process_ns = (uint64_t)cpu.tv_sec * SECOND_NS + (uint64_t)cpu.tv_nsec;
    return times;
}

/* The bytes that a line of /proc/meminfo names; 0: there is no such line. */
static double memory_bytes(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtod(line + strlen(name), NULL) * 1024;
}

/* Sets the processors and the memory that the process and the host use. The figures of the host are
 * those of /proc, also in a container. */
static void set_host(struct history_sample *sample, const struct host_times *now,
                     const struct host_times *before)
{
    char text[2048], *rest = text;
    uint64_t pages;
    sample->cpu_process =
        (float)((double)(now->process_ns - before->process_ns) * 1e-9 / sample->seconds);
    if (now->host_ns > before->host_ns)
        sample->cpu_host =
            (float)((double)(now->host_ns - before->host_ns) * 1e-9 / sample->seconds);
    sample->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    /* The ticks of /proc/stat are coarser than the second that they are divided by. */
    if (sample->cpu_host > (float)sample->cpus)
        sample->cpu_host = (float)sample->cpus;
    if (read_proc("/proc/meminfo", text, sizeof text)) {
        sample->memory_capacity = memory_bytes(text, "MemTotal:");
        sample->memory_host = sample->memory_capacity - memory_bytes(text, "MemAvailable:");
    }
    if (!read_proc("/proc/self/statm", text, sizeof text))
        return;
    (void)strsep(&rest, " "); /* the first field is the size of the address space */
    const char *resident = strsep(&rest, " ");
    if (resident != NULL && number_u64(resident, &pages))
        sample->memory_process = (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void set_state(struct history_sample *sample, const struct services *services)
{
    const enum http_stage stage = atomic_load(&services->http->stage);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sample->time_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    sample->ready = stage == HTTP_SERVING && executors_usable(&services->executors) > 0;
    sample->draining = stage != HTTP_SERVING;
}

/* The time after which a request is slow. */
static uint64_t slow_ns(const struct sampler *sampler)
{
    uint64_t counts[METRICS_LATENCY_BUCKETS] = {0}, all = 0, below = 0;
    for (int i = 0; i < MINUTE_SAMPLES; i++)
        for (int bucket = 0; bucket < METRICS_LATENCY_BUCKETS; bucket++) {
            counts[bucket] += sampler->minute[i].latency[bucket];
            all += sampler->minute[i].latency[bucket];
        }
    if (all < LEAST_REQUESTS)
        return SLOW_NS;
    uint32_t bucket = 0;
    while (bucket < METRICS_LATENCY_BUCKETS - 1 && (below += counts[bucket]) * 100 < all * 99)
        bucket++;
    const uint64_t bound_ns = (uint64_t)(metrics_latency_bound_s(bucket) * 1e9);
    return bound_ns > LEAST_NS ? bound_ns : LEAST_NS;
}

static void end_second(struct sampler *sampler, uint64_t now_ns)
{
    struct services *services = sampler->services;
    const double seconds = (double)(now_ns - sampler->before_ns) * 1e-9;
    const struct host_times host = read_host_times();
    struct metrics_totals now;
    metrics_totals_read(services->http->metrics, &now);
    struct history_sample sample = {
        .seconds = seconds,
        .queue_mean = (float)(sampler->waiting_sum / (double)sampler->looks),
        .queue_max = sampler->waiting_max,
        .queue_share = sampler->share_max,
        .busy = (float)((double)(now.busy_ns - sampler->before.busy_ns) * 1e-9 / seconds /
                        services->executors.count),
    };
    set_counts(&sample, &now, &sampler->before);
    set_host(&sample, &host, &sampler->cpu_before);
    set_state(&sample, services);
    /* A launch counts as a whole when it ends, although it may have begun in an earlier second. */
    sample.busy = sample.busy > 1 ? 1 : sample.busy;
    history_add(services->history, &sample);
    sampler->minute[history_newest(services->history, HISTORY_SECONDS) % MINUTE_SAMPLES] = sample;
    notable_tick(services->notable, slow_ns(sampler));
    sampler->before = now;
    sampler->cpu_before = host;
    sampler->before_ns = now_ns;
    sampler->looks = 0;
    sampler->waiting_sum = 0;
    sampler->waiting_max = sampler->share_max = 0;
}

/* Waits for the next look. Returns false if the thread has to end. */
static bool wait_until(struct sampler *sampler, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                                   .tv_nsec = (long)(until_ns % SECOND_NS)};
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stopping &&
           pthread_cond_timedwait(&sampler->changed, &sampler->lock, &until) == 0)
        continue;
    const bool goes_on = !sampler->stopping;
    pthread_mutex_unlock(&sampler->lock);
    return goes_on;
}

static void *sampler_run(void *argument)
{
    struct sampler *sampler = argument;
    pthread_setname_np(pthread_self(), "sampler");
    uint64_t next_ns = clock_now_ns();
    sampler->before_ns = next_ns;
    metrics_totals_read(sampler->services->http->metrics, &sampler->before);
    sampler->cpu_before = read_host_times();
    for (;;) {
        const uint64_t now_ns = clock_now_ns();
        next_ns += SECOND_NS / SAMPLER_LOOKS;
        if (next_ns < now_ns) /* the process was stopped for a while */
            next_ns = now_ns + SECOND_NS / SAMPLER_LOOKS;
        if (!wait_until(sampler, next_ns))
            return NULL;
        look(sampler);
        if (sampler->looks >= SAMPLER_LOOKS)
            end_second(sampler, clock_now_ns());
    }
}

struct sampler *sampler_start(struct services *services)
{
    pthread_condattr_t attributes;
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return NULL;
    sampler->services = services;
    if (pthread_mutex_init(&sampler->lock, NULL) != 0)
        goto no_lock;
    if (pthread_condattr_init(&attributes) != 0)
        goto no_condition;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const bool has_condition = pthread_cond_init(&sampler->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!has_condition)
        goto no_condition;
    if (pthread_create(&sampler->thread, NULL, sampler_run, sampler) == 0)
        return sampler;
    pthread_cond_destroy(&sampler->changed);
no_condition:
    pthread_mutex_destroy(&sampler->lock);
no_lock:
    free(sampler);
    return NULL;
}

void sampler_stop(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    pthread_mutex_lock(&sampler->lock);
    sampler->stopping = true;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
    (void)pthread_join(sampler->thread, NULL);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}
