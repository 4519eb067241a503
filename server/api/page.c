/* GET / and GET /docs: the pages for people. */
#include "server/api/page.h"

#include "server/api/endpoints.h"
#include "server/http/request.h"
#include "server/http/respond.h"
#include "server/tensors/tensor_condition.h"

static int page_status(struct request *request, const struct page *page)
{
    const struct tensor_condition condition = {
        .if_none_match = request_header(request, "If-None-Match"),
    };
    return tensor_condition_evaluate(&condition, true, page->etag) == TENSOR_CONDITION_SAME ? 304
                                                                                            : 200;
}

/* Answers with the page, or with 304 if the client's cache has this version of it. */
static void page_answer(struct request *request, const struct page *page)
{
    const struct payload payload = {
        .parts = {{page->text, page->length}}, .count = 1, .as_it_is = true};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "text/html; charset=utf-8");
    headers_add(&headers, "Cache-Control", "no-cache");
    headers_add(&headers, "ETag", page->etag);
    headers_add(&headers, "Content-Security-Policy", page->policy);
    headers_add(&headers, "X-Content-Type-Options", "nosniff");
    headers_add(&headers, "Referrer-Policy", "no-referrer");
    respond(request, page_status(request, page), &headers, &payload);
}

static void dashboard_begin(struct request *request)
{
    page_answer(request, &dashboard_page);
}

static void docs_begin(struct request *request)
{
    page_answer(request, &docs_page);
}

const struct endpoint page_endpoints[] = {
    {.path = "/",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .open = true,
     .begin = dashboard_begin},
    {.path = "/docs",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .open = true,
     .begin = docs_begin},
    {0},
};
