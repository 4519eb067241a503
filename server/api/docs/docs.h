/*
 * docs.h - the documentation of the API, the page at GET /docs. embed.cmake makes one document of
 * page.html, page.css and the scripts of js, and compiles the document into the daemon.
 *
 * The page shows every operation of the daemon's own /openapi.json, and sends requests that its
 * user composes to that daemon. The page loads nothing from elsewhere and holds no secrets: a token
 * that the user enters is kept in memory and sent with each request.
 */
#ifndef SERVER_API_DOCS_DOCS_H
#define SERVER_API_DOCS_DOCS_H

#include "server/api/page.h"

extern const struct page docs_page;

#endif
