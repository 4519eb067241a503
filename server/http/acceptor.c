#include "server/http/acceptor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/inherited_sockets.h"
#include "server/http/server.h"
#include "server/net/listen.h"

/* The most connections that are accepted before the main loop does other things. */
enum { ACCEPTS_PER_WAKE = 64 };

struct acceptor {
    uv_loop_t *loop; /* borrowed, like the next two */
    const struct config *config;
    struct log *log;
    struct http_server *server;  /* borrowed */
    struct listen_access access; /* of the files of Unix sockets */
    struct listener listeners[CONFIG_LISTEN_MAX];
    uv_poll_t polls[CONFIG_LISTEN_MAX];
    uint32_t listener_count;
    bool polling;      /* the listening sockets are watched */
    bool closed;       /* acceptor_close was called: they are not watched any more */
    bool out_of_files; /* accept ran out of descriptors; logged once */
};

void acceptor_pause(struct acceptor *acceptor)
{
    for (uint32_t i = 0; acceptor->polling && i < acceptor->listener_count; i++)
        uv_poll_stop(&acceptor->polls[i]);
    acceptor->polling = false;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct acceptor *acceptor = poll->data;
    struct listener *listener = &acceptor->listeners[poll - acceptor->polls];
    (void)events;
    if (status < 0)
        return;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t peer_length = sizeof peer;
        int fd = accept4(listener->fd, (struct sockaddr *)&peer, &peer_length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            acceptor->out_of_files = false;
            http_server_take(acceptor->server, fd, (struct sockaddr *)&peer, peer_length);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The connection stays in the backlog until acceptor_start is called again. */
            if (!acceptor->out_of_files)
                log_event(acceptor->log, CONFIG_LOG_ERROR, "cannot accept: %s", strerror(errno));
            acceptor->out_of_files = true;
            acceptor_pause(acceptor);
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

void acceptor_start(struct acceptor *acceptor)
{
    if (acceptor->closed)
        return;
    for (uint32_t i = 0; !acceptor->polling && i < acceptor->listener_count; i++) {
        const int error = uv_poll_start(&acceptor->polls[i], UV_READABLE, on_listener);
        if (error != 0)
            log_event(acceptor->log, CONFIG_LOG_ERROR, "cannot watch %s: %s",
                      acceptor->listeners[i].address, uv_strerror(error));
    }
    acceptor->polling = true;
}

static void close_listeners(struct acceptor *acceptor)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        listen_close(&acceptor->listeners[i]);
    acceptor->listener_count = 0;
}

void acceptor_close(struct acceptor *acceptor)
{
    acceptor->closed = true;
    acceptor_pause(acceptor);
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        uv_close((uv_handle_t *)&acceptor->polls[i], NULL);
    /* The handles have to be closed before their descriptors are. The loop may run its timers
     * meanwhile, whose functions may call acceptor_start. */
    uv_run(acceptor->loop, UV_RUN_NOWAIT);
    close_listeners(acceptor);
}

/* Finds the inherited sockets of configured addresses, and closes those of addresses that are not
 * configured any more. */
static void match_inherited(struct acceptor *acceptor)
{
    const struct config *config = acceptor->config;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        struct listener *listener = &acceptor->listeners[i];
        for (uint32_t j = 0; j < config->listen_count && !inherited_is_managers(i); j++)
            if (inherited_is_for(i, config->listen[j]))
                listener->configured = config->listen[j];
        if (listener->configured != NULL || inherited_is_managers(i))
            acceptor->listeners[kept++] = *listener;
        else
            listen_close(listener);
    }
    acceptor->listener_count = kept;
}

static bool has_listener(const struct acceptor *acceptor, const char *configured)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        if (acceptor->listeners[i].configured == configured)
            return true;
    return false;
}

static enum gemmd_error open_listeners(struct acceptor *acceptor, struct fault *fault)
{
    const struct config *config = acceptor->config;
    enum gemmd_error code =
        listen_inherit(acceptor->listeners, CONFIG_LISTEN_MAX, &acceptor->listener_count, fault);
    if (code == GEMMD_OK)
        match_inherited(acceptor);
    if (code == GEMMD_OK)
        code =
            listen_access_find(config->socket_mode, config->socket_group, &acceptor->access, fault);
    for (uint32_t i = 0; code == GEMMD_OK && i < config->listen_count; i++) {
        if (has_listener(acceptor, config->listen[i]))
            continue;
        if (acceptor->listener_count == CONFIG_LISTEN_MAX)
            return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                             "at most %d sockets can be listened on", (int)CONFIG_LISTEN_MAX);
        code = listen_open(config->listen[i], &acceptor->access,
                           &acceptor->listeners[acceptor->listener_count], fault);
        if (code == GEMMD_OK)
            acceptor->listener_count++;
    }
    return code;
}

/* Whether a stranger who reaches a TCP address is let in. */
static bool lets_strangers_in(const struct config *config)
{
    const bool wants_certificate =
        config->tls_client_ca != NULL && config->tls_client_auth == CONFIG_CLIENT_AUTH_REQUIRE;
    return config->token_file == NULL && !wants_certificate;
}

static enum gemmd_error exposure_fault(const char *address, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                     "other hosts may reach %.80s, and every request would be accepted; give a "
                     "--token-file, require client certificates (--tls-client-ca), or allow this "
                     "with --allow-insecure-network",
                     address);
}

static enum gemmd_error check_exposure(const struct acceptor *acceptor, struct fault *fault)
{
    if (!lets_strangers_in(acceptor->config) || acceptor->config->allow_insecure_network)
        return GEMMD_OK;
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        if (listen_is_public(&acceptor->listeners[i]))
            return exposure_fault(acceptor->listeners[i].address, fault);
    return GEMMD_OK;
}

enum gemmd_error acceptor_check(const struct config *config, struct fault *fault)
{
    struct listen_access access;
    enum gemmd_error found =
        listen_access_find(config->socket_mode, config->socket_group, &access, fault);
    if (found != GEMMD_OK || !lets_strangers_in(config) || config->allow_insecure_network)
        return found;
    for (uint32_t i = 0; i < config->listen_count; i++) {
        struct address address;
        struct sockaddr_storage name = {0};
        socklen_t length;
        enum gemmd_error code = address_parse(config->listen[i], &address, fault);
        if (code == GEMMD_OK)
            code = address_resolve(&address, &name, &length, fault);
        if (code == GEMMD_OK && address_is_public(&name))
            code = exposure_fault(config->listen[i], fault);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

/* Prepares to watch the listening sockets. */
static enum gemmd_error open_polls(struct acceptor *acceptor, struct fault *fault)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        const int error =
            uv_poll_init(acceptor->loop, &acceptor->polls[i], acceptor->listeners[i].fd);
        if (error != 0)
            return fault_set(fault, GEMMD_ERR_IO, "listen", "cannot watch %.120s: %s",
                             acceptor->listeners[i].address, uv_strerror(error));
        acceptor->polls[i].data = acceptor;
    }
    return GEMMD_OK;
}

enum gemmd_error acceptor_create(uv_loop_t *loop, const struct config *config, struct log *log,
                                 struct http_server *server, struct acceptor **out,
                                 struct fault *fault)
{
    struct acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (acceptor == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
    acceptor->loop = loop;
    acceptor->config = config;
    acceptor->log = log;
    acceptor->server = server;
    *out = acceptor; /* also after a failure: the loop may have handles of it */
    enum gemmd_error code = open_listeners(acceptor, fault);
    if (code == GEMMD_OK)
        code = check_exposure(acceptor, fault);
    return code == GEMMD_OK ? open_polls(acceptor, fault) : code;
}

uint32_t acceptor_sockets(const struct acceptor *acceptor,
                          struct handover_socket sockets[CONFIG_LISTEN_MAX])
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        const char *configured = acceptor->listeners[i].configured;
        sockets[i].fd = acceptor->listeners[i].fd;
        sockets[i].address = configured != NULL ? configured : "";
    }
    return acceptor->listener_count;
}

void acceptor_own(struct acceptor *acceptor)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        struct listener *listener = &acceptor->listeners[i];
        struct fault fault = {.code = GEMMD_OK};
        if (listener->configured == NULL || !listener->inherited)
            continue;
        listen_own(listener);
        /* The old process may have had other options. */
        if (listen_permit(listener, &acceptor->access, &fault) != GEMMD_OK)
            log_event(acceptor->log, CONFIG_LOG_WARNING, "%s", fault.detail);
    }
}

void acceptor_disown(struct acceptor *acceptor)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++)
        acceptor->listeners[i].inherited = true;
}

void acceptor_announce(const struct acceptor *acceptor, bool open_to_all)
{
    for (uint32_t i = 0; i < acceptor->listener_count; i++) {
        const struct listener *listener = &acceptor->listeners[i];
        const bool with_tls = acceptor->config->tls_cert != NULL && !listener->is_unix;
        log_event(acceptor->log, CONFIG_LOG_INFO, "listening on %s%s", listener->address,
                  with_tls ? " with TLS" : "");
        if (!listen_is_public(listener))
            continue;
        if (open_to_all && lets_strangers_in(acceptor->config))
            log_event(acceptor->log, CONFIG_LOG_WARNING,
                      "whoever reaches %s is let in: there is no --token-file", listener->address);
        else if (!with_tls)
            log_event(acceptor->log, CONFIG_LOG_WARNING,
                      "tokens and matrices travel to %s in the clear: there is no --tls-cert",
                      listener->address);
    }
}

void acceptor_destroy(struct acceptor *acceptor)
{
    if (acceptor == NULL)
        return;
    close_listeners(acceptor);
    free(acceptor);
}
