/* GET /: the dashboard (dashboard.h). */
#include "server/api/dashboard/dashboard.h"
#include "server/api/endpoints.h"
#include "server/http/request.h"
#include "server/http/respond.h"
#include "server/tensors/tensor_condition.h"

/* The status of the answer: 304 if the browser has this version of the page in its cache. */
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
    const struct payload page = {
        .parts = {{dashboard_page, dashboard_page_length}}, .count = 1, .as_it_is = true};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "text/html; charset=utf-8");
    headers_add(&headers, "Cache-Control", "no-cache");
    headers_add(&headers, "ETag", dashboard_etag);
    headers_add(&headers, "Content-Security-Policy", dashboard_policy);
    headers_add(&headers, "X-Content-Type-Options", "nosniff");
    headers_add(&headers, "Referrer-Policy", "no-referrer");
    respond(request, status_of(request), &headers, &page);
}

const struct endpoint dashboard_endpoints[] = {
    {.path = "/",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .open = true,
     .begin = dashboard_begin},
    {0},
};
