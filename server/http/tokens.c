/* Tokens are compared in constant time, so that the time of a check does not reveal how much of a
 * guessed token is right. */
#include "server/http/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define LETTERS_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

struct token {
    unsigned char text[TOKEN_LENGTH_MAX + 1]; /* padded with zeros */
    uint32_t tenant;
};

struct tokens {
    uint32_t count;
    bool exposed;
    struct token entries[TOKENS_MAX];
    uint32_t tenants;
    char names[TOKENS_MAX][TENANT_LENGTH_MAX + 1]; /* the tenants' names */
    bool sees_all[TOKENS_MAX];                     /* by tenant */
};

/* Whether the text is a b64token (RFC 6750), which can be sent in a header without escapes. */
static bool is_token(const char *text, size_t length)
{
    size_t body = strspn(text, LETTERS_DIGITS "-._~+/");
    return length >= TOKEN_LENGTH_MIN && length <= TOKEN_LENGTH_MAX &&
           body + strspn(text + body, "=") == length;
}

static bool is_tenant(const char *text, size_t length)
{
    return length >= 1 && length <= TENANT_LENGTH_MAX &&
           strspn(text, LETTERS_DIGITS "._-") >= length;
}

/* Compares all bytes of both tokens, even after a difference. */
static bool same_token(const unsigned char *a, const unsigned char *b)
{
    unsigned difference = 0;
    for (uint32_t i = 0; i <= TOKEN_LENGTH_MAX; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

/* Returns the number of a tenant. A new tenant is added first. */
static uint32_t add_tenant(struct tokens *tokens, const char *name, size_t length)
{
    for (uint32_t i = 0; i < tokens->tenants; i++) {
        if (strlen(tokens->names[i]) == length && memcmp(tokens->names[i], name, length) == 0)
            return i;
    }
    memcpy(tokens->names[tokens->tenants], name, length); /* the rest of the name is zeroed */
    return tokens->tenants++;
}

/* Adds the token of a line without its line end. Returns NULL, or a text that says why the line is
 * refused. */
static const char *add_line(struct tokens *tokens, const char *line)
{
    const char *colon = strchr(line, ':'), *text = colon ? colon + 1 : line;
    size_t tenant_length = colon ? (size_t)(colon - line) : 0, length = strlen(text);
    if (colon && !is_tenant(line, tenant_length))
        return "a tenant is 1 to 63 of A-Z a-z 0-9 . _ -";
    if (!is_token(text, length))
        return "a token is 8 to 255 of A-Z a-z 0-9 - . _ ~ + / (and = at its end)";
    if (tokens->count == TOKENS_MAX)
        return "there are more than 1024 tokens";

    struct token *entry = &tokens->entries[tokens->count];
    memset(entry, 0, sizeof(*entry));
    memcpy(entry->text, text, length);
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (memcmp(tokens->entries[i].text, entry->text, sizeof(entry->text)) == 0)
            return "this token is there already";
    }
    entry->tenant = colon ? add_tenant(tokens, line, tenant_length)
                          : add_tenant(tokens, "default", strlen("default"));
    tokens->count++;
    return NULL;
}

static enum gemmd_error read_lines(struct tokens *tokens, FILE *file, const char *path,
                                   struct fault *fault)
{
    enum gemmd_error error = GEMMD_OK;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    for (uint32_t number = 1; error == GEMMD_OK && (length = getline(&line, &capacity, file)) >= 0;
         number++) {
        while (length > 0 && strchr(" \t\r\n", line[length - 1]))
            line[--length] = '\0';
        if (length == 0 || line[0] == '#')
            continue;
        const char *wrong =
            strlen(line) == (size_t)length ? add_line(tokens, line) : "it has a zero byte";
        if (wrong)
            error = fault_set(fault, GEMMD_ERR_USAGE, "token-file", "%.80s, line %u: %s", path,
                              number, wrong);
    }
    if (error == GEMMD_OK && ferror(file))
        error = fault_set(fault, GEMMD_ERR_IO, "token-file", "%.120s cannot be read: %s", path,
                          strerror(errno));
    if (line)
        explicit_bzero(line, capacity);
    free(line);
    return error;
}

enum gemmd_error tokens_load(const char *path, struct tokens **out, struct fault *fault)
{
    enum gemmd_error error = GEMMD_OK;
    struct tokens *tokens = NULL;
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status) != 0) {
        error = fault_set(fault, GEMMD_ERR_IO, "token-file", "%.120s cannot be read: %s", path,
                          strerror(errno));
        goto close_file;
    }
    if (status.st_mode & S_IWOTH) {
        error = fault_set(fault, GEMMD_ERR_USAGE, "token-file",
                          "%.120s can be written by everyone; chmod it to 0600", path);
        goto close_file;
    }
    tokens = calloc(1, sizeof(*tokens));
    if (!tokens) {
        error = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tokens");
        goto close_file;
    }
    tokens->exposed = (status.st_mode & S_IROTH) != 0;
    error = read_lines(tokens, file, path, fault);
    if (error == GEMMD_OK && tokens->count == 0)
        error = fault_set(fault, GEMMD_ERR_USAGE, "token-file",
                          "%.120s has no token, so nobody could come in", path);
    if (error == GEMMD_OK) {
        *out = tokens;
        tokens = NULL;
    }
    tokens_free(tokens);
close_file:
    if (file)
        fclose(file);
    return error;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    explicit_bzero(tokens, sizeof(*tokens));
    free(tokens);
}

bool tokens_exposed(const struct tokens *tokens)
{
    return tokens->exposed;
}

uint32_t tokens_tenants(const struct tokens *tokens)
{
    return tokens->tenants;
}

const char *tokens_tenant_name(const struct tokens *tokens, uint32_t tenant)
{
    return tokens->names[tenant];
}

bool tokens_show_all(struct tokens *tokens, const char *name, size_t length)
{
    for (uint32_t i = 0; i < tokens->tenants; i++) {
        if (strlen(tokens->names[i]) != length || memcmp(tokens->names[i], name, length) != 0)
            continue;
        tokens->sees_all[i] = true;
        return true;
    }
    return false;
}

bool tokens_sees_all(const struct tokens *tokens, uint32_t tenant)
{
    return tokens->sees_all[tenant];
}

bool tokens_check(const struct tokens *tokens, const char *authorization, uint32_t *tenant)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *text = authorization + 7;
    text += strspn(text, " ");
    size_t length = strcspn(text, " ");
    if (length > TOKEN_LENGTH_MAX || text[length + strspn(text + length, " ")] != '\0')
        return false;

    unsigned char candidate[TOKEN_LENGTH_MAX + 1] = {0};
    memcpy(candidate, text, length);
    uint32_t found = TOKENS_MAX;
    for (uint32_t i = 0; i < tokens->count; i++) {
        /* A mask instead of a branch, so that the time does not reveal which entry matched. */
        uint32_t mask = 0u - (uint32_t)same_token(tokens->entries[i].text, candidate);
        found = (found & ~mask) | (i & mask);
    }
    if (found == TOKENS_MAX)
        return false;
    *tenant = tokens->entries[found].tenant;
    return true;
}
