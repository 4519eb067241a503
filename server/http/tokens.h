/*
 * tokens.h - the credentials that the daemon accepts: bearer tokens (RFC 6750) and names in client
 * certificates. Each belongs to a tenant, has scopes and a highest priority, and may
 * expire.
 *
 * A token file has one credential on each line (token_line.h). Empty lines and lines that start
 * with # are skipped. A tenant may have several credentials, so that a token can be replaced while
 * clients still use the old one. Only the SHA-256 of a token is kept in memory.
 *
 * The main thread loads and reloads the credentials. Any thread may look credentials up at any time
 * without a lock.
 *
 * A tenant has a number, by which other parts of the daemon account for what the tenant holds. A
 * name keeps its number for the life of the process: a tenant that a reload adds gets the next
 * number, and a tenant that a reload takes away keeps its number for the case that a later file
 * names the tenant again. All numbers are below TENANTS_MAX.
 */
#ifndef SERVER_HTTP_TOKENS_H
#define SERVER_HTTP_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/token_line.h"

enum { TOKENS_MAX = 1024, TENANTS_MAX = 1024 };

struct tokens;
struct token_list;

/* The tenant and the rights of a credential. */
struct token_grant {
    uint32_t tenant;
    uint32_t scopes;       /* bits of enum token_scope; none if the credential has expired */
    uint32_t max_priority; /* the highest priority of requests with the credential */
};

enum token_verdict {
    TOKEN_GRANTED,
    TOKEN_MISSING, /* there is no Authorization header */
    TOKEN_INVALID, /* the credential is not in the file */
    TOKEN_EXPIRED
};

/* Reads a token file. The caller owns `*tokens`. Errors: those of option_file_read, and
 * GEMMD_ERR_USAGE if a line is not a credential, a credential appears twice or the file has none.
 * No error text quotes a token. */
enum gemmd_error tokens_load(const char *path, struct tokens **tokens, struct fault *fault);
/* Reads the file again, with the errors of tokens_load or GEMMD_ERR_USAGE if the process has seen
 * more than TENANTS_MAX tenants. The caller owns the new list, and hands it to tokens_adopt or to
 * token_list_free before it reads another. Main thread. */
enum gemmd_error tokens_read(struct tokens *tokens, const char *path, struct token_list **list,
                             struct fault *fault);
/* Replaces all credentials at once by those of a list, which it takes over. Main thread. */
void tokens_adopt(struct tokens *tokens, struct token_list *list);
/* Overwrites a list with zeros and frees it. NULL is allowed. */
void token_list_free(struct token_list *list);
/* Overwrites the credentials with zeros and frees them. NULL is allowed. */
void tokens_free(struct tokens *tokens);

/* The number of tenants that the process has seen, and the name of one. Tenants are numbered from 0
 * in the order in which the file named them first. Names are borrowed, and stay valid. */
uint32_t tokens_tenants(const struct tokens *tokens);
/* The number of tenants that the credentials in force name, who share the daemon's limits. */
uint32_t tokens_tenants_named(const struct tokens *tokens);
const char *tokens_tenant_name(const struct tokens *tokens, uint32_t tenant);

/* Lets a tenant see what belongs to all tenants (--metrics-tenant); `name` has `length` characters.
 * Returns false if the file has no such tenant. To be called before requests are served. */
bool tokens_show_all(struct tokens *tokens, const char *name, size_t length);
/* Whether a tenant may see what belongs to all tenants. */
bool tokens_sees_all(const struct tokens *tokens, uint32_t tenant);

/* Looks up the bearer token of an Authorization header; NULL: the request has no such header. Sets
 * `*grant` if the token is granted or has expired. The time of the check depends only on the number
 * of credentials and the length of the header, so that timing reveals nothing of a token. */
enum token_verdict tokens_check(struct tokens *tokens, const char *authorization,
                                struct token_grant *grant);
/* Looks up a name in a verified client certificate: "URI:...", "DNS:..." or "CN:...". */
enum token_verdict tokens_check_certificate(struct tokens *tokens, const char *name,
                                            struct token_grant *grant);

#endif
