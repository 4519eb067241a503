/*
 * address.h - the address of a daemon: the URL that the user gives, split for libcurl.
 */
#ifndef CLIENT_ADDRESS_H
#define CLIENT_ADDRESS_H

#include <gemmd/gemmd.h>

enum { ADDRESS_URL_MAX = 1024 };

struct address {
    char *name;      /* the URL as the user gave it, for messages */
    char *base;      /* "http://host:port/prefix" without a slash at the end */
    char *unix_path; /* NULL for TCP */
};

/* Parses "http://...", "https://..." or "unix:PATH". The caller calls address_free in any case,
 * also after a failure. GEMMD_ERR_USAGE, GEMMD_ERR_OUT_OF_MEMORY. */
enum gemmd_error address_parse(struct address *address, const char *url,
                               struct gemmd_error_info *error);
void address_free(struct address *address);

#endif
