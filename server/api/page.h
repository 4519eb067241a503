/*
 * page.h - the pages for people. A page is one constant document with its own style and script,
 * which the build makes of the files of a folder (embed_page.cmake) and compiles into the daemon.
 * Any thread may read a page.
 *
 * A page loads nothing from elsewhere and holds no secrets: a token that the user enters is kept in
 * memory and sent with each request.
 */
#ifndef SERVER_API_PAGE_H
#define SERVER_API_PAGE_H

#include <stddef.h>

struct page {
    const char *text; /* NUL-terminated */
    size_t length;
    const char *etag;   /* strong: a hash of the page, in quotes */
    const char *policy; /* Content-Security-Policy: only the page's script and style */
};

/* The dashboard, at GET /. It requests /info, /metrics, /tensors, /jobs and the paths below
 * /dashboard (dashboard/feed.c) of its own daemon, and /gemm for a product that its user tries. If
 * the daemon requires a token, the page asks the user for one. */
extern const struct page dashboard_page;
/* The documentation of the API, at GET /docs. It shows every operation of the daemon's own
 * /openapi.json, and sends requests that its user composes to that daemon. */
extern const struct page docs_page;

#endif
