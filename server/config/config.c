#include "server/config/config.h"

#include <stdlib.h>

#include "server/config/config_option.h"

uint64_t config_share(const struct config *config, uint32_t tenants, uint64_t limit)
{
    const uint32_t percent = config->tenant_share;
    if (tenants < 2 || percent == 100)
        return 0;
    const uint64_t share = limit / 100 * percent + limit % 100 * percent / 100;
    return share > 0 || limit == 0 ? share : 1;
}

void config_divide(struct config *config, uint32_t tenants)
{
    if (config->shares_requests)
        config->tenant_requests = (uint32_t)config_share(config, tenants, config->queue_requests);
    if (config->shares_tensors)
        config->tenant_tensor_bytes = config_share(config, tenants, config->tensor_bytes);
    config->tenant_share_bytes =
        config->shares_bytes ? config_share(config, tenants, config->queue_bytes) : 0;
    config->tenant_jobs = (uint32_t)config_share(config, tenants, config->max_jobs);
    config->tenant_job_bytes = config_share(config, tenants, config->job_bytes);
    config->tenant_regions = (uint32_t)config_share(config, tenants, config->shm_regions);
    config->tenant_region_bytes = config_share(config, tenants, config->shm_bytes);
}

void config_in_force_init(struct config_in_force *in_force, const struct config *config)
{
    in_force->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    in_force->config = *config;
    atomic_init(&in_force->version, 1);
}

void config_in_force_replace(struct config_in_force *in_force, const struct config *next)
{
    pthread_mutex_lock(&in_force->lock);
    in_force->config = *next;
    atomic_fetch_add(&in_force->version, 1);
    pthread_mutex_unlock(&in_force->lock);
}

unsigned config_in_force_copy(struct config_in_force *in_force, struct config *copy)
{
    pthread_mutex_lock(&in_force->lock);
    *copy = in_force->config;
    const unsigned version = atomic_load(&in_force->version);
    pthread_mutex_unlock(&in_force->lock);
    return version;
}

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
    thread_options_refresh(options);
    options->newest->users++;
    return options->newest;
}

void options_copy_release(struct options_copy *copy)
{
    if (--copy->users == 0)
        free(copy);
}

uint64_t config_longest_timeout_ms(const struct config *config)
{
    return config->max_timeout_ms != 0 ? config->max_timeout_ms : INT32_MAX;
}

void config_free(struct config *config)
{
    for (uint32_t i = 0; i < config->listen_count; i++)
        free(config->listen[i]);
    config->listen_count = 0;
    for (uint32_t i = 0; i < config_option_count; i++) {
        if (config_options[i].kind != CONFIG_KIND_TEXT)
            continue;
        char **field = (char **)(void *)((unsigned char *)config + config_options[i].offset);
        free(*field);
        *field = NULL;
    }
}
