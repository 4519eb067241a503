#include "server/http/token_line.h"

#include <nettle/sha2.h>
#include <string.h>
#include <time.h>

#include "proto/gemm_request.h"
#include "proto/parameter.h"

#define LETTERS_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static const char hash_prefix[] = "sha256:";
static const char certificate_prefix[] = "cert:";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

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

/* Whether the text is a kind of name and a name. */
static bool is_certificate_name(const char *text)
{
    const size_t length = strlen(text);
    return length <= CERTIFICATE_NAME_MAX &&
           ((starts_with(text, "URI:") && length > 4) ||
            (starts_with(text, "DNS:") && length > 4) || (starts_with(text, "CN:") && length > 3));
}

void token_digest(const char *text, size_t length, uint8_t digest[TOKEN_DIGEST_BYTES])
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, length, (const uint8_t *)text);
    sha256_digest(&context, TOKEN_DIGEST_BYTES, digest);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t digest[TOKEN_DIGEST_BYTES])
{
    if (strlen(text) != 2 * (size_t)TOKEN_DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < TOKEN_DIGEST_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static const char *read_credential(const char *text, struct token_line *out)
{
    out->kind = TOKEN_BEARER;
    if (starts_with(text, hash_prefix))
        return read_hex(text + strlen(hash_prefix), out->digest)
                   ? NULL
                   : "sha256: is followed by 64 hexadecimal digits";
    if (starts_with(text, certificate_prefix)) {
        const char *name = text + strlen(certificate_prefix);
        out->kind = TOKEN_CERTIFICATE;
        token_digest(name, strlen(name), out->digest);
        return is_certificate_name(name)
                   ? NULL
                   : "cert: is followed by URI:, DNS: or CN: and a name of up to 255 characters";
    }
    token_digest(text, strlen(text), out->digest);
    return is_token(text, strlen(text))
               ? NULL
               : "a token is 8 to 255 of A-Z a-z 0-9 - . _ ~ + / (and = at its end)";
}

static uint32_t scope_named(const char *name, size_t length)
{
    static const struct {
        const char *name;
        enum token_scope scope;
    } scopes[] = {{"compute", SCOPE_COMPUTE},
                  {"tensors", SCOPE_TENSORS},
                  {"metrics", SCOPE_METRICS},
                  {"admin", SCOPE_ADMIN}};
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++)
        if (strlen(scopes[i].name) == length && memcmp(scopes[i].name, name, length) == 0)
            return scopes[i].scope;
    return 0;
}

static bool read_scopes(const char *text, uint32_t *scopes)
{
    *scopes = 0;
    for (;;) {
        const size_t length = strcspn(text, ",");
        const uint32_t scope = scope_named(text, length);
        *scopes |= scope;
        if (scope == 0)
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* Reads `digits` digits and the character `end` behind them ('\0': any). Advances `*text`. */
static bool read_number(const char **text, int digits, char end, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *out = *out * 10 + (**text - '0');
    }
    if (end == '\0')
        return true;
    return *(*text)++ == end;
}

/* Reads Z, or an offset from UTC such as +02:00, in seconds. */
static bool read_offset(const char *text, int *seconds)
{
    int hours, minutes;
    const int sign = *text == '-' ? -1 : 1;
    *seconds = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if (*text != '+' && *text != '-')
        return false;
    text++;
    if (!read_number(&text, 2, ':', &hours) || !read_number(&text, 2, '\0', &minutes) ||
        *text != '\0' || hours > 23 || minutes > 59)
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool read_date(const char *text, int64_t *out)
{
    struct tm tm = {0}, check;
    int year, month, offset = 0;
    if (!read_number(&text, 4, '-', &year) || !read_number(&text, 2, '-', &month) ||
        !read_number(&text, 2, '\0', &tm.tm_mday))
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    if (*text != '\0') {
        if (*text != 'T' && *text != 't')
            return false;
        text++;
        if (!read_number(&text, 2, ':', &tm.tm_hour) || !read_number(&text, 2, ':', &tm.tm_min) ||
            !read_number(&text, 2, '\0', &tm.tm_sec) || !read_offset(text, &offset))
            return false;
    }
    check = tm;
    *out = (int64_t)timegm(&check) - offset;
    /* timegm makes 31 February a day of March. */
    return check.tm_mday == tm.tm_mday && check.tm_mon == tm.tm_mon &&
           check.tm_hour == tm.tm_hour && check.tm_min == tm.tm_min && check.tm_sec == tm.tm_sec;
}

static const char *read_attribute(const char *text, struct token_line *out)
{
    static const char scopes[] = "scopes=", expires[] = "expires=", highest[] = "max-priority=";
    if (starts_with(text, scopes))
        return read_scopes(text + strlen(scopes), &out->scopes)
                   ? NULL
                   : "scopes= is a list of compute, tensors, metrics and admin, with commas "
                     "between";
    if (starts_with(text, expires))
        return read_date(text + strlen(expires), &out->expires_s)
                   ? NULL
                   : "expires= is a date such as 2027-01-31 or 2027-01-31T12:00:00Z";
    if (starts_with(text, highest))
        return parameter_priority.read(text + strlen(highest), &out->max_priority)
                   ? NULL
                   : "max-priority= is " PARAMETER_PRIORITY;
    return "only scopes=..., expires=... and max-priority=... may follow a token";
}

const char *token_line_parse(char *line, struct token_line *out)
{
    char *position = NULL;
    char *text = strtok_r(line, " \t", &position);
    *out = (struct token_line){
        .scopes = SCOPES_ALL, .expires_s = INT64_MAX, .max_priority = GEMM_PRIORITY_MAX};
    if (text == NULL)
        return "the line is empty";
    memcpy(out->tenant, "default", sizeof "default");
    const char *colon = strchr(text, ':');
    if (colon != NULL && !starts_with(text, hash_prefix) &&
        !starts_with(text, certificate_prefix)) {
        const size_t length = (size_t)(colon - text);
        if (!is_tenant(text, length))
            return "a tenant is 1 to 63 of A-Z a-z 0-9 . _ -";
        memcpy(out->tenant, text, length);
        out->tenant[length] = '\0';
        text = text + length + 1;
    }
    const char *wrong = read_credential(text, out);
    while (wrong == NULL && (text = strtok_r(NULL, " \t", &position)) != NULL)
        wrong = read_attribute(text, out);
    return wrong;
}
