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
    char *unix_path; /* path of a Unix socket; NULL: the daemon listens on TCP */
};

/* Parses "http://...", "https://...", "HOST:PORT", which is short for "http://HOST:PORT", or
 * "unix:PATH", and fills in `address`. Returns GEMMD_OK,
 * GEMMD_ERR_USAGE or GEMMD_ERR_OUT_OF_MEMORY, with `error` filled in. The strings of `address`
 * belong to the structure: the caller calls address_free in any case, also after a failure. */
enum gemmd_error address_parse(struct address *address, const char *url,
                               struct gemmd_error_info *error);
void address_free(struct address *address);

#endif
