#include "kernels/cpu/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct team *team;
    pthread_t thread;
    uint32_t number;
};

struct team {
    pthread_mutex_t lock;
    pthread_cond_t start, end;
    uint64_t round;  /* counts computations, so that a member joins each once */
    bool open;       /* the round may have parts left, which members may join to compute */
    uint32_t active; /* members that have joined the round and not finished their parts */
    bool stop;

    team_task *task;
    void *argument;
    uint64_t parts;
    _Atomic uint64_t next;

    bool (*stops)(void *argument); /* of team_watch */
    void *stops_argument;
    atomic_bool stopped;

    uint32_t size;
    struct member members[]; /* size - 1; the caller needs none */
};

void team_watch(struct team *team, bool (*stops)(void *argument), void *argument)
{
    team->stops = stops;
    team->stops_argument = argument;
    atomic_store_explicit(&team->stopped, false, memory_order_relaxed);
}

bool team_has_stopped(const struct team *team)
{
    return atomic_load_explicit(&team->stopped, memory_order_relaxed);
}

bool team_stops(struct team *team)
{
    if (team->stops == NULL || team_has_stopped(team))
        return team->stops != NULL;
    if (!team->stops(team->stops_argument))
        return false;
    atomic_store_explicit(&team->stopped, true, memory_order_relaxed);
    return true;
}

static void work(struct team *team, uint32_t number)
{
    for (;;) {
        uint64_t part = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (part >= team->parts || team_stops(team))
            return;
        team->task(team->argument, part, number);
    }
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    uint64_t seen = 0;

    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!team->stop && (!team->open || team->round == seen))
            pthread_cond_wait(&team->start, &team->lock);
        if (team->stop)
            break;
        seen = team->round;
        team->active++;
        pthread_mutex_unlock(&team->lock);
        work(team, member->number);
        pthread_mutex_lock(&team->lock);
        if (--team->active == 0)
            pthread_cond_signal(&team->end);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

enum gemmd_error team_create(uint32_t size, struct team **out, struct fault *fault)
{
    struct team *team = calloc(1, sizeof *team + (size - 1) * sizeof team->members[0]);
    *out = NULL;
    if (team == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a team of %u threads",
                         size);
    if (pthread_mutex_init(&team->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&team->start, NULL) != 0)
        goto no_start;
    if (pthread_cond_init(&team->end, NULL) != 0)
        goto no_end;
    team->size = 1;

    /* Block all signals except those that a thread raises by its own instructions: if such a signal
     * is blocked, it kills the process. A read of an operand in a client's memory may raise SIGBUS,
     * which the code that maps the memory handles. */
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    while (team->size < size) {
        struct member *member = &team->members[team->size - 1];
        *member = (struct member){.team = team, .number = team->size};
        if (pthread_create(&member->thread, NULL, member_main, member) != 0)
            break;
        team->size++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (team->size < size) {
        uint32_t reached = team->size;
        team_destroy(team);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "only %u of %u compute threads could be started", reached, size);
    }
    *out = team;
    return GEMMD_OK;

no_end:
    pthread_cond_destroy(&team->start);
no_start:
    pthread_mutex_destroy(&team->lock);
no_lock:
    free(team);
    return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a team of %u threads",
                     size);
}

void team_destroy(struct team *team)
{
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->start);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t i = 0; i + 1 < team->size; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->end);
    pthread_cond_destroy(&team->start);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

uint32_t team_size(const struct team *team)
{
    return team->size;
}

void team_run(struct team *team, team_task *task, void *argument, uint64_t parts)
{
    if (team->size == 1 || parts == 1) {
        for (uint64_t part = 0; part < parts && !team_stops(team); part++)
            task(argument, part, 0);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->argument = argument;
    team->parts = parts;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    team->round++;
    team->open = true;
    if (parts >= team->size)
        pthread_cond_broadcast(&team->start);
    else
        for (uint64_t part = 1; part < parts; part++)
            pthread_cond_signal(&team->start);
    pthread_mutex_unlock(&team->lock);

    work(team, 0);

    /* All parts are taken. A member that wakes only now, because other programs have the cores, is
     * not waited for. */
    pthread_mutex_lock(&team->lock);
    team->open = false;
    while (team->active > 0)
        pthread_cond_wait(&team->end, &team->lock);
    pthread_mutex_unlock(&team->lock);
}
