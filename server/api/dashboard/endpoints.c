/* GET /: the dashboard (dashboard.h). */
#include "server/api/endpoints.h"
#include "server/api/dashboard/dashboard.h"

static void dashboard_begin(struct request *request)
{
    page_answer(request, &dashboard_page);
}

const struct endpoint dashboard_endpoints[] = {
    {.path = "/",
     .allow = "GET, HEAD",
     .op = METRICS_OP_OTHER,
     .open = true,
     .begin = dashboard_begin},
    {0},
};
