/* GET /: the page for people (server/api/dashboard/dashboard.h). */
#include "server/api/dashboard/dashboard.h"
#include "server/http/endpoints.h"
#include "server/http/respond.h"
#include "server/tensors/tensor_condition.h"

/* Browsers keep the page, and ask each time whether it is still the one. */
static int status_of(struct request *request)
{
    const struct tensor_condition condition = {
        .if_none_match = request_header(request, "If-None-Match"),
    };
    return tensor_condition_evaluate(&condition, true, dashboard_etag) == TENSOR_CONDITION_SAME
               ? 304
               : 200;
}

static void dashboard_begin(struct request *request)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Type", "text/html; charset=utf-8"},
        {"Cache-Control", "no-cache"},
        {"ETag", dashboard_etag},
        {"Content-Security-Policy", dashboard_policy},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
    };
    const int status = status_of(request);
    /* libmicrohttpd only reads, but the parameter is not const. */
    union {
        const void *in;
        void *out;
    } page = {.in = dashboard_page};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(dashboard_page_length, page.out, MHD_RESPMEM_PERSISTENT);
    for (size_t i = 0; response != NULL && i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i].name, headers[i].value);
    respond(request, status, response, status == 304 ? 0 : dashboard_page_length);
}

const struct endpoint endpoint_dashboard = {.path = "/",
                                            .allow = "GET, HEAD",
                                            .op = METRICS_OP_OTHER,
                                            .open = true,
                                            .begin = dashboard_begin};
