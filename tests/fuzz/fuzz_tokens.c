/* Token files. A token that a file names is accepted, no other is, and no message quotes a token.
 */
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "input.h"
#include "proto/gemm_request.h"
#include "server/http/tokens.h"

static void check_line(const char *text)
{
    struct token_line line;
    char *copy = strdup(text);
    MUST(copy != NULL);
    const char *wrong = token_line_parse(copy, &line);
    if (wrong != NULL) {
        MUST(wrong[0] != '\0');
    } else {
        MUST(line.tenant[0] != '\0' && memchr(line.tenant, '\0', sizeof line.tenant) != NULL);
        MUST(strcmp(line.tenant, "sha256") != 0 && strcmp(line.tenant, "cert") != 0);
        MUST(line.scopes != 0 && (line.scopes & ~(uint32_t)SCOPES_ALL) == 0);
        MUST(line.max_priority <= GEMM_PRIORITY_MAX);
        MUST(line.kind == TOKEN_BEARER || line.kind == TOKEN_CERTIFICATE);
    }
    free(copy);
}

/* Whether a line is a token in the clear and nothing else. */
static bool is_plain_token(const char *line)
{
    const size_t length = strlen(line);
    return length >= TOKEN_LENGTH_MIN && length <= TOKEN_LENGTH_MAX && line[0] != '#' &&
           strcspn(line, ": \t\r\v\f") == length;
}

static void check_token(struct tokens *tokens, const char *token)
{
    char header[TOKEN_LENGTH_MAX + 16];
    struct token_grant grant = {.tenant = UINT32_MAX};
    snprintf(header, sizeof header, "Bearer %s", token);
    MUST(tokens_check(tokens, header, &grant) == TOKEN_GRANTED);
    MUST(grant.tenant < tokens_tenants(tokens) && grant.scopes == SCOPES_ALL);
    MUST(strcmp(tokens_tenant_name(tokens, grant.tenant), "default") == 0);
    header[strlen(header) - 1] ^= 1;
    (void)tokens_check(tokens, header, &grant);
}

static void check_loaded(struct tokens *tokens, const uint8_t *bytes, size_t length)
{
    struct fuzz_input lines = {bytes, length};
    struct token_grant grant;
    MUST(tokens_tenants(tokens) >= 1 && tokens_tenants(tokens) <= TENANTS_MAX);
    MUST(tokens_check(tokens, NULL, &grant) == TOKEN_MISSING);
    MUST(tokens_check(tokens, "", &grant) == TOKEN_INVALID);
    MUST(tokens_check(tokens, "Bearer ", &grant) == TOKEN_INVALID);
    while (lines.length > 0) {
        char *line = input_text(&lines, '\n');
        if (is_plain_token(line))
            check_token(tokens, line);
        (void)tokens_check(tokens, line, &grant);
        (void)tokens_check_certificate(tokens, line, &grant);
        free(line);
    }
}

/* Lines without digits are left out, since a message may have the same words by chance. */
static void check_fault(const struct fault *fault, const uint8_t *bytes, size_t length)
{
    static const char example[] = "2027-01-31T12:00:00Z"; /* in the message about dates */
    struct fuzz_input lines = {bytes, length};
    MUST(fault->detail[0] != '\0');
    while (lines.length > 0) {
        char *line = input_text(&lines, '\n');
        if (strlen(line) >= 12 && strpbrk(line, "0123456789") != NULL)
            MUST(strstr(fault->detail, line) == NULL || strstr(example, line) != NULL);
        free(line);
    }
}

static enum gemmd_error reload(struct tokens *tokens, const char *path, struct fault *fault)
{
    struct token_list *list;
    const enum gemmd_error code = tokens_read(tokens, path, &list, fault);
    if (code == GEMMD_OK)
        tokens_adopt(tokens, list);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const uint8_t other[] = "other-tenant:other-token-1\n";
    struct fuzz_input lines = {bytes, length};
    struct tokens *tokens = NULL;
    struct fault fault = {.code = GEMMD_OK};
    char path[INPUT_PATH_MAX], other_path[INPUT_PATH_MAX];
    if (memchr(bytes, '\0', length) != NULL)
        return 0;
    while (lines.length > 0) {
        char *line = input_text(&lines, '\n');
        if (line[strspn(line, " \t\r")] != '\0' && line[0] != '#')
            check_line(line);
        free(line);
    }
    const int fd = input_file(bytes, length, path);
    const int other_fd = input_file(other, sizeof other - 1, other_path);
    if (tokens_load(path, &tokens, &fault) == GEMMD_OK) {
        check_loaded(tokens, bytes, length);
        MUST(reload(tokens, path, &fault) == GEMMD_OK);
        check_loaded(tokens, bytes, length);
        tokens_free(tokens);
    } else {
        struct token_grant grant;
        check_fault(&fault, bytes, length);
        MUST(tokens_load(other_path, &tokens, NULL) == GEMMD_OK);
        MUST(reload(tokens, path, &fault) != GEMMD_OK);
        MUST(tokens_check(tokens, "Bearer other-token-1", &grant) == TOKEN_GRANTED);
        tokens_free(tokens);
    }
    close(fd);
    close(other_fd);
    return 0;
}
