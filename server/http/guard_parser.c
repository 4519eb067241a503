#include "server/http/guard_parser.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The most runs that libmicrohttpd may need to read a request that has been sent completely. */
enum { RUNS_MAX = 16 };

static const char sample[] = "GET /path?name=value HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\n"
                             "X-Last:  two words\r\n\r\n";

/* The state of the sample request in libmicrohttpd. Only pointers are compared, since the memory
 * that they point to may not be as the guard expects. */
struct trial {
    const char *target;
    const char *next; /* where the next header line has to begin */
    unsigned headers;
    bool was_asked, is_as_expected;
};

static void *take_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct trial *trial = cls;
    (void)mhd;
    trial->target = target;
    return trial;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   size_t name_bytes, const char *value, size_t value_bytes)
{
    struct trial *trial = cls;
    (void)kind;
    (void)name_bytes;
    trial->headers++;
    trial->is_as_expected &= name == trial->next && value != NULL;
    trial->next = value == NULL ? NULL : value + value_bytes + 2;
    return MHD_YES;
}

static enum MHD_Result take_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *body,
                                    size_t *body_bytes, void **context)
{
    struct trial *trial = cls;
    (void)url;
    (void)body;
    (void)body_bytes;
    (void)context;
    trial->was_asked = true;
    trial->next = version + strlen(version) + 2;
    trial->is_as_expected =
        trial->target == method + strlen("GET ") &&
        version == trial->target + strlen("/path?name=value "); /* the target is cut at its query */
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, take_header, trial);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    trial->is_as_expected = trial->is_as_expected && trial->headers == 3 && info != NULL &&
                            trial->next + 2 == method + info->header_size;
    return MHD_NO; /* closes the connection */
}

/* Lets libmicrohttpd read the sample. Returns false if libmicrohttpd could not be tried. */
static bool try_sample(struct trial *trial)
{
    int ends[2];
    const struct sockaddr address = {.sa_family = AF_UNIX};
    struct MHD_Daemon *mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, take_request,
                         trial, MHD_OPTION_URI_LOG_CALLBACK, take_target, trial, MHD_OPTION_END);
    if (mhd == NULL)
        return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        goto stop;
    /* libmicrohttpd closes its end of the connection, whether or not it takes the connection. */
    if (send(ends[1], sample, sizeof sample - 1, MSG_NOSIGNAL) == (ssize_t)(sizeof sample - 1)) {
        if (MHD_add_connection(mhd, ends[0], &address, sizeof address.sa_family) == MHD_YES)
            for (int i = 0; i < RUNS_MAX && !trial->was_asked; i++)
                (void)MHD_run(mhd);
    } else {
        close(ends[0]);
    }
    close(ends[1]);
stop:
    MHD_stop_daemon(mhd);
    return trial->was_asked;
}

enum gemmd_error guard_parser_find(bool *is_lenient, struct fault *fault)
{
    static const char lenient[] = "0.9.";
    const char *version = MHD_get_version();
    struct trial trial = {.was_asked = false};
    *is_lenient = strncmp(version, lenient, sizeof lenient - 1) == 0;
    if (!*is_lenient && atoi(version) < 1)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "libmicrohttpd %.32s is not known to gemmd, which needs 0.9.75 or newer, "
                         "or 1.0 or newer",
                         version);
    if (!*is_lenient)
        return GEMMD_OK;
    if (!try_sample(&trial))
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL,
                         "libmicrohttpd %.32s could not be tried with a request", version);
    if (!trial.is_as_expected)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "libmicrohttpd %.32s keeps the head of a request in another way than "
                         "gemmd checks it, so that requests could be smuggled past a proxy",
                         version);
    return GEMMD_OK;
}
