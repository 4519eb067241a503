/*
 * tokens.h - the bearer tokens that the daemon accepts (RFC 6750), and the tenant of each token.
 *
 * A token file has one token on each line: "tenant:token", or "token" for the tenant "default".
 * Empty lines and lines that start with # are skipped. A tenant may have several tokens, so that a
 * token can be replaced while clients still use the old one.
 *
 * One thread loads the tokens. Any thread may use loaded tokens, which never change.
 */
#ifndef SERVER_HTTP_TOKENS_H
#define SERVER_HTTP_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

enum {
    TOKENS_MAX = 1024,
    TOKEN_LENGTH_MIN = 8, /* a shorter token is a mistake, or easily guessed */
    TOKEN_LENGTH_MAX = 255,
    TENANT_LENGTH_MAX = 63
};

struct tokens;

/* Reads a token file. The caller owns `*tokens`. Errors: GEMMD_ERR_IO if the file cannot be read,
 * GEMMD_ERR_OUT_OF_MEMORY, and GEMMD_ERR_USAGE if every user can write the file, a line is not a
 * token, a token appears twice or the file has no token. No error text quotes a token. */
enum gemmd_error tokens_load(const char *path, struct tokens **tokens, struct fault *fault);
/* Overwrites the tokens with zeros and frees them. NULL is allowed. */
void tokens_free(struct tokens *tokens);

/* Whether every user of this host could read the file, which the daemon warns of in its log. */
bool tokens_exposed(const struct tokens *tokens);

/* The number of tenants, and the name of one. Tenants are numbered from 0 in the order of the file.
 * Names are borrowed. */
uint32_t tokens_tenants(const struct tokens *tokens);
const char *tokens_tenant_name(const struct tokens *tokens, uint32_t tenant);

/* Lets a tenant see what belongs to all tenants (--metrics-tenant); `name` has `length` characters.
 * Returns false if the file has no such tenant. To be called before requests are served. */
bool tokens_show_all(struct tokens *tokens, const char *name, size_t length);
/* Whether a tenant may see what belongs to all tenants. */
bool tokens_sees_all(const struct tokens *tokens, uint32_t tenant);

/* Whether an Authorization header has one of the tokens; `*tenant` is then the token's tenant.
 * `authorization` is NULL if the request has no such header. The time of the check depends only on
 * the number of tokens and the length of the header, so that timing reveals nothing of a token. */
bool tokens_check(const struct tokens *tokens, const char *authorization, uint32_t *tenant);

#endif
