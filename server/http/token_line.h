/*
 * token_line.h - one line of a token file.
 *
 *   [TENANT:]CREDENTIAL [scopes=SCOPE,...] [expires=DATE] [max-priority=N]
 *
 * The parts are separated by spaces or tabs. Without TENANT the tenant is named "default". No
 * tenant can be named sha256 or cert. CREDENTIAL is one of these:
 *
 *   TOKEN          a bearer token in the clear
 *   sha256:HEX     the SHA-256 of a bearer token, as 64 hexadecimal digits
 *   cert:NAME      a name in a verified client certificate: URI:..., DNS:... or CN:...
 *
 * A credential without scopes= has all scopes. DATE is an RFC 3339 date and time, such as
 * 2027-01-31T12:00:00Z, or a date, which stands for its first second in UTC. The credential is not
 * accepted from that time on. N, 0 to 9, is the highest priority of the requests that the
 * credential lets in; without max-priority= they may have any.
 *
 * Pure functions. Any thread.
 */
#ifndef SERVER_HTTP_TOKEN_LINE_H
#define SERVER_HTTP_TOKEN_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKEN_LENGTH_MIN = 8, /* a shorter token is a mistake, or easily guessed */
    TOKEN_LENGTH_MAX = 255,
    TENANT_LENGTH_MAX = 63,
    CERTIFICATE_NAME_MAX = 255,
    TOKEN_DIGEST_BYTES = 32
};

enum token_kind { TOKEN_BEARER, TOKEN_CERTIFICATE };

/* The rights of a credential. A set of scopes has a bit for each. */
enum token_scope {
    SCOPE_ANY = 0, /* of an endpoint: every credential will do */
    SCOPE_COMPUTE = 1,
    SCOPE_TENSORS = 2,
    SCOPE_METRICS = 4,
    SCOPE_ADMIN = 8,
    SCOPES_ALL = 15
};

struct token_line {
    char tenant[TENANT_LENGTH_MAX + 1];
    enum token_kind kind;
    uint8_t digest[TOKEN_DIGEST_BYTES]; /* SHA-256 of the token, or of the certificate's name */
    uint32_t scopes;                    /* bits of enum token_scope */
    int64_t expires_s;                  /* in seconds since 1970; INT64_MAX: never */
    uint32_t max_priority;              /* 0 ... GEMM_PRIORITY_MAX */
};

/* Parses a line that is neither empty nor a comment, and has no line end. Cuts the line into
 * pieces. Returns NULL, or a text that says what is wrong; the text quotes nothing of the line. */
const char *token_line_parse(char *line, struct token_line *out);

/* The digest that a line holds for a token or for a certificate's name. */
void token_digest(const char *text, size_t length, uint8_t digest[TOKEN_DIGEST_BYTES]);

#endif
