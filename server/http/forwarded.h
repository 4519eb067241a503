/*
 * forwarded.h - the address of a client whose request came through proxies that the daemon trusts
 * (--trusted-proxy).
 *
 * Each proxy appends the address of its peer to a header: X-Forwarded-For or Forwarded (RFC 7239),
 * as --forwarded-header says. The client may have sent the header too, so only the addresses that
 * trusted proxies have appended count: the client is the last address of the header that is not a
 * trusted proxy's, or the first address if all are. An element that is no address, such as
 * "unknown", hides what stands before it.
 *
 * A connection from a trusted proxy does not count as a connection of the proxy's address
 * (--max-connections-per-address). Instead each of its requests in progress counts as a connection
 * of the client.
 */
#ifndef SERVER_HTTP_FORWARDED_H
#define SERVER_HTTP_FORWARDED_H

#include <netinet/in.h>
#include <stdbool.h>

#include "proto/error.h"
#include "server/base/network.h"

struct request;

/* Reads the header of a request, line by line in their order. */
struct forwarded {
    const struct networks *trusted; /* borrowed */
    bool is_rfc7239;                /* the header is Forwarded, else X-Forwarded-For */
    bool found;                     /* `client` is an address */
    struct in6_addr client;
};

/* Reads one line of the header. Pure. */
void forwarded_read(struct forwarded *forwarded, const char *value);

/* Finds the client of a request, and counts the request as one of the client's connections. If
 * --max-connections-per-address is reached, sets request->fault and returns GEMMD_ERR_QUEUE_FULL.
 * Does nothing for a request that did not come from a trusted proxy. Called only if proxies are
 * trusted. On the request's I/O thread, at its headers. */
enum gemmd_error forwarded_enter(struct request *request);
/* Ends what forwarded_enter has counted; called only if request->client_counted is set. */
void forwarded_leave(struct request *request);

#endif
