#include "server/http/forwarded.h"

#include <string.h>
#include <strings.h>

#include "server/http/connection.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/net/peer_counts.h"

/* Takes the next address of the header; false: the element is no address. */
static void take_element(struct forwarded *forwarded, bool is_address,
                         const struct in6_addr *address)
{
    if (!is_address)
        forwarded->found = false;
    else if (!forwarded->found || !networks_have_address(forwarded->trusted, address)) {
        forwarded->client = *address;
        forwarded->found = true;
    }
}

/* Reads "192.0.2.7", "192.0.2.7:80", "2001:db8::7", "[2001:db8::7]" or "[2001:db8::7]:80". */
static bool read_node(const char *text, size_t length, struct in6_addr *address)
{
    const char *end = text + length;
    if (length > 0 && *text == '[') {
        const char *bracket = memchr(text, ']', length);
        if (bracket == NULL || (bracket + 1 < end && bracket[1] != ':'))
            return false;
        return network_address_read(text + 1, (size_t)(bracket - text - 1), address) &&
               !IN6_IS_ADDR_V4MAPPED(address);
    }
    const char *colon = memchr(text, ':', length);
    if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) == NULL)
        length = (size_t)(colon - text); /* the port of an IPv4 address */
    return network_address_read(text, length, address);
}

/* Whether the characters are white space of HTTP. */
static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes the spaces off both ends of a text. */
static void trim(const char **text, size_t *length)
{
    for (; *length > 0 && is_space(**text); ++*text)
        --*length;
    while (*length > 0 && is_space((*text)[*length - 1]))
        --*length;
}

/* Returns the length of the text up to `stop`, which counts only outside of quotes, or to the end.
 */
static size_t length_until(const char *text, size_t length, char stop)
{
    bool quoted = false;
    size_t at = 0;
    for (; at < length && (quoted || text[at] != stop); at++) {
        if (text[at] == '"')
            quoted = !quoted;
        else if (quoted && text[at] == '\\' && at + 1 < length)
            at++;
    }
    return at;
}

/* Reads the address after "for=" of an element of Forwarded. An element with two of them says
 * nothing. */
static bool read_pairs(const char *text, size_t length, struct in6_addr *address)
{
    uint32_t found = 0;
    bool is_address = false;
    while (length > 0) {
        const size_t whole = length_until(text, length, ';');
        const char *pair = text;
        size_t pair_length = whole;
        trim(&pair, &pair_length);
        if (pair_length >= 4 && strncasecmp(pair, "for=", 4) == 0) {
            pair += 4;
            pair_length -= 4;
            if (pair_length >= 2 && pair[0] == '"' && pair[pair_length - 1] == '"') {
                pair++;
                pair_length -= 2;
            }
            found++;
            is_address = read_node(pair, pair_length, address);
        }
        text += whole < length ? whole + 1 : whole;
        length -= whole < length ? whole + 1 : whole;
    }
    return found == 1 && is_address;
}

void forwarded_read(struct forwarded *forwarded, const char *value)
{
    size_t left = strlen(value);
    for (;;) {
        /* X-Forwarded-For has no quotes. */
        const char *comma = forwarded->is_rfc7239 ? NULL : memchr(value, ',', left);
        const size_t whole = forwarded->is_rfc7239 ? length_until(value, left, ',')
                             : comma == NULL       ? left
                                                   : (size_t)(comma - value);
        const char *element = value;
        size_t length = whole;
        struct in6_addr address;
        trim(&element, &length);
        const bool is_address = forwarded->is_rfc7239 ? read_pairs(element, length, &address)
                                                      : read_node(element, length, &address);
        take_element(forwarded, is_address, &address);
        if (whole == left)
            return;
        value += whole + 1;
        left -= whole + 1;
    }
}

static enum MHD_Result read_line(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct forwarded *forwarded = cls;
    (void)kind;
    if (strcasecmp(name, forwarded->is_rfc7239 ? "Forwarded" : "X-Forwarded-For") == 0)
        forwarded_read(forwarded, value == NULL ? "" : value);
    return MHD_YES;
}

enum gemmd_error forwarded_enter(struct request *request)
{
    const struct http_server *server = request->server;
    const struct networks *trusted = &server->trusted;
    const struct connection *connection = request->connection;
    struct forwarded forwarded = {.trusted = trusted,
                                  .is_rfc7239 = request->config->forwarded_header ==
                                                CONFIG_FORWARDED_RFC7239};
    if (!networks_have(trusted, (const struct sockaddr *)&connection->peer_address))
        return GEMMD_OK;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_line, &forwarded);
    if (!forwarded.found)
        return GEMMD_OK;
    request->client = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = forwarded.client};
    request->client_counted =
        peer_counts_add(server->peers, (const struct sockaddr *)&request->client);
    return request->client_counted
               ? GEMMD_OK
               : fault_set(&request->fault, GEMMD_ERR_QUEUE_FULL, NULL,
                           "requests of this address take all of the places that "
                           "--max-connections-per-address gives one address");
}

void forwarded_leave(struct request *request)
{
    peer_counts_remove(request->server->peers, (const struct sockaddr *)&request->client);
    request->client_counted = false;
}
