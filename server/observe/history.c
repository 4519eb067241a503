#include "server/observe/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The samples of one kind. Sample number n lies at n modulo `capacity`. */
struct ring {
    atomic_uint_fast64_t newest;
    uint32_t capacity;
    struct history_sample *samples;
};

struct history {
    pthread_mutex_t lock;
    struct ring rings[2];          /* by enum history_kind */
    struct history_sample growing; /* the next long sample */
    uint32_t grown;                /* how many samples of seconds it has */
    struct history_sample seconds[HISTORY_SAMPLES], longs[HISTORY_LONG_SAMPLES];
};

struct history *history_create(void)
{
    struct history *history = calloc(1, sizeof *history);
    if (history == NULL)
        return NULL;
    if (pthread_mutex_init(&history->lock, NULL) != 0) {
        free(history);
        return NULL;
    }
    history->rings[HISTORY_SECONDS].capacity = HISTORY_SAMPLES;
    history->rings[HISTORY_SECONDS].samples = history->seconds;
    history->rings[HISTORY_LONG].capacity = HISTORY_LONG_SAMPLES;
    history->rings[HISTORY_LONG].samples = history->longs;
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    pthread_mutex_destroy(&history->lock);
    free(history);
}

static void push(struct ring *ring, const struct history_sample *sample)
{
    const uint64_t number = atomic_load(&ring->newest) + 1;
    struct history_sample *place = &ring->samples[number % ring->capacity];
    *place = *sample;
    place->number = number;
    atomic_store(&ring->newest, number);
}

static uint32_t add_counts(uint32_t one, uint32_t other)
{
    return one <= UINT32_MAX - other ? one + other : UINT32_MAX;
}

static float larger(float one, float other)
{
    return one > other ? one : other;
}

static double larger_bytes(double one, double other)
{
    return one > other ? one : other;
}

/* The mean of a value over both samples. */
static float mean(float whole, double whole_seconds, float more, double more_seconds)
{
    const double seconds = whole_seconds + more_seconds;
    return seconds > 0
               ? (float)(((double)whole * whole_seconds + (double)more * more_seconds) / seconds)
               : more;
}

/* Makes `whole`, which may be all zeros, the sample of its own time and that of `more`, which
 * follows. */
static void merge(struct history_sample *whole, const struct history_sample *more)
{
    const double before = whole->seconds, after = more->seconds;
    for (int op = 0; op < METRICS_OP_COUNT; op++)
        whole->requests[op] = add_counts(whole->requests[op], more->requests[op]);
    for (int i = 0; i < METRICS_LATENCY_BUCKETS; i++)
        whole->latency[i] = add_counts(whole->latency[i], more->latency[i]);
    for (int op = 0; op < METRICS_COMPUTING_OPS; op++)
        for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
            whole->stage_ms[op][stage] += more->stage_ms[op][stage];
    whole->refused = add_counts(whole->refused, more->refused);
    whole->failed = add_counts(whole->failed, more->failed);
    whole->client_errors = add_counts(whole->client_errors, more->client_errors);
    whole->queue_mean = mean(whole->queue_mean, before, more->queue_mean, after);
    whole->queue_max = larger(whole->queue_max, more->queue_max);
    whole->queue_share = larger(whole->queue_share, more->queue_share);
    whole->busy = mean(whole->busy, before, more->busy, after);
    whole->flops += more->flops;
    whole->received_bytes += more->received_bytes;
    whole->sent_bytes += more->sent_bytes;
    whole->cpu_process = mean(whole->cpu_process, before, more->cpu_process, after);
    whole->cpu_host = mean(whole->cpu_host, before, more->cpu_host, after);
    whole->cpus = more->cpus;
    whole->memory_process = larger_bytes(whole->memory_process, more->memory_process);
    whole->memory_host = larger_bytes(whole->memory_host, more->memory_host);
    whole->memory_capacity = more->memory_capacity;
    whole->ready = more->ready;
    whole->draining = more->draining;
    whole->time_s = more->time_s;
    whole->seconds = before + after;
}

void history_add(struct history *history, const struct history_sample *sample)
{
    pthread_mutex_lock(&history->lock);
    push(&history->rings[HISTORY_SECONDS], sample);
    merge(&history->growing, sample);
    if (++history->grown == HISTORY_LONG_SECONDS) {
        push(&history->rings[HISTORY_LONG], &history->growing);
        history->growing = (struct history_sample){.number = 0};
        history->grown = 0;
    }
    pthread_mutex_unlock(&history->lock);
}

uint64_t history_newest(const struct history *history, enum history_kind kind)
{
    return atomic_load(&history->rings[kind].newest);
}

uint32_t history_read(struct history *history, enum history_kind kind, uint64_t after,
                      struct history_sample *samples, uint32_t capacity)
{
    const struct ring *ring = &history->rings[kind];
    uint32_t count = 0;
    pthread_mutex_lock(&history->lock);
    const uint64_t newest = atomic_load(&ring->newest);
    uint64_t next = newest > ring->capacity ? newest - ring->capacity + 1 : 1;
    if (after >= next)
        next = after + 1 == 0 ? newest + 1 : after + 1;
    for (; next <= newest && count < capacity; next++)
        samples[count++] = ring->samples[next % ring->capacity];
    pthread_mutex_unlock(&history->lock);
    return count;
}
