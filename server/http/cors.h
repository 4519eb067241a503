/*
 * cors.h - answers that web pages of other origins may read: the CORS protocol of the Fetch
 * standard (https://fetch.spec.whatwg.org/#http-cors-protocol), for the origins of --allow-origin.
 *
 * A browser lets a page read an answer only if the answer names the page's origin. Before a request
 * that a form could not send, such as one with an Authorization header, the browser asks with
 * OPTIONS, and without a token, whether it may send the request (preflight). The daemon has no
 * cookies and never allows credentials that a browser adds by itself.
 *
 * All functions run on the request's I/O thread, and only with --allow-origin.
 */
#ifndef SERVER_HTTP_CORS_H
#define SERVER_HTTP_CORS_H

#include <microhttpd.h>
#include <stdbool.h>

struct request;

/* Whether the request is a preflight of an origin of --allow-origin. */
bool cors_is_preflight(const struct request *request, const char *method);

/* Adds the fields that let a page of an origin of --allow-origin read the answer. Returns false if
 * memory ran out. */
bool cors_add_headers(const struct request *request, struct MHD_Response *response);

#endif
