/* GET /docs: the documentation of the API (docs.h). */
#include "server/api/endpoints.h"
#include "server/api/docs/docs.h"

static void docs_begin(struct request *request)
{
    page_answer(request, &docs_page);
}

const struct endpoint docs_endpoints[] = {
    {.path = "/docs",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .open = true,
     .begin = docs_begin},
    {0},
};
