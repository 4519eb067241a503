/*
 * team.h - a fixed number of threads that share the parts of one computation.
 *
 * The thread that calls team_run is a member of the team. A team is used by one thread at a time.
 * The other members sleep between computations and block signals.
 */
#ifndef KERNELS_CPU_TEAM_H
#define KERNELS_CPU_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct team;

/* Computes part number `part` as member `member` of the team, from 0 to its size - 1. */
typedef void team_task(void *argument, uint64_t part, uint32_t member);

/* Creates a team of `size` >= 1 members, one of which is the caller of team_run. Returns
 * GEMMD_ERR_OUT_OF_MEMORY if the threads cannot be created. */
enum gemmd_error team_create(uint32_t size, struct team **team, struct fault *fault);
void team_destroy(struct team *team); /* NULL is fine */
uint32_t team_size(const struct team *team);

/* Lets `stops` say when the following computations of the team have to stop, until the next call of
 * team_watch. Members call `stops` from their threads, between parts and inside of long parts, and
 * never again after a call that returned true. NULL: computations never stop. */
void team_watch(struct team *team, bool (*stops)(void *argument), void *argument);
/* Whether the computation has to stop. A task with long parts calls team_stops every few
 * milliseconds and returns early if the result is true; a kernel calls team_stops between two calls
 * of team_run. Any member. */
bool team_stops(struct team *team);
/* Whether team_stops has returned true since team_watch. Results are then incomplete. */
bool team_has_stopped(const struct team *team);

/* The steps of a part since the part last called team_stops. A step takes nanoseconds: a
 * multiplication, or an element that is read. Belongs to one member. */
enum { TEAM_PACE_STEPS = 1 << 18 };
struct team_pace {
    struct team *team;
    uint64_t steps; /* 0 at first */
};

/* Counts the steps that a part does next, at most about TEAM_PACE_STEPS. Calls team_stops once for
 * every TEAM_PACE_STEPS steps, and returns whether the computation has to stop. */
static inline bool team_pace_stops(struct team_pace *pace, uint64_t steps)
{
    pace->steps += steps;
    if (pace->steps < TEAM_PACE_STEPS)
        return false;
    if (team_stops(pace->team))
        return true;
    pace->steps = 0;
    return false;
}

/* Computes parts 0 to parts - 1, each once, in any order. Returns when all parts are computed, or,
 * with parts left out, once team_stops has returned true. */
void team_run(struct team *team, team_task *task, void *argument, uint64_t parts);

/* Returns which of several problems a part belongs to. Problem number i of `count` has the parts
 * starts[i] ... starts[i + 1] - 1, of which there may be none. */
static inline uint32_t team_problem_of(const uint64_t starts[], uint32_t count, uint64_t part)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if (starts[middle] <= part)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
