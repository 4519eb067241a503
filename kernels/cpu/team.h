/*
 * team.h - a fixed number of threads that share the parts of one computation.
 *
 * The thread that calls team_run is a member of the team. A team is used by one thread at a time.
 * The other members sleep between computations and block signals.
 */
#ifndef KERNELS_CPU_TEAM_H
#define KERNELS_CPU_TEAM_H

#include <stdint.h>

#include "proto/error.h"

struct team;

/* Computes part number `part` as member `member` of the team, from 0 to its size - 1. */
typedef void team_task(void *argument, uint64_t part, uint32_t member);

/* Creates a team of `size` >= 1 members, one of which is the caller of team_run. Returns
 * GEMMD_ERR_OUT_OF_MEMORY if the threads cannot be created. */
enum gemmd_error team_create(uint32_t size, struct team **team, struct fault *fault);
void team_destroy(struct team *team); /* NULL is fine */

/* Computes parts 0 to parts - 1, each once, in any order. Returns when all parts are computed. */
void team_run(struct team *team, team_task *task, void *argument, uint64_t parts);

#endif
