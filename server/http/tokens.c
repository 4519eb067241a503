/* Credentials are looked up in a snapshot, which never changes. A reload publishes a new snapshot.
 * Readers count themselves in `readers` while they use a snapshot; a replaced snapshot is freed by
 * the first reload that finds no reader after the new snapshot was published, since a reader that
 * comes later finds the new one. A reload therefore never waits, and looking up costs two atomic
 * additions. */
#include "server/http/tokens.h"

#include <errno.h>
#include <nettle/memops.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

struct credential {
    uint8_t digest[TOKEN_DIGEST_BYTES];
    enum token_kind kind;
    uint32_t tenant, scopes, max_priority;
    int64_t expires_s;
};

struct snapshot {
    struct snapshot *older; /* replaced, and not freed yet */
    uint32_t count;
    struct credential entries[]; /* [count], with room for TOKENS_MAX while a file is read */
};

struct tokens {
    _Atomic(struct snapshot *) current;
    atomic_uint readers;
    /* The tenants. A name is written before the snapshot that uses its number is published. */
    atomic_uint tenants;
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

/* A file that is being read. New tenants become known only if the whole file is right. */
struct reading {
    struct tokens *tokens;
    struct snapshot *snapshot;
    uint32_t tenants;
};

/* Adds the credential of a line without its line end. Returns NULL, or a text that says why the
 * line is refused. */
static const char *add_line(struct reading *reading, char *text)
{
    struct snapshot *snapshot = reading->snapshot;
    struct token_line line;
    const char *wrong = token_line_parse(text, &line);
    if (wrong != NULL)
        return wrong;
    if (snapshot->count == TOKENS_MAX)
        return "there are more than 1024 tokens";
    for (uint32_t i = 0; i < snapshot->count; i++)
        if (snapshot->entries[i].kind == line.kind &&
            memcmp(snapshot->entries[i].digest, line.digest, sizeof line.digest) == 0)
            return "this token is there already";
    const uint32_t tenant =
        find_tenant(reading->tokens, reading->tenants, line.tenant, strlen(line.tenant));
    if (tenant == TENANTS_MAX)
        return "the daemon has seen more than 1024 tenants since it started";
    if (tenant == reading->tenants) {
        memcpy(reading->tokens->names[tenant], line.tenant, sizeof line.tenant);
        reading->tenants++;
    }
    struct credential *entry = &snapshot->entries[snapshot->count++];
    memcpy(entry->digest, line.digest, sizeof entry->digest);
    entry->kind = line.kind;
    entry->tenant = tenant;
    entry->scopes = line.scopes;
    entry->expires_s = line.expires_s;
    entry->max_priority = line.max_priority;
    return NULL;
}

static enum gemmd_error read_lines(struct reading *reading, FILE *file, const char *path,
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
            strlen(line) == (size_t)length ? add_line(reading, line) : "it has a zero byte";
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

static void free_snapshot(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    explicit_bzero(snapshot->entries, snapshot->count * sizeof snapshot->entries[0]);
    free(snapshot);
}

/* Publishes the new snapshot, and frees the snapshots that no thread can be reading. */
static void publish(struct reading *reading)
{
    struct tokens *tokens = reading->tokens;
    /* The names beyond `tenants` are unused, so a failed reload leaves nothing behind. */
    atomic_store(&tokens->tenants, reading->tenants);
    reading->snapshot->older = atomic_load(&tokens->current);
    atomic_store(&tokens->current, reading->snapshot);
    if (atomic_load(&tokens->readers) > 0)
        return;
    struct snapshot *next;
    for (struct snapshot *old = reading->snapshot->older; old != NULL; old = next) {
        next = old->older;
        free_snapshot(old);
    }
    reading->snapshot->older = NULL;
}

enum gemmd_error tokens_reload(struct tokens *tokens, const char *path, struct fault *fault)
{
    enum gemmd_error error = GEMMD_OK;
    struct reading reading = {.tokens = tokens, .tenants = atomic_load(&tokens->tenants)};
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status) != 0) {
        error = fault_set(fault, GEMMD_ERR_IO, "token-file", "%.120s cannot be read: %s", path,
                          strerror(errno));
        goto close_file;
    }
    if (!S_ISDIR(status.st_mode) && status.st_mode & (S_IROTH | S_IWOTH)) {
        error = fault_set(fault, GEMMD_ERR_USAGE, "token-file",
                          "--token-file %.120s can be %s by every user of this host; chmod it to "
                          "0640 or 0600",
                          path, status.st_mode & S_IWOTH ? "written" : "read");
        goto close_file;
    }
    reading.snapshot =
        calloc(1, sizeof *reading.snapshot + TOKENS_MAX * sizeof reading.snapshot->entries[0]);
    if (!reading.snapshot) {
        error = fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tokens");
        goto close_file;
    }
    error = read_lines(&reading, file, path, fault);
    if (error == GEMMD_OK && reading.snapshot->count == 0)
        error = fault_set(fault, GEMMD_ERR_USAGE, "token-file",
                          "%.120s has no token, so every request would be refused", path);
    if (error == GEMMD_OK)
        publish(&reading);
    else
        free_snapshot(reading.snapshot);
close_file:
    if (file)
        fclose(file);
    return error;
}

enum gemmd_error tokens_load(const char *path, struct tokens **out, struct fault *fault)
{
    struct tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tokens");
    enum gemmd_error error = tokens_reload(tokens, path, fault);
    if (error == GEMMD_OK)
        *out = tokens;
    else
        tokens_free(tokens);
    return error;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    struct snapshot *next;
    for (struct snapshot *old = atomic_load(&tokens->current); old != NULL; old = next) {
        next = old->older;
        free_snapshot(old);
    }
    free(tokens);
}

uint32_t tokens_tenants(const struct tokens *tokens)
{
    return atomic_load(&tokens->tenants);
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
    const struct snapshot *snapshot = atomic_load(&tokens->current);
    for (uint32_t i = 0; i < snapshot->count; i++) {
        const struct credential *entry = &snapshot->entries[i];
        /* A mask instead of a branch, so that the time does not reveal which entry matched. */
        const uint32_t same = (uint32_t)memeql_sec(entry->digest, digest, sizeof digest) &
                              (uint32_t)(entry->kind == kind);
        const uint32_t mask = 0u - same;
        found = (found & ~mask) | (i & mask);
    }
    if (found < TOKENS_MAX) {
        const struct credential *entry = &snapshot->entries[found];
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
