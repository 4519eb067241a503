#include "server/http/thread_options.h"

#include <stdlib.h>

/* Returns a copy whose one user is the thread. NULL: out of memory. */
static struct options_copy *options_copy_create(struct config_in_force *in_force)
{
    struct options_copy *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return NULL;
    copy->version = config_in_force_copy(in_force, &copy->config);
    copy->users = 1;
    return copy;
}

bool thread_options_open(struct thread_options *options, struct config_in_force *in_force)
{
    options->in_force = in_force;
    options->newest = options_copy_create(in_force);
    return options->newest != NULL;
}

void thread_options_close(struct thread_options *options)
{
    options_copy_release(options->newest);
}

void thread_options_refresh(struct thread_options *options)
{
    if (atomic_load_explicit(&options->in_force->version, memory_order_relaxed) ==
        options->newest->version)
        return;
    struct options_copy *copy = options_copy_create(options->in_force);
    if (copy == NULL)
        return;
    options_copy_release(options->newest);
    options->newest = copy;
}

struct options_copy *thread_options_hold(struct thread_options *options)
{
    options->newest->users++;
    return options->newest;
}

void options_copy_release(struct options_copy *copy)
{
    if (--copy->users == 0)
        free(copy);
}
