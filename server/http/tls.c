#include "server/http/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "server/base/option_file.h"
#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/read_ahead.h"
#include "server/http/token_line.h"

enum { NAMES_MAX = 16 }; /* the names of a client certificate that are read, at most */

struct tls_credentials {
    gnutls_certificate_credentials_t handle;
    int64_t valid_from, valid_until; /* Unix times between which all its certificates are valid */
    atomic_uint holders;             /* sessions, and struct tls or the caller of tls_read */
};

struct tls {
    const struct config *config;
    pthread_mutex_t lock;                    /* for `current` */
    struct tls_credentials *current;         /* of new sessions */
    _Atomic int64_t valid_from, valid_until; /* those of `current` */
};

/* The certificate callback of libmicrohttpd's own credentials. Refuses the handshake, because a
 * session uses libmicrohttpd's credentials only if tls_begin could not give it others. */
static int refuse_certificate(gnutls_session_t session, const gnutls_datum_t *authorities,
                              int authority_count, const gnutls_pk_algorithm_t *algorithms,
                              int algorithm_count, gnutls_pcert_st **certificates,
                              unsigned int *certificate_count, gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)authority_count, (void)algorithms;
    (void)algorithm_count, (void)certificates, (void)certificate_count, (void)key;
    return -1;
}

void tls_daemon_options(const struct tls *tls, struct MHD_OptionItem options[TLS_DAEMON_OPTIONS])
{
    options[0] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, tls->config->tls_priorities};
    options[1] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)refuse_certificate};
}

/* Checks a client's certificate during the handshake. Whether a client may have none is not decided
 * here but by gnutls_certificate_server_set_request. */
static int verify_client(gnutls_session_t session)
{
    unsigned count = 0, status = 0;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    if (gnutls_certificate_get_peers(session, &count) == NULL || count == 0)
        return 0;
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == GNUTLS_E_SUCCESS &&
        status == 0)
        return 0;
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, GNUTLS_A_BAD_CERTIFICATE);
    return -1;
}

/* ---- the files ---- */

/* The text as GnuTLS takes it. */
static gnutls_datum_t datum_of(const struct option_text *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text->bytes, .size = (unsigned)text->length};
}

static enum gemmd_error set_pair(const struct config *config,
                                 gnutls_certificate_credentials_t handle, struct fault *fault)
{
    const struct option_file of_certificate = {.option = "tls-cert", .path = config->tls_cert};
    const struct option_file of_key = {
        .option = "tls-key", .path = config->tls_key, .is_private = true};
    struct option_text certificate = {.bytes = NULL}, key = {.bytes = NULL};
    enum gemmd_error error = option_file_read(&of_certificate, &certificate, fault);
    if (error == GEMMD_OK)
        error = option_file_read(&of_key, &key, fault);
    if (error == GEMMD_OK) {
        const gnutls_datum_t chain = datum_of(&certificate), secret = datum_of(&key);
        const int got = gnutls_certificate_set_x509_key_mem2(handle, &chain, &secret,
                                                             GNUTLS_X509_FMT_PEM, NULL, 0);
        if (got < 0)
            error = fault_set(fault, GEMMD_ERR_USAGE, "tls-cert",
                              "%.100s and %.100s are not a certificate and its key in PEM: %s",
                              config->tls_cert, config->tls_key, gnutls_strerror(got));
    }
    option_text_free(&certificate);
    option_text_free(&key);
    return error;
}

static enum gemmd_error set_authorities(const struct config *config,
                                        gnutls_certificate_credentials_t handle,
                                        struct fault *fault)
{
    const struct option_file file = {.option = "tls-client-ca", .path = config->tls_client_ca};
    struct option_text text;
    if (config->tls_client_ca == NULL)
        return GEMMD_OK;
    enum gemmd_error error = option_file_read(&file, &text, fault);
    if (error == GEMMD_OK) {
        const gnutls_datum_t authorities = datum_of(&text);
        const int got =
            gnutls_certificate_set_x509_trust_mem(handle, &authorities, GNUTLS_X509_FMT_PEM);
        if (got <= 0)
            error = fault_set(fault, GEMMD_ERR_USAGE, "tls-client-ca",
                              "%.120s has no certificate in PEM%s%s", config->tls_client_ca,
                              got < 0 ? ": " : "", got < 0 ? gnutls_strerror(got) : "");
    }
    option_text_free(&text);
    gnutls_certificate_set_verify_function(handle, verify_client);
    return error;
}

/* Reads the times between which all certificates of the file --tls-cert are valid. */
static enum gemmd_error read_times(struct tls_credentials *credentials, struct fault *fault)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    const int got = gnutls_certificate_get_x509_crt(credentials->handle, 0, &chain, &count);
    if (got < 0)
        return fault_set(fault, GEMMD_ERR_USAGE, "tls-cert",
                         "the certificates of --tls-cert cannot be read: %s", gnutls_strerror(got));
    credentials->valid_from = 0;
    credentials->valid_until = INT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        const int64_t begin = gnutls_x509_crt_get_activation_time(chain[i]);
        const int64_t end = gnutls_x509_crt_get_expiration_time(chain[i]);
        if (begin > credentials->valid_from)
            credentials->valid_from = begin;
        if (end < credentials->valid_until)
            credentials->valid_until = end;
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return GEMMD_OK;
}

void tls_credentials_release(struct tls_credentials *credentials)
{
    if (credentials == NULL || atomic_fetch_sub(&credentials->holders, 1) > 1)
        return;
    gnutls_certificate_free_credentials(credentials->handle);
    free(credentials);
}

enum gemmd_error tls_read(const struct tls *tls, struct tls_credentials **out, struct fault *fault)
{
    struct tls_credentials *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || gnutls_certificate_allocate_credentials(&fresh->handle) < 0) {
        free(fresh);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the certificates");
    }
    atomic_store(&fresh->holders, 1);
    enum gemmd_error error = set_pair(tls->config, fresh->handle, fault);
    if (error == GEMMD_OK)
        error = set_authorities(tls->config, fresh->handle, fault);
    if (error == GEMMD_OK)
        error = read_times(fresh, fault);
    if (error == GEMMD_OK)
        *out = fresh;
    else
        tls_credentials_release(fresh);
    return error;
}

void tls_adopt(struct tls *tls, struct tls_credentials *fresh)
{
    pthread_mutex_lock(&tls->lock);
    struct tls_credentials *old = tls->current;
    tls->current = fresh;
    atomic_store(&tls->valid_from, fresh->valid_from);
    atomic_store(&tls->valid_until, fresh->valid_until);
    pthread_mutex_unlock(&tls->lock);
    tls_credentials_release(old);
}

enum gemmd_error tls_create(const struct config *config, struct tls **out, struct fault *fault)
{
    gnutls_priority_t priorities;
    const char *wrong = NULL;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return fault_set(fault, GEMMD_ERR_USAGE, "tls-cert",
                         "this system's libmicrohttpd was built without TLS");
    if (gnutls_priority_init(&priorities, config->tls_priorities, &wrong) != GNUTLS_E_SUCCESS)
        return fault_set(fault, GEMMD_ERR_USAGE, "tls-priorities",
                         "--tls-priorities is not a GnuTLS priority string; it is wrong at '%.60s'",
                         wrong == NULL ? "" : wrong);
    gnutls_priority_deinit(priorities);
    struct tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL || pthread_mutex_init(&tls->lock, NULL) != 0) {
        free(tls);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for TLS");
    }
    tls->config = config;
    struct tls_credentials *first = NULL;
    const enum gemmd_error error = tls_read(tls, &first, fault);
    if (first == NULL) {
        tls_destroy(tls);
        return error;
    }
    tls_adopt(tls, first);
    *out = tls;
    return GEMMD_OK;
}

uint64_t tls_expiry_seconds(const struct tls *tls)
{
    const int64_t until = atomic_load(&tls->valid_until);
    return until < 0 ? 0 : (uint64_t)until;
}

bool tls_warns(const struct tls *tls, char warning[TLS_WARNING_MAX])
{
    struct timespec now;
    char text[32];
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    const time_t from = (time_t)atomic_load(&tls->valid_from);
    const time_t until = (time_t)atomic_load(&tls->valid_until);
    const bool expired = until <= now.tv_sec;
    if (!expired && from <= now.tv_sec)
        return false;
    if (gmtime_r(expired ? &until : &from, &parts) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
    snprintf(warning, TLS_WARNING_MAX,
             "a certificate in --tls-cert %.200s %s %s, so that clients refuse the connection; "
             "replace the file and send SIGHUP",
             tls->config->tls_cert, expired ? "expired at" : "is not valid before", text);
    return true;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    tls_credentials_release(tls->current);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

bool tls_serves_peer(const struct tls *tls, const struct sockaddr *peer)
{
    return tls != NULL && peer->sa_family != AF_UNIX;
}

/* ---- sessions ---- */

/* Sends bytes of records for GnuTLS. Counts the sent record as progress of the I/O thread
 * (`moved`), so that the thread does not pause: libmicrohttpd sends one record in each run, and
 * asks for the next run at once. */
static ssize_t push_bytes(gnutls_transport_ptr_t transport, const void *bytes, size_t length)
{
    struct connection *connection = transport;
    const ssize_t sent = send(connection->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        connection->thread->moved = true;
    return sent;
}

static ssize_t pull_bytes(gnutls_transport_ptr_t transport, void *bytes, size_t capacity)
{
    struct connection *connection = transport;
    return read_ahead_recv(&connection->ahead, &connection->thread->ahead_buffers, connection->fd,
                           bytes, capacity);
}

/* Called when a message Finished is received or sent. The client's message completes the handshake.
 */
static int note_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                         const gnutls_datum_t *message)
{
    struct connection *connection = gnutls_transport_get_ptr(session);
    (void)type, (void)when, (void)message;
    if (incoming)
        connection->shook_hands = true;
    return 0;
}

void tls_begin(struct tls *tls, struct connection *connection, struct gnutls_session_int *session)
{
    pthread_mutex_lock(&tls->lock);
    struct tls_credentials *credentials = tls->current;
    atomic_fetch_add(&credentials->holders, 1);
    pthread_mutex_unlock(&tls->lock);
    connection->session = session;
    connection->credentials = credentials;
    /* If memory runs out, the session keeps libmicrohttpd's credentials, which have no certificate.
     */
    (void)gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials->handle);
    if (tls->config->tls_client_ca != NULL)
        gnutls_certificate_server_set_request(session, tls->config->tls_client_auth ==
                                                               CONFIG_CLIENT_AUTH_REQUIRE
                                                           ? GNUTLS_CERT_REQUIRE
                                                           : GNUTLS_CERT_REQUEST);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST,
                                       note_finished);
    gnutls_transport_set_ptr(session, connection);
    gnutls_transport_set_push_function(session, push_bytes);
    gnutls_transport_set_pull_function(session, pull_bytes);
}

void tls_end(struct connection *connection)
{
    connection->session = NULL;
    read_ahead_drop(&connection->ahead, &connection->thread->ahead_buffers);
    tls_credentials_release(connection->credentials);
    connection->credentials = NULL;
    free(connection->client_names);
    connection->client_names = NULL;
}

void tls_send(struct connection *connection, const char *bytes, size_t length)
{
    /* If the socket has not taken a record completely, such as that of libmicrohttpd's 100
     * Continue, GnuTLS takes the next bytes for those of the same record, and drops them. So that
     * record is completed first; without such a record, the call does nothing. */
    (void)gnutls_record_send(connection->session, NULL, 0);
    (void)gnutls_record_send(connection->session, bytes, length);
}

/* ---- the names of clients ---- */

struct name_list {
    char *end;
    char text[NAMES_MAX * (CERTIFICATE_NAME_MAX + 1) + 1];
};

/* Adds a name, unless the name is too long, has a zero byte in it, or the list is full. */
static void add_name(struct name_list *list, const char *kind, const char *name, size_t length)
{
    const size_t room = (size_t)(list->text + sizeof list->text - 1 - list->end);
    const size_t bytes = strlen(kind) + length + 1;
    if (length == 0 || bytes > CERTIFICATE_NAME_MAX + 1 || bytes > room ||
        memchr(name, '\0', length) != NULL)
        return;
    memcpy(list->end, kind, strlen(kind));
    memcpy(list->end + strlen(kind), name, length);
    list->end[bytes - 1] = '\0';
    list->end += bytes;
}

static void add_alternative_names(struct name_list *list, gnutls_x509_crt_t certificate,
                                  gnutls_x509_subject_alt_name_t wanted, const char *kind)
{
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        char name[CERTIFICATE_NAME_MAX + 1];
        size_t length = sizeof name;
        unsigned type = 0;
        const int got =
            gnutls_x509_crt_get_subject_alt_name2(certificate, i, name, &length, &type, NULL);
        if (got == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return;
        if (got >= 0 && type == (unsigned)wanted)
            add_name(list, kind, name, length);
    }
}

static void add_names(struct name_list *list, const gnutls_datum_t *der)
{
    gnutls_x509_crt_t certificate;
    char name[CERTIFICATE_NAME_MAX + 1];
    size_t length = sizeof name;
    if (gnutls_x509_crt_init(&certificate) < 0)
        return;
    if (gnutls_x509_crt_import(certificate, der, GNUTLS_X509_FMT_DER) >= 0) {
        add_alternative_names(list, certificate, GNUTLS_SAN_URI, "URI:");
        add_alternative_names(list, certificate, GNUTLS_SAN_DNSNAME, "DNS:");
        if (gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
                                          &length) >= 0)
            add_name(list, "CN:", name, length);
    }
    gnutls_x509_crt_deinit(certificate);
}

const char *tls_client_names(struct connection *connection)
{
    unsigned count = 0;
    if (connection->client_names != NULL || connection->session == NULL)
        return connection->client_names;
    /* Peers without a verified certificate did not get through the handshake. Without
     * --tls-client-ca no client is asked for a certificate. */
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(connection->session, &count);
    if (chain == NULL || count == 0)
        return NULL;
    struct name_list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return NULL;
    list->end = list->text;
    add_names(list, &chain[0]);
    const size_t bytes = (size_t)(list->end - list->text) + 1;
    connection->client_names = calloc(1, bytes);
    if (connection->client_names != NULL)
        memcpy(connection->client_names, list->text, bytes);
    free(list);
    return connection->client_names;
}
