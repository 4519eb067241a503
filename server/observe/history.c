#include "server/observe/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct history {
    pthread_mutex_t lock;
    atomic_uint_fast64_t newest;
    struct history_sample samples[HISTORY_SAMPLES]; /* number n lies at n modulo the size */
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
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    pthread_mutex_destroy(&history->lock);
    free(history);
}

void history_add(struct history *history, const struct history_sample *sample)
{
    const uint64_t number = atomic_load(&history->newest) + 1;
    struct history_sample *place = &history->samples[number % HISTORY_SAMPLES];
    pthread_mutex_lock(&history->lock);
    *place = *sample;
    place->number = number;
    atomic_store(&history->newest, number);
    pthread_mutex_unlock(&history->lock);
}

uint64_t history_newest(const struct history *history)
{
    return atomic_load(&history->newest);
}

uint32_t history_read(struct history *history, uint64_t after, struct history_sample *samples,
                      uint32_t capacity)
{
    uint32_t count = 0;
    pthread_mutex_lock(&history->lock);
    const uint64_t newest = atomic_load(&history->newest);
    uint64_t next = newest > HISTORY_SAMPLES ? newest - HISTORY_SAMPLES + 1 : 1;
    if (after >= next)
        next = after + 1 == 0 ? newest + 1 : after + 1;
    for (; next <= newest && count < capacity; next++)
        samples[count++] = history->samples[next % HISTORY_SAMPLES];
    pthread_mutex_unlock(&history->lock);
    return count;
}
