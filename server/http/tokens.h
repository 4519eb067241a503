/*
 * tokens.h - the bearer tokens that are let in (RFC 6750), and whose they are.
 *
 * A token file has one token a line: "tenant:token", or "token" for the tenant "default"; blank
 * lines and lines that start with # are skipped. Several tokens of one tenant let tokens be changed
 * without a gap. Loaded by one thread; checked by any.
 */
#ifndef SERVER_HTTP_TOKENS_H
#define SERVER_HTTP_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum {
    TOKENS_MAX = 1024,
    TOKEN_LENGTH_MIN = 8, /* shorter ones are a slip, or soon guessed */
    TOKEN_LENGTH_MAX = 255,
    TENANT_LENGTH_MAX = 63
};

struct tokens;

/* Reads a file. Refused: a file that others than its owner and group can write, lines that are no
 * token, the same token twice, no token at all. `*tokens` is the caller's. No sentence quotes a
 * token. */
enum gemmd_error tokens_load(const char *path, struct tokens **tokens, struct fault *fault);
void tokens_free(struct tokens *tokens); /* NULL is fine; wipes the tokens */

/* Whether every user of this host could read the file; worth a warning in the log. */
bool tokens_exposed(const struct tokens *tokens);

/* The tenants, numbered from 0 in the order of the file. Names are borrowed. */
uint32_t tokens_tenants(const struct tokens *tokens);
const char *tokens_tenant_name(const struct tokens *tokens, uint32_t tenant);

/* Whether an Authorization header (NULL: none sent) carries one of the tokens, and whose it is. The
 * time it takes depends on the number of tokens and the header's length only. */
bool tokens_check(const struct tokens *tokens, const char *authorization, uint32_t *tenant);

#endif
