/*
 * dashboard.h - the page at GET /, built in: page.html with page.css and page.js in it, made one
 * document by embed.cmake. Static storage, read-only, any thread.
 *
 * The page has everything in itself and asks its own daemon only, for /metrics, /info and, where it
 * is not ready, /readyz. It holds nothing that is not public: where the daemon wants a token, the
 * page asks for one, keeps it in memory and sends it along.
 */
#ifndef SERVER_API_DASHBOARD_DASHBOARD_H
#define SERVER_API_DASHBOARD_DASHBOARD_H

#include <stddef.h>

extern const char dashboard_page[]; /* NUL-terminated */
extern const size_t dashboard_page_length;
extern const char dashboard_etag[];   /* strong: a hash of the page, in quotes */
extern const char dashboard_policy[]; /* Content-Security-Policy: this script and style, no other */

#endif
