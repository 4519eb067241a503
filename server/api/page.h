/*
 * page.h - a page for people: one constant document with its own style and script, which the build
 * makes of the files of a folder (embed_page.cmake) and compiles into the daemon. Any thread may
 * read a page.
 */
#ifndef SERVER_API_PAGE_H
#define SERVER_API_PAGE_H

#include <stddef.h>

struct request;

struct page {
    const char *text; /* NUL-terminated */
    size_t length;
    const char *etag;   /* strong: a hash of the page, in quotes */
    const char *policy; /* Content-Security-Policy: only the page's script and style */
};

/* Answers a request with the page, or with 304 if the client's cache has this version of it. Runs
 * on the request's I/O thread. */
void page_answer(struct request *request, const struct page *page);

#endif
