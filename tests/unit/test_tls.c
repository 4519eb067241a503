/* server/http/tls.c: the files of certificates, reloading them, and the names of clients. */
#include <check.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/tls.h"

static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
static char certificate_path[] = "test_tls.cert.pem", key_path[] = "test_tls.key.pem";
static char other_path[] = "test_tls.other.pem";

static void write_text(const char *path, const gnutls_datum_t *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text->data, 1, text->size, file), text->size);
    fclose(file);
}

/* Writes a new key and a certificate for it, signed by the key itself, that has the names of a
 * client. */
static void write_pair(const char *certificate_file, const char *key_file, unsigned char serial)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t text;
    ck_assert_int_eq(gnutls_x509_privkey_init(&key), 0);
    ck_assert_int_eq(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    ck_assert_int_eq(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, &serial, 1);
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 86400);
    gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, "alice", 5);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, "a.example", 9,
                                         GNUTLS_FSAN_APPEND);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, "spiffe://x/a", 12,
                                         GNUTLS_FSAN_APPEND);
    gnutls_x509_crt_set_basic_constraints(certificate, 1, -1);
    gnutls_x509_crt_set_key(certificate, key);
    ck_assert_int_eq(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    ck_assert_int_eq(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(certificate_file, &text);
    gnutls_free(text.data);
    ck_assert_int_eq(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(key_file, &text);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

/* Both ends of a connection. */
struct stage {
    int fds[2];
    struct io_thread *thread;
    struct connection connection;
    gnutls_session_t server, client;
    gnutls_certificate_credentials_t credentials; /* of the client */
    gnutls_priority_t priorities;
};

static void stage_open(struct stage *stage, struct tls *tls, bool with_certificate)
{
    memset(stage, 0, sizeof *stage);
    stage->thread = aligned_alloc(_Alignof(struct io_thread), sizeof *stage->thread);
    ck_assert_ptr_nonnull(stage->thread);
    memset(stage->thread, 0, sizeof *stage->thread);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, stage->fds), 0);
    stage->connection.fd = stage->fds[0];
    stage->connection.thread = stage->thread;
    ck_assert_int_eq(gnutls_priority_init(&stage->priorities, priorities, NULL), 0);
    gnutls_init(&stage->server, GNUTLS_SERVER | GNUTLS_NONBLOCK);
    gnutls_priority_set(stage->server, stage->priorities);
    tls_begin(tls, &stage->connection, stage->server);
    gnutls_init(&stage->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    gnutls_priority_set(stage->client, stage->priorities);
    gnutls_certificate_allocate_credentials(&stage->credentials);
    if (with_certificate)
        ck_assert_int_eq(gnutls_certificate_set_x509_key_file(stage->credentials, certificate_path,
                                                              key_path, GNUTLS_X509_FMT_PEM),
                         0);
    gnutls_credentials_set(stage->client, GNUTLS_CRD_CERTIFICATE, stage->credentials);
    gnutls_transport_set_int(stage->client, stage->fds[1]);
}

static void stage_close(struct stage *stage)
{
    gnutls_deinit(stage->client);
    gnutls_deinit(stage->server);
    tls_end(&stage->connection);
    gnutls_certificate_free_credentials(stage->credentials);
    gnutls_priority_deinit(stage->priorities);
    close(stage->fds[0]);
    close(stage->fds[1]);
    read_ahead_free(&stage->thread->ahead_buffers);
    free(stage->thread);
}

/* Whether the handshake succeeds on both ends. */
static bool shake_hands(struct stage *stage)
{
    int server = GNUTLS_E_AGAIN, client = GNUTLS_E_AGAIN;
    for (int i = 0; i < 100 && (server == GNUTLS_E_AGAIN || client == GNUTLS_E_AGAIN); i++) {
        if (client == GNUTLS_E_AGAIN)
            client = gnutls_handshake(stage->client);
        if (server == GNUTLS_E_AGAIN)
            server = gnutls_handshake(stage->server);
    }
    return server == 0 && client == 0;
}

/* The serial number of the certificate that the client was shown. */
static int shown_serial(const struct stage *stage)
{
    unsigned count = 0;
    unsigned char serial[32];
    size_t length = sizeof serial;
    gnutls_x509_crt_t certificate;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(stage->client, &count);
    ck_assert_uint_eq(count, 1);
    gnutls_x509_crt_init(&certificate);
    ck_assert_int_eq(gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER), 0);
    ck_assert_int_eq(gnutls_x509_crt_get_serial(certificate, serial, &length), 0);
    gnutls_x509_crt_deinit(certificate);
    return serial[length - 1];
}

static struct config config_of_pair(void)
{
    return (struct config){
        .tls_cert = certificate_path, .tls_key = key_path, .tls_priorities = priorities};
}

static void remove_files(void)
{
    unlink(certificate_path);
    unlink(key_path);
    unlink(other_path);
}

static enum gemmd_error reload(struct tls *tls, struct fault *fault)
{
    struct tls_credentials *fresh;
    const enum gemmd_error code = tls_read(tls, &fresh, fault);
    if (code == GEMMD_OK)
        tls_adopt(tls, fresh);
    return code;
}

START_TEST(new_handshakes_get_the_new_certificate)
{
    const struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct stage before, after;
    struct fault fault = {0};
    char text[8];
    write_pair(certificate_path, key_path, 1);
    ck_assert_msg(tls_create(&config, &tls, &fault) == GEMMD_OK, "%s", fault.detail);
    stage_open(&before, tls, false);
    ck_assert(shake_hands(&before));
    ck_assert_int_eq(shown_serial(&before), 1);

    write_pair(certificate_path, key_path, 2);
    ck_assert_int_eq(reload(tls, &fault), GEMMD_OK);
    stage_open(&after, tls, false);
    ck_assert(shake_hands(&after));
    ck_assert_int_eq(shown_serial(&after), 2);
    ck_assert_ptr_null(tls_client_names(&after.connection));

    /* The old connection goes on. */
    tls_send(&before.connection, "still", 5);
    ssize_t got = gnutls_record_recv(before.client, text, sizeof text);
    ck_assert_int_eq(got, 5);
    stage_close(&before);
    stage_close(&after);
    tls_destroy(tls);
    remove_files();
}
END_TEST

/* A client that has disconnected behind bytes that GnuTLS has not asked for has not ended. */
START_TEST(a_connection_ends_behind_its_last_record)
{
    const struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct stage stage;
    char text[8];
    write_pair(certificate_path, key_path, 1);
    ck_assert_int_eq(tls_create(&config, &tls, NULL), GEMMD_OK);
    stage_open(&stage, tls, false);
    ck_assert(shake_hands(&stage));
    ck_assert_int_eq(gnutls_record_send(stage.client, "first", 5), 5);
    ck_assert_int_eq(gnutls_record_send(stage.client, "second", 6), 6);
    shutdown(stage.fds[1], SHUT_WR);
    ck_assert_int_eq(gnutls_record_recv(stage.server, text, sizeof text), 5);
    ck_assert(!connection_has_ended(&stage.connection));
    ck_assert_int_eq(gnutls_record_recv(stage.server, text, sizeof text), 6);
    ck_assert(connection_has_ended(&stage.connection));
    stage_close(&stage);
    tls_destroy(tls);
    remove_files();
}
END_TEST

START_TEST(wrong_files_change_nothing)
{
    const struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct stage stage;
    struct fault fault = {0};
    write_pair(certificate_path, key_path, 3);
    ck_assert_int_eq(tls_create(&config, &tls, &fault), GEMMD_OK);

    write_pair(certificate_path, other_path, 4); /* the key is that of another certificate */
    ck_assert_int_eq(reload(tls, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, certificate_path));
    unlink(key_path);
    ck_assert_int_eq(reload(tls, &fault), GEMMD_ERR_IO);
    ck_assert_ptr_nonnull(strstr(fault.detail, key_path));
    write_text(key_path, &(gnutls_datum_t){(unsigned char *)"no key", 6});
    ck_assert_int_eq(reload(tls, &fault), GEMMD_ERR_USAGE);

    stage_open(&stage, tls, false);
    ck_assert(shake_hands(&stage));
    ck_assert_int_eq(shown_serial(&stage), 3);
    stage_close(&stage);
    tls_destroy(tls);
    remove_files();
}
END_TEST

/* Certificates that are read and then released are as if they had never been read. */
START_TEST(certificates_that_are_not_adopted_change_nothing)
{
    const struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct tls_credentials *fresh = NULL;
    struct stage stage;
    write_pair(certificate_path, key_path, 3);
    ck_assert_int_eq(tls_create(&config, &tls, NULL), GEMMD_OK);
    const uint64_t expiry_seconds = tls_expiry_seconds(tls);
    write_pair(certificate_path, key_path, 4);
    ck_assert_int_eq(tls_read(tls, &fresh, NULL), GEMMD_OK);
    tls_credentials_release(fresh);
    ck_assert_uint_eq(tls_expiry_seconds(tls), expiry_seconds);
    stage_open(&stage, tls, false);
    ck_assert(shake_hands(&stage));
    ck_assert_int_eq(shown_serial(&stage), 3);
    stage_close(&stage);
    tls_destroy(tls);
    remove_files();
}
END_TEST

START_TEST(clients_have_names)
{
    struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct stage stage;
    write_pair(certificate_path, key_path, 5);
    config.tls_client_ca = certificate_path;
    config.tls_client_auth = CONFIG_CLIENT_AUTH_OPTIONAL;
    ck_assert_int_eq(tls_create(&config, &tls, NULL), GEMMD_OK);
    stage_open(&stage, tls, true);
    ck_assert(shake_hands(&stage));
    static const char names[] = "URI:spiffe://x/a\0DNS:a.example\0CN:alice\0";
    ck_assert_mem_eq(tls_client_names(&stage.connection), names, sizeof names - 1);
    stage_close(&stage);

    stage_open(&stage, tls, false);
    ck_assert(shake_hands(&stage));
    ck_assert_ptr_null(tls_client_names(&stage.connection));
    stage_close(&stage);
    tls_destroy(tls);
    remove_files();
}
END_TEST

START_TEST(priorities_are_checked)
{
    static char wrong[] = "NORMAL:+NONSENSE";
    struct config config = config_of_pair();
    struct tls *tls = NULL;
    struct fault fault = {0};
    config.tls_priorities = wrong;
    ck_assert_int_eq(tls_create(&config, &tls, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "NONSENSE"));
    ck_assert_ptr_null(tls);
}
END_TEST

START_TEST(a_key_that_every_user_can_read_is_refused)
{
    struct tls *tls = NULL;
    struct fault fault = {.detail = ""};
    const struct config config = {
        .tls_cert = certificate_path, .tls_key = key_path, .tls_priorities = priorities};
    write_pair(certificate_path, key_path, 1);
    ck_assert_int_eq(chmod(key_path, 0644), 0);
    ck_assert_int_eq(tls_create(&config, &tls, &fault), GEMMD_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(fault.detail, "can be read by every user"));
    ck_assert_int_eq(chmod(key_path, 0640), 0);
    ck_assert_int_eq(tls_create(&config, &tls, &fault), GEMMD_OK);
    tls_destroy(tls);
}
END_TEST

int main(void)
{
    umask(027);
    Suite *suite = suite_create("tls");
    TCase *tests = tcase_create("tls");
    tcase_add_test(tests, a_key_that_every_user_can_read_is_refused);
    tcase_add_test(tests, new_handshakes_get_the_new_certificate);
    tcase_add_test(tests, a_connection_ends_behind_its_last_record);
    tcase_add_test(tests, wrong_files_change_nothing);
    tcase_add_test(tests, certificates_that_are_not_adopted_change_nothing);
    tcase_add_test(tests, clients_have_names);
    tcase_add_test(tests, priorities_are_checked);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
