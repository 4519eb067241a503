#include "server/http/server.h"

#include <stdlib.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/cores.h"
#include "server/http/arrival.h"
#include "server/http/connection.h"
#include "server/http/digester.h"
#include "server/http/endpoint.h"
#include "server/http/guard.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/tls.h"
#include "server/net/lingering.h"
#include "server/net/peer_counts.h"
#include "server/observe/metrics.h"

static uint32_t default_io_threads(void)
{
    const uint32_t threads = cores_usable() / 2;
    return threads < 1 ? 1 : threads > 16 ? 16 : threads;
}

void http_server_plan(struct http_server *server, const struct config *config)
{
    const uint32_t threads = config->io_threads != 0 ? config->io_threads : default_io_threads();
    server->bulk_thread_first = threads;
    server->thread_count = config->bulk_connections > 0 ? 2 * threads : threads;
}

enum gemmd_error http_server_open(struct http_server *server, struct fault *fault)
{
    const struct config *config = &server->options->config;
    server->id_state = clock_now_ns();
    enum gemmd_error code = guard_parser_find(&server->lenient_parser, fault);
    if (code != GEMMD_OK)
        return code;
    for (const struct endpoint *const *list = server->routes; *list != NULL; list++)
        for (const struct endpoint *endpoint = *list; endpoint->path != NULL; endpoint++)
            if (endpoint->call_bytes > server->call_bytes_max)
                server->call_bytes_max = endpoint->call_bytes;
    const char *wrong;
    size_t length;
    if (config->trusted_proxies != NULL) /* config_check has read the list already */
        (void)networks_read(&server->trusted, config->trusted_proxies, &wrong, &length);
    server->peers = peer_counts_create(config->max_connections_per_address, config->max_connections,
                                       &server->trusted);
    if (server->peers == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
    return GEMMD_OK;
}

enum gemmd_error http_server_start(struct http_server *server, struct fault *fault)
{
    const uint32_t wanted = server->thread_count;
    server->thread_count = 0;
    server->digester =
        digester_start((struct digester_hooks){request_hand_over_again, request_wake}, TENANTS_MAX);
    if (server->digester == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "the digester does not start");
    server->threads = calloc(wanted, sizeof *server->threads);
    if (server->threads == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for I/O threads");
    for (uint32_t i = 0; i < wanted; i++) {
        enum gemmd_error code = io_thread_start(server, i, &server->threads[i], fault);
        if (code != GEMMD_OK)
            return code;
        server->thread_count++;
    }
    return GEMMD_OK;
}

/* Refuses a connection over a limit. The client gets an HTTP answer, so that it learns the reason;
 * a client that speaks TLS gets none, since a handshake would cost more than the limit protects. */
static void refuse_connection(struct http_server *server, int fd, const struct sockaddr *peer)
{
    metrics_connection_refused(server->main_shard);
    if (tls_serves_peer(server->tls, peer)) {
        close(fd);
        return;
    }
    struct fault fault;
    fault_set(&fault, GEMMD_ERR_QUEUE_FULL, NULL, "the limit of open connections is reached");
    char id[REQUEST_ID_MAX + 1];
    request_id_choose(id, NULL, &server->id_state);
    connection_send_fault(fd, &fault, id);
    shutdown(fd, SHUT_WR);
    lingering_add(server->lingering, fd);
    close(fd);
}

void http_server_take(struct http_server *server, int fd, const struct sockaddr *peer,
                      socklen_t peer_length)
{
    if (atomic_load(&server->connections) >= server->options->config.max_connections ||
        !peer_counts_add(server->peers, peer)) {
        refuse_connection(server, fd, peer);
        return;
    }
    atomic_fetch_add(&server->connections, 1);
    arrival_hand_over(
        arrival_choose_thread(server->threads, server->bulk_thread_first, server->next_thread++),
        fd, peer, peer_length);
}

void http_server_check(struct http_server *server)
{
    for (uint32_t i = 0; i < server->thread_count; i++)
        io_thread_check(server->threads[i]);
}

int32_t http_server_stuck_thread(struct http_server *server)
{
    int32_t stuck = -1;
    for (uint32_t i = 0; i < server->thread_count; i++)
        if (!heartbeat_look(&server->threads[i]->heartbeat))
            stuck = (int32_t)i;
    http_server_check(server);
    return stuck;
}

uint32_t http_server_active_requests(const struct http_server *server)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < server->thread_count; i++)
        active += atomic_load(&server->threads[i]->active_requests);
    return active;
}

void http_server_stop(struct http_server *server)
{
    digester_stop(server->digester); /* before the threads that it wakes */
    for (uint32_t i = 0; server->threads != NULL && i < server->thread_count; i++)
        io_thread_stop(server->threads[i]);
}

void http_server_close(struct http_server *server)
{
    for (uint32_t i = 0; server->threads != NULL && i < server->thread_count; i++)
        io_thread_destroy(server->threads[i]);
    free(server->threads);
    server->threads = NULL;
    digester_destroy(server->digester);
    server->digester = NULL;
    peer_counts_destroy(server->peers);
    server->peers = NULL;
}
