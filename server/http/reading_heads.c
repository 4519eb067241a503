#include "server/http/reading_heads.h"

#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http/connection.h"
#include "server/http/guard.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"

void reading_heads_add(struct reading_heads *heads, struct request *request)
{
    request->reads_head = true;
    request->newer_head = NULL;
    request->older_head = heads->newest;
    if (heads->newest != NULL)
        heads->newest->newer_head = request;
    heads->newest = request;
}

void reading_heads_remove(struct reading_heads *heads, struct request *request)
{
    if (!request->reads_head)
        return;
    request->reads_head = false;
    if (request->newer_head != NULL)
        request->newer_head->older_head = request->older_head;
    else
        heads->newest = request->older_head;
    if (request->older_head != NULL)
        request->older_head->newer_head = request->newer_head;
}

/* Whether libmicrohttpd has all headers of the request and no answer to it. It gives the size of
 * the headers only if they are complete. */
static bool is_at_its_headers(const struct request *request)
{
    return request->connection->phase == CONNECTION_HEADERS &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_HTTP_STATUS) == NULL;
}

static void refuse(struct request *request, unsigned status)
{
    struct connection *connection = request->connection;
    struct fault *fault = &request->fault;
    if (status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE)
        fault_set(fault, GEMMD_ERR_HEADERS_TOO_LARGE, NULL,
                  "the cookies do not fit in the connection's buffer");
    else
        guard_set_bad_length(request, status == MHD_HTTP_CONTENT_TOO_LARGE);
    request_choose_id(request);
    connection->phase = CONNECTION_EXPIRED;
    connection->ended_by = fault->code;
    connection->linger = true;
    request->response_bytes = connection_answer_fault(connection, fault, request->id);
    shutdown(connection->fd, SHUT_WR);
}

void reading_heads_on_message(void *cls, const char *format, va_list arguments)
{
    const struct io_thread *thread = cls;
    /* libmicrohttpd writes this message before it answers by itself. The first argument is the
     * status of its answer. */
    if (strstr(format, "(HTTP response code is %u (") == NULL)
        return;
    struct request *request = thread->reading_heads.newest;
    while (request != NULL && !is_at_its_headers(request))
        request = request->older_head;
    if (request != NULL)
        refuse(request, va_arg(arguments, unsigned));
}
