/*
 * team.h - a fixed number of threads that share out the parts of one computation.
 *
 * The caller of team_run is one of them. A team is used by one thread at a time; its threads sleep
 * between computations and take no signals.
 */
#ifndef KERNELS_CPU_TEAM_H
#define KERNELS_CPU_TEAM_H

#include <stdint.h>

#include "proto/error.h"

struct team;

/* Computes part number `part` as member `member` of the team, from 0 to its size - 1. */
typedef void team_task(void *argument, uint64_t part, uint32_t member);

/* `size` >= 1 counts the caller. GEMMD_ERR_OUT_OF_MEMORY if the threads can't be had. */
enum gemmd_error team_create(uint32_t size, struct team **team, struct fault *fault);
void team_destroy(struct team *team); /* NULL is fine */

/* Computes parts 0 ... parts - 1, each once, in no order, and returns when all are done. */
void team_run(struct team *team, team_task *task, void *argument, uint64_t parts);

#endif
