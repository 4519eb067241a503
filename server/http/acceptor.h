/*
 * acceptor.h - the listening sockets, and the connections that come in through them.
 *
 * An acceptor watches its sockets on the main thread's libuv loop and hands every accepted
 * connection to the HTTP server (http_server_take). Main thread only.
 */
#ifndef SERVER_HTTP_ACCEPTOR_H
#define SERVER_HTTP_ACCEPTOR_H

#include <stdbool.h>
#include <uv.h>

#include "proto/error.h"
#include "server/config/config.h"
#include "server/net/handover.h"
#include "server/observe/log.h"

struct acceptor;
struct http_server;

/* Opens the listening sockets: inherited sockets and the configured addresses. Nothing is accepted
 * before acceptor_start. `loop`, `config`, `log` and `server` are borrowed. After a failure
 * *acceptor, if it is not NULL, has to be destroyed too, once the loop has closed all handles. */
enum gemmd_error acceptor_create(uv_loop_t *loop, const struct config *config, struct log *log,
                                 struct http_server *server, struct acceptor **acceptor,
                                 struct fault *fault);
/* Finds out, without opening a socket, whether acceptor_create would refuse an address of --listen
 * because other hosts may reach the address and every request would be accepted, or --socket-group
 * because there is no such group. GEMMD_ERR_USAGE, or GEMMD_ERR_IO if a host name cannot be
 * resolved. */
enum gemmd_error acceptor_check(const struct config *config, struct fault *fault);
/* Logs the addresses that are listened on. With `open_to_all` (requests need no token), each
 * address that other hosts may reach gets a warning. */
void acceptor_announce(const struct acceptor *acceptor, bool open_to_all);
/* Starts to accept connections. If the process runs out of descriptors or memory, the acceptor
 * stops accepting, and connections wait in the backlog until acceptor_start is called again. Does
 * nothing after acceptor_close. */
void acceptor_start(struct acceptor *acceptor);
/* Writes the listening sockets, which stay the acceptor's, for a new process. Returns their number.
 */
uint32_t acceptor_sockets(const struct acceptor *acceptor,
                          struct handover_socket sockets[CONFIG_LISTEN_MAX]);
/* acceptor_own makes this process the owner of the files of the Unix sockets in --listen, which it
 * removes when it closes the sockets, and gives them --socket-mode and --socket-group.
 * acceptor_disown leaves the files to another process. */
void acceptor_own(struct acceptor *acceptor);
void acceptor_disown(struct acceptor *acceptor);
/* Stops accepting without closing the listening sockets: new connections wait in the backlog. */
void acceptor_pause(struct acceptor *acceptor);
/* Closes the listening sockets: nobody can connect from here on. Runs the loop once; not to be
 * called from a callback of the loop. */
void acceptor_close(struct acceptor *acceptor);
/* Frees the acceptor, after the loop has closed all its handles. NULL is allowed. */
void acceptor_destroy(struct acceptor *acceptor);

#endif
