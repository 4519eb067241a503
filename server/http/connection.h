/*
 * connection.h - one client connection: its phase, and its client's identity.
 *
 * The main thread creates a connection; from then on only the connection's I/O thread uses it. A
 * connection records its phase and when the phase began, so that checks (checks.h) can end the
 * connection when the phase has lasted too long.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/base/list.h"
#include "server/http/read_ahead.h"
#include "server/http/request.h"
#include "server/net/delivery.h"

struct http_server;
struct io_thread;
struct request;
struct shm_offer;
struct tls_credentials;
struct gnutls_session_int;

enum connection_phase {
    CONNECTION_IDLE,      /* between requests */
    CONNECTION_HEADERS,   /* the connection is new, or a request line has arrived */
    CONNECTION_BODY,      /* the body is being received */
    CONNECTION_WORKING,   /* the request is queued or computed; only its own deadline limits it */
    CONNECTION_SENDING,   /* the answer is being sent */
    CONNECTION_STREAMING, /* an answer without an end is being sent (stream.h) */
    CONNECTION_EXPIRED,   /* a check has ended the connection: the client was too slow */
    CONNECTION_GONE       /* connection_abandon has ended the connection: the client disconnected */
};

struct connection {
    struct list_item in_checks; /* in a list of the I/O thread's checks */
    struct list_item arriving;  /* in the list of the I/O thread */
    struct io_thread *thread;
    struct inbox_message arrival; /* hands the connection to its I/O thread */
    int fd;
    char peer[64]; /* the peer's address as text, for the log */
    enum { USER_NOT_ASKED, USER_KNOWN, USER_UNKNOWN } user_state;
    uid_t user; /* of the peer, if user_state is USER_KNOWN; see connection_user */
    struct sockaddr_storage peer_address;
    socklen_t peer_length;

    enum connection_phase phase;
    uint64_t since_ns;       /* when the phase began; monotonic clock */
    uint64_t moved_bytes;    /* received in this phase */
    uint64_t deadline_ns;    /* of the request; monotonic clock; 0: none */
    struct delivery sending; /* of the answer, in CONNECTION_SENDING */
    uint64_t paused_ns; /* since when the answer waits (connection_pause_sending); 0: it does not */
    uint64_t next_look_ns; /* when to look whether the client has disconnected */

    /* Of a connection with TLS (tls.h). `session` is NULL without TLS, and before libmicrohttpd has
     * the connection. */
    struct gnutls_session_int *session;
    struct tls_credentials *credentials;
    struct read_ahead ahead;
    char *client_names; /* NULL: not read yet, or the client has no certificate */
    bool encrypted;     /* TLS, and a request has arrived, so the handshake is complete */
    bool shook_hands;   /* TLS, and the client has ended its part of the handshake */

    struct request *request;   /* the request in progress; NULL: none */
    enum gemmd_error ended_by; /* why the daemon ended the connection; GEMMD_OK: it did not */

    /* The memory that the client shares, or the reason why it could not be mapped. Owned by the
     * connection. NULL: the client has offered no memory. */
    struct shm_offer *memory;
    bool bulk; /* the connection counts towards --bulk-connections */
    /* The request was answered before its body was read. When the connection ends, lingering.h
     * reads and drops the rest for a while, so that a TCP reset does not destroy the answer. */
    bool linger;
};

/* Whether the daemon has ended the connection. libmicrohttpd then closes the connection. */
static inline bool connection_is_ended(const struct connection *connection)
{
    return connection->phase == CONNECTION_EXPIRED || connection->phase == CONNECTION_GONE;
}

/* Has every check of the connection's I/O thread look at the connection, which is new or parked
 * (checks.h). */
void connection_watch(struct connection *connection);

/* Enters a phase, which ends the parking of the connection. Returns false, and changes nothing, if
 * the daemon has ended the connection. */
bool connection_enter(struct connection *connection, enum connection_phase phase, uint64_t now_ns);

/* Says that an answer that is being sent waits for the device. The time until
 * connection_go_on_sending does not count against the client (--min-answer-rate). */
void connection_pause_sending(struct connection *connection, uint64_t now_ns);
/* Ends the pause, if there is one. */
void connection_go_on_sending(struct connection *connection, uint64_t now_ns);

/* Writes an error answer for `fault` directly to the socket, because libmicrohttpd cannot answer in
 * the middle of an upload. The function does not block; an answer that the socket's buffer does not
 * take is lost. The caller must end the connection afterwards. `request_id` must not be empty.
 * Returns the length of the answer's body in bytes. */
uint64_t connection_send_fault(int fd, const struct fault *fault, const char *request_id);
/* The same for a connection that libmicrohttpd has been given. With TLS the answer is encrypted;
 * the answer is not sent if the handshake may not be complete. */
uint64_t connection_answer_fault(struct connection *connection, const struct fault *fault,
                                 const char *request_id);

/* The id of the request in progress. Without a request in progress: a new id, written to `scratch`.
 */
const char *connection_request_id(struct connection *connection, char scratch[REQUEST_ID_MAX + 1]);

/* Finds which user of this host is the peer (peer_user.h); the system is asked only once for a
 * connection. Returns false if the peer's user is not known, for example on another host. */
bool connection_user(struct connection *connection, uid_t *user);

/* Whether the client has ended its side of the connection, and everything it sent has been read. */
bool connection_has_ended(const struct connection *connection);
/* Ends a connection whose client has disconnected: shuts down the socket. libmicrohttpd then closes
 * the connection. */
void connection_abandon(struct connection *connection);

/* Answers with 431 because the parameters of the query do not fit in libmicrohttpd's buffer. The
 * caller must end the connection afterwards. */
void connection_refuse_parameters(struct connection *connection);

#endif
