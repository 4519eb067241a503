/*
 * endpoint.h - the address of a daemon: the URL that the user gives, split for libcurl.
 */
#ifndef CLIENT_ENDPOINT_H
#define CLIENT_ENDPOINT_H

#include <gemmd/gemmd.h>

enum { ENDPOINT_URL_MAX = 1024 };

struct endpoint {
    char *name;      /* the URL as the user gave it, for messages */
    char *base;      /* "http://host:port/prefix" without a slash at the end */
    char *unix_path; /* NULL for TCP */
};

/* Parses "http://...", "https://..." or "unix:PATH". The caller calls endpoint_free in any case,
 * also after a failure. GEMMD_ERR_USAGE, GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error endpoint_parse(struct endpoint *endpoint, const char *url,
                                struct gemmd_error_info *error);
void endpoint_free(struct endpoint *endpoint);

#endif
