/*
 * thread_options.h - an I/O thread's copies of the options in force.
 *
 * A reload may replace the options at any time (struct config_in_force). Each I/O thread therefore
 * reads copies of its own, without a lock. A request keeps the copy that it began with, so that a
 * reload does not change the limits of a request that has begun. A copy is freed after its last
 * use. Only the thread itself calls the functions, apart from its start and its end.
 */
#ifndef SERVER_HTTP_THREAD_OPTIONS_H
#define SERVER_HTTP_THREAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"

struct options_copy {
    struct config config;
    unsigned version; /* of the options in force that were copied */
    uint32_t users;   /* requests, and the thread while the copy is its newest */
};

struct thread_options {
    struct config_in_force *in_force; /* borrowed */
    struct options_copy *newest;
};

/* Makes the first copy. False: out of memory. */
bool thread_options_open(struct thread_options *options, struct config_in_force *in_force);
void thread_options_close(struct thread_options *options);

/* Makes a new copy if the options in force were replaced. If memory runs out, the old copy stays
 * the newest until a later call. */
void thread_options_refresh(struct thread_options *options);

/* Begins a use of the newest copy. */
struct options_copy *thread_options_hold(struct thread_options *options);
/* Ends a use of a copy. */
void options_copy_release(struct options_copy *copy);

#endif
