/* Credentials are looked up in a list, which never changes. A reload publishes a new list. Readers
 * count themselves in `readers` while they use a list; a replaced list is freed by the first reload
 * that finds no reader after the new list was published, since a reader that comes later finds the
 * new one. A reload therefore never waits, and looking up costs two atomic additions. */
#include "server/http/tokens.h"

#include <nettle/memops.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "server/base/option_file.h"

struct credential {
    uint8_t digest[TOKEN_DIGEST_BYTES];
    enum token_kind kind;
    uint32_t tenant, scopes, max_priority;
    int64_t expires_s;
};

struct token_list {
    struct token_list *older; /* replaced, and not freed yet */
    uint32_t count;
    uint32_t tenants_seen;  /* tenants that the process has seen, with those of this list */
    uint32_t tenants_named; /* tenants that the list names */
    bool names[TENANTS_MAX];
    struct credential entries[]; /* [count], with room for TOKENS_MAX while a file is read */
};

struct tokens {
    _Atomic(struct token_list *) current;
    atomic_uint readers;
    /* The tenants. A name is written before the list that uses its number is published. The names
     * behind `tenants` are those of a list that is not published yet, or of none. */
    atomic_uint tenants, tenants_named;
    char names[TENANTS_MAX][TENANT_LENGTH_MAX + 1];
    bool sees_all[TENANTS_MAX];
};

/* Returns the number of a tenant, among the first `count` names; `count`: there is none. */
static uint32_t find_tenant(const struct tokens *tokens, uint32_t count, const char *name,
                            size_t length)
{
    uint32_t i = 0;
    while (i < count &&
           (strlen(tokens->names[i]) != length || memcmp(tokens->names[i], name, length) != 0))
        i++;
    return i;
}

/* Adds the credential of a line without its line end. Returns NULL, or a text that says why the
 * line is refused. */
static const char *add_line(struct tokens *tokens, struct token_list *list, char *text)
{
    struct token_line line;
    const char *wrong = token_line_parse(text, &line);
    if (wrong != NULL)
        return wrong;
    if (list->count == TOKENS_MAX)
        return "there are more than 1024 tokens";
    for (uint32_t i = 0; i < list->count; i++)
        if (list->entries[i].kind == line.kind &&
            memcmp(list->entries[i].digest, line.digest, sizeof line.digest) == 0)
            return "this token is there already";
    const uint32_t tenant =
        find_tenant(tokens, list->tenants_seen, line.tenant, strlen(line.tenant));
    if (tenant == TENANTS_MAX)
        return "the daemon has seen more than 1024 tenants since it started";
    if (tenant == list->tenants_seen) {
        memcpy(tokens->names[tenant], line.tenant, sizeof line.tenant);
        list->tenants_seen++;
    }
    list->tenants_named += !list->names[tenant];
    list->names[tenant] = true;
    struct credential *entry = &list->entries[list->count++];
    memcpy(entry->digest, line.digest, sizeof entry->digest);
    entry->kind = line.kind;
    entry->tenant = tenant;
    entry->scopes = line.scopes;
    entry->expires_s = line.expires_s;
    entry->max_priority = line.max_priority;
    return NULL;
}

static enum gemmd_error read_lines(struct tokens *tokens, struct token_list *list,
                                   struct option_text *text, const char *path, struct fault *fault)
{
    size_t length;
    char *line;
    for (uint32_t number = 1; (line = option_text_line(text, &length)) != NULL; number++) {
        while (length > 0 && strchr(" \t\r", line[length - 1]))
            line[--length] = '\0';
        if (length == 0 || line[0] == '#')
            continue;
        const char *wrong =
            strlen(line) == length ? add_line(tokens, list, line) : "it has a zero byte";
        if (wrong)
            return fault_set(fault, GEMMD_ERR_USAGE, "token-file", "%.80s, line %u: %s", path,
                             number, wrong);
    }
    if (list->count > 0)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_USAGE, "token-file",
                     "%.120s has no token, so every request would be refused", path);
}

void token_list_free(struct token_list *list)
{
    if (list == NULL)
        return;
    explicit_bzero(list->entries, list->count * sizeof list->entries[0]);
    free(list);
}

enum gemmd_error tokens_read(struct tokens *tokens, const char *path, struct token_list **out,
                             struct fault *fault)
{
    const struct option_file file = {.option = "token-file", .path = path, .is_private = true};
    struct option_text text;
    enum gemmd_error error = option_file_read(&file, &text, fault);
    if (error != GEMMD_OK)
        return error;
    struct token_list *list = calloc(1, sizeof *list + TOKENS_MAX * sizeof list->entries[0]);
    if (list == NULL) {
        error = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tokens");
    } else {
        list->tenants_seen = atomic_load(&tokens->tenants);
        error = read_lines(tokens, list, &text, path, fault);
    }
    if (error == GEMMD_OK)
        *out = list;
    else
        token_list_free(list);
    option_text_free(&text);
    return error;
}

void tokens_adopt(struct tokens *tokens, struct token_list *list)
{
    atomic_store(&tokens->tenants, list->tenants_seen);
    atomic_store(&tokens->tenants_named, list->tenants_named);
    list->older = atomic_load(&tokens->current);
    atomic_store(&tokens->current, list);
    if (atomic_load(&tokens->readers) > 0)
        return;
    struct token_list *next;
    for (struct token_list *old = list->older; old != NULL; old = next) {
        next = old->older;
        token_list_free(old);
    }
    list->older = NULL;
}

enum gemmd_error tokens_load(const char *path, struct tokens **out, struct fault *fault)
{
    struct tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tokens");
    struct token_list *first = NULL;
    const enum gemmd_error error = tokens_read(tokens, path, &first, fault);
    if (first == NULL) {
        tokens_free(tokens);
        return error;
    }
    tokens_adopt(tokens, first);
    *out = tokens;
    return GEMMD_OK;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    struct token_list *next;
    for (struct token_list *old = atomic_load(&tokens->current); old != NULL; old = next) {
        next = old->older;
        token_list_free(old);
    }
    free(tokens);
}

uint32_t tokens_tenants(const struct tokens *tokens)
{
    return atomic_load(&tokens->tenants);
}

uint32_t tokens_tenants_named(const struct tokens *tokens)
{
    return atomic_load(&tokens->tenants_named);
}

const char *tokens_tenant_name(const struct tokens *tokens, uint32_t tenant)
{
    return tokens->names[tenant];
}

bool tokens_show_all(struct tokens *tokens, const char *name, size_t length)
{
    const uint32_t count = tokens_tenants(tokens);
    const uint32_t tenant = find_tenant(tokens, count, name, length);
    if (tenant < count)
        tokens->sees_all[tenant] = true;
    return tenant < count;
}

bool tokens_sees_all(const struct tokens *tokens, uint32_t tenant)
{
    return tokens->sees_all[tenant];
}

static bool has_expired(int64_t expires_s)
{
    return expires_s != INT64_MAX && (int64_t)time(NULL) >= expires_s;
}

/* Compares a digest with all digests, each in constant time, even after one that is equal. */
static enum token_verdict look_up(struct tokens *tokens, enum token_kind kind, const char *text,
                                  size_t length, struct token_grant *grant)
{
    uint8_t digest[TOKEN_DIGEST_BYTES];
    enum token_verdict verdict = TOKEN_INVALID;
    uint32_t found = TOKENS_MAX;
    token_digest(text, length, digest);

    atomic_fetch_add(&tokens->readers, 1);
    const struct token_list *list = atomic_load(&tokens->current);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct credential *entry = &list->entries[i];
        /* A mask instead of a branch, so that the time does not reveal which entry matched. */
        const uint32_t same = (uint32_t)memeql_sec(entry->digest, digest, sizeof digest) &
                              (uint32_t)(entry->kind == kind);
        const uint32_t mask = 0u - same;
        found = (found & ~mask) | (i & mask);
    }
    if (found < TOKENS_MAX) {
        const struct credential *entry = &list->entries[found];
        verdict = has_expired(entry->expires_s) ? TOKEN_EXPIRED : TOKEN_GRANTED;
        *grant = (struct token_grant){.tenant = entry->tenant,
                                      .scopes = verdict == TOKEN_GRANTED ? entry->scopes : 0,
                                      .max_priority = entry->max_priority};
    }
    atomic_fetch_sub(&tokens->readers, 1);
    return verdict;
}

enum token_verdict tokens_check(struct tokens *tokens, const char *authorization,
                                struct token_grant *grant)
{
    if (!authorization)
        return TOKEN_MISSING;
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return TOKEN_INVALID;
    const char *text = authorization + 7;
    text += strspn(text, " ");
    size_t length = strcspn(text, " ");
    if (length > TOKEN_LENGTH_MAX || text[length + strspn(text + length, " ")] != '\0')
        return TOKEN_INVALID;
    return look_up(tokens, TOKEN_BEARER, text, length, grant);
}

enum token_verdict tokens_check_certificate(struct tokens *tokens, const char *name,
                                            struct token_grant *grant)
{
    return look_up(tokens, TOKEN_CERTIFICATE, name, strlen(name), grant);
}
