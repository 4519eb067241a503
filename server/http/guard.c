#include "server/http/guard.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "proto/number.h"
#include "server/http/request.h"
#include "server/http/server.h"

struct framing {
    uint32_t hosts, lengths, encodings, bad_names;
    const char *length, *encoding;
    struct coding_list codings;
};

/* Whether the text is a token (RFC 9110, 5.6.2). */
static bool is_token(const char *text)
{
    static const char marks[] = "!#$%&'*+.^_`|~";
    const char *p = text;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '-' ||
           (*p >= '0' && *p <= '9') || (*p != '\0' && strchr(marks, *p) != NULL))
        p++;
    return p > text && *p == '\0';
}

/* Whether a header name is a framing header's name with more characters. libmicrohttpd 0.9.75
 * reads "Content-Length:" that continues on the next line with " 32" as a header Content-Length32.
 */
static bool continues_framing(const char *name)
{
    static const char length[] = "Content-Length", encoding[] = "Transfer-Encoding";
    return (strncasecmp(name, length, sizeof length - 1) == 0 && name[sizeof length - 1] != '\0') ||
           (strncasecmp(name, encoding, sizeof encoding - 1) == 0 &&
            name[sizeof encoding - 1] != '\0');
}

static enum MHD_Result read_framing_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                           const char *value)
{
    struct framing *framing = cls;
    (void)kind;
    if (!is_token(name) || continues_framing(name))
        framing->bad_names++;
    if (strcasecmp(name, "Host") == 0)
        framing->hosts++;
    if (strcasecmp(name, "Content-Length") == 0) {
        framing->lengths++;
        framing->length = value == NULL ? "" : value;
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
        framing->encoding = value == NULL ? "" : value;
    }
    if (strcasecmp(name, "Content-Encoding") == 0)
        coding_read(&framing->codings, value == NULL ? "" : value);
    return MHD_YES;
}

static bool is_digits(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Sets the coding and the known length of the body. The coding of an empty body is ignored. */
static enum gemmd_error set_coding(struct request *request, const struct coding_list *codings)
{
    const bool has_body = request->chunked || request->content_length > 0;
    request->refuses_coding = codings->unknown || codings->count > 1;
    request->coding = has_body ? codings->coding : CODING_IDENTITY;
    request->sized = !request->chunked && request->coding == CODING_IDENTITY;
    request->body_bytes = request->sized ? request->content_length : 0;
    if (codings->unknown)
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Encoding can be gzip, deflate or identity");
    if (codings->count > 1)
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "the body is compressed more than once; once is taken");
    return GEMMD_OK;
}

enum gemmd_error guard_headers(struct request *request)
{
    struct framing framing = {0};
    struct fault *fault = &request->fault;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_framing_header, &framing);

    /* If the length of the body is in doubt, the request counts as chunked, so that request_refuse
     * answers without reading the body and the connection is closed. */
    request->chunked = framing.encodings > 0 || framing.lengths > 1 || framing.bad_names > 0;
    if (framing.bad_names > 0)
        return fault_set(
            fault, GEMMD_ERR_MALFORMED, NULL,
            "a header's name is malformed; the colon follows it at once, and the value "
            "is on the same line");
    if (framing.hosts > 1)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "there is more than one Host header");
    if (framing.lengths > 1)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "there is more than one Content-Length header");
    if (framing.encodings > 0 && framing.lengths > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "Content-Length and Transfer-Encoding exclude each other");
    if (framing.encodings > 1 ||
        (framing.encodings == 1 && strcasecmp(framing.encoding, "chunked") != 0))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the only Transfer-Encoding that is taken is chunked");
    if (framing.lengths == 1 && !number_u64(framing.length, &request->content_length))
        return is_digits(framing.length)
                   ? fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                               "Content-Length does not fit in 64 bits; the limit is %" PRIu64
                               " bytes",
                               request->server->config->max_body_bytes)
                   : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                               "Content-Length is not a number of bytes");

    const char *expect = request_header(request, "Expect");
    request->expects_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    return set_coding(request, &framing.codings);
}
