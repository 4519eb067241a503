/*
 * tls.h - TLS on the daemon's TCP listeners: certificate, key and the certificates of clients.
 *
 * libmicrohttpd runs the handshakes and the records with GnuTLS. libmicrohttpd fixes the
 * certificate of one of its daemons when that daemon starts, so tls_begin gives each session its
 * credentials instead. Credentials are reference counted: tls_adopt changes what new sessions are
 * given, and a session keeps the credentials that it began with.
 *
 * The main thread creates, reloads and destroys. The functions that take a connection run on its
 * I/O thread.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/config/config.h"

struct connection;
struct gnutls_session_int;
struct tls;
struct tls_credentials;

/* The first byte of a TLS record that holds a handshake message (RFC 8446, 5.1). */
enum { TLS_HANDSHAKE_RECORD = 0x16 };

/* Reads the files that --tls-cert, --tls-key and --tls-client-ca name; `config` is borrowed. The
 * caller owns `*tls`. GEMMD_ERR_USAGE: libmicrohttpd was built without TLS, --tls-priorities is
 * malformed, a file has no certificate or no key, or the key is not the certificate's.
 * GEMMD_ERR_OUT_OF_MEMORY, and the errors of option_file_read. */
enum gemmd_error tls_create(const struct config *config, struct tls **tls, struct fault *fault);
/* Reads the files again, and checks them, with the errors of tls_create. The caller owns the new
 * credentials, and hands them to tls_adopt or to tls_credentials_release. */
enum gemmd_error tls_read(const struct tls *tls, struct tls_credentials **fresh,
                          struct fault *fault);
/* Puts new credentials in force, and takes them over. Handshakes that begin later use them, and
 * open connections keep theirs. */
void tls_adopt(struct tls *tls, struct tls_credentials *fresh);
/* Ends a use of credentials, which are freed after their last use. NULL is allowed. */
void tls_credentials_release(struct tls_credentials *credentials);
/* The Unix time at which the first of the certificates in the file --tls-cert expires, of those
 * that new sessions use. Any thread. */
uint64_t tls_expiry_seconds(const struct tls *tls);
/* Whether one of these certificates has expired or is not valid yet, so that clients refuse the
 * daemon. If so, writes a sentence that says so. */
enum { TLS_WARNING_MAX = 400 };
bool tls_warns(const struct tls *tls, char warning[TLS_WARNING_MAX]);
/* No session may be left. NULL is allowed. */
void tls_destroy(struct tls *tls);

/* Whether a connection of the peer's address family is served with TLS: every connection over TCP
 * is, if the daemon has a certificate (`tls` is not NULL). Any thread. */
bool tls_serves_peer(const struct tls *tls, const struct sockaddr *peer);

enum { TLS_DAEMON_OPTIONS = 2 };
/* Writes the options with which libmicrohttpd starts a daemon with MHD_USE_TLS. They borrow from
 * `tls`. */
void tls_daemon_options(const struct tls *tls, struct MHD_OptionItem options[TLS_DAEMON_OPTIONS]);

/* Gives a session that libmicrohttpd has just made its credentials, asks for a client certificate
 * if the options say so, and sets connection->session. */
void tls_begin(struct tls *tls, struct connection *connection, struct gnutls_session_int *session);
/* Releases the session's credentials, after libmicrohttpd has freed the session. */
void tls_end(struct connection *connection);

/* Sends bytes over a session whose handshake is complete. Does not block: bytes that the socket
 * does not take are lost, and the caller must end the connection. */
void tls_send(struct connection *connection, const char *bytes, size_t length);

/* The names in the client's verified certificate: zero-terminated texts "URI:...", "DNS:..." and
 * "CN:...", in this order, and an empty text at the end. NULL: the client has no certificate, or
 * memory ran out. Borrowed; the names live as long as the connection. */
const char *tls_client_names(struct connection *connection);

#endif
