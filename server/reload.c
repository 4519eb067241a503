#include "server/reload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/http/tls.h"
#include "server/http/tokens.h"
#include "server/jobs/jobs.h"
#include "server/net/notify.h"

extern char **environ;

struct reload {
    const struct config *given; /* borrowed */
    int argc;
    char *const *argv;
    struct services *services;
    struct config_changes changes;
};

static uint64_t unix_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

struct reload *reload_create(const struct config *given, int argc, char *const argv[],
                             struct services *services)
{
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL)
        return NULL;
    reload->given = given;
    reload->argc = argc;
    reload->argv = argv;
    reload->services = services;
    atomic_store(&services->reloads.last_succeeded, true);
    atomic_store(&services->reloads.last_success_seconds, unix_seconds());
    return reload;
}

void reload_destroy(struct reload *reload)
{
    free(reload);
}

/* What a reload replaces. The credentials are owned; NULL: the daemon has none of the kind. */
struct replacement {
    struct config config;
    struct token_list *tokens;
    struct tls_credentials *certificates;
};

/* Reads and checks the options and all files that a reload reads again. Changes nothing. */
static enum gemmd_error prepare(struct reload *reload, struct replacement *next,
                                struct fault *fault)
{
    const struct http_server *http = reload->services->http;
    const struct config_reload sources = {
        .given = reload->given,
        .running = &http->options->config,
        .argc = reload->argc,
        .argv = reload->argv,
        .environment = environ,
    };
    next->tokens = NULL;
    next->certificates = NULL;
    enum gemmd_error code = config_reload(&sources, &next->config, &reload->changes, fault);
    if (code == GEMMD_OK && http->tokens != NULL)
        code = tokens_read(http->tokens, reload->given->token_file, &next->tokens, fault);
    if (code == GEMMD_OK && http->tls != NULL)
        code = tls_read(http->tls, &next->certificates, fault);
    if (code != GEMMD_OK)
        token_list_free(next->tokens);
    return code;
}

/* Has the parts of the daemon that keep limits of their own use those of the new options. */
static void apply_limits(struct services *services, const struct config *config)
{
    const struct admission_limits limits = {
        .requests = config->queue_requests,
        .bytes = config->queue_bytes,
        .tenant_requests = config->tenant_requests,
        .tenant_bytes = config->tenant_bytes,
        .tenant_share_bytes = config->tenant_share_bytes,
    };
    admission_set_limits(services->admission, &limits);
    jobs_set_tenant_limits(services->jobs, config->tenant_jobs, config->tenant_job_bytes);
    regions_set_tenant_limits(services->regions, config->tenant_regions,
                              config->tenant_region_bytes);
    tensor_store_set_tenant_bytes(services->tensors, config->tenant_tensor_bytes);
    for (uint32_t i = 0; i < services->executors.count; i++)
        dispatch_set_stall_limit(services->executors.list[i].dispatch,
                                 config->stall_ms * UINT64_C(1000000));
}

/* Puts in force what was prepared. Nothing here can fail. */
static void commit(struct services *services, struct replacement *next)
{
    struct http_server *http = services->http;
    if (next->tokens != NULL)
        tokens_adopt(http->tokens, next->tokens);
    if (next->certificates != NULL)
        tls_adopt(http->tls, next->certificates);
    config_divide(&next->config, http->tokens == NULL ? 1 : tokens_tenants_named(http->tokens));
    config_in_force_replace(http->options, &next->config);
    apply_limits(services, &next->config);
}

/* Logs the changes. If the level changes too, the more talkative of the two levels decides whether
 * these lines are written. */
static void log_changes(const struct reload *reload, enum config_log_level old_level)
{
    const struct config *config = &reload->services->http->options->config;
    const enum config_log_level new_level = config->log_level;
    struct log *log = reload->services->log;
    log_set_level(log, old_level < new_level ? old_level : new_level);
    for (uint32_t i = 0; i < reload->changes.count; i++) {
        const struct config_change *change = &reload->changes.list[i];
        if (change->applied)
            log_event(log, CONFIG_LOG_INFO, "--%s is now %s; it was %s", change->name,
                      change->new_value, change->old_value);
        else
            log_event(log, CONFIG_LOG_WARNING,
                      "--%s stays %s; the new value %s needs a new process (SIGUSR2)", change->name,
                      change->old_value, change->new_value);
    }
    log_event(log, CONFIG_LOG_INFO, "reloaded");
    log_set_level(log, new_level);
}

void reload_run(struct reload *reload)
{
    struct services *services = reload->services;
    const enum config_log_level old_level = services->http->options->config.log_level;
    struct replacement next;
    struct fault fault = {.code = GEMMD_OK};
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
    notify_send(state);
    const bool succeeded = prepare(reload, &next, &fault) == GEMMD_OK;
    if (succeeded)
        commit(services, &next);
    atomic_store(&services->reloads.last_succeeded, succeeded);
    if (succeeded) {
        atomic_fetch_add(&services->reloads.succeeded, 1);
        atomic_store(&services->reloads.last_success_seconds, unix_seconds());
        log_changes(reload, old_level);
        char warning[TLS_WARNING_MAX];
        if (services->http->tls != NULL && tls_warns(services->http->tls, warning))
            log_event(services->log, CONFIG_LOG_WARNING, "%s", warning);
        notify_send("READY=1\nSTATUS=serving");
    } else {
        atomic_fetch_add(&services->reloads.failed, 1);
        log_event(services->log, CONFIG_LOG_ERROR,
                  "cannot reload, and all settings stay as they were: %s", fault.detail);
        notify_send("READY=1\nSTATUS=serving with old settings: the reload failed, see the log");
    }
}
