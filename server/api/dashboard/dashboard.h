/*
 * dashboard.h - the dashboard, the page at GET /. embed.cmake makes one document of page.html,
 * page.css and the scripts of js, and compiles the document into the daemon. The data is constant;
 * any thread may read it.
 *
 * The page loads nothing from elsewhere. It requests /info, /metrics, /tensors, /jobs and the paths
 * below /dashboard (feed.c) of its own daemon, and /gemm for a product that its user tries. The
 * page holds no secrets: if the daemon requires a token, the page asks the user for a token, keeps
 * it in memory and sends it with each request.
 */
#ifndef SERVER_API_DASHBOARD_DASHBOARD_H
#define SERVER_API_DASHBOARD_DASHBOARD_H

#include "server/api/page.h"

extern const struct page dashboard_page;

#endif
