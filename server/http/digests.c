#include "server/http/digests.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/digest_fields.h"
#include "server/http/digester.h"
#include "server/http/request.h"
#include "server/http/server.h"

enum digest_field { DIGEST_CONTENT, DIGEST_REPR, DIGEST_FIELDS };

static const char *const names[DIGEST_FIELDS] = {"Content-Digest", "Repr-Digest"};
static const char *const wish_names[DIGEST_FIELDS] = {"Want-Content-Digest", "Want-Repr-Digest"};

struct digests {
    bool malformed; /* one of the body's digests is */
    struct digest_values given[DIGEST_FIELDS];
    struct digest_wishes wishes[DIGEST_FIELDS];
    struct digest_hashes body;

    /* The answer while the digester has it. */
    struct MHD_Response *response;
    struct payload payload;
    int status;
    struct digest_run run;
};

/* ---- the fields of a request ---- */

static enum MHD_Result read_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct digests *digests = cls;
    (void)kind;
    for (int field = 0; field < DIGEST_FIELDS && value != NULL; field++) {
        if (strcasecmp(name, names[field]) == 0 &&
            !digest_read_values(value, &digests->given[field]))
            digests->malformed = true;
        if (strcasecmp(name, wish_names[field]) == 0)
            digest_read_wishes(value, &digests->wishes[field]);
    }
    return MHD_YES;
}

static bool is_given(const struct digests *digests, enum digest_algorithm algorithm)
{
    return digests->given[DIGEST_CONTENT].given[algorithm] ||
           digests->given[DIGEST_REPR].given[algorithm];
}

enum gemmd_error digests_open(struct request *request)
{
    struct fault *fault = &request->fault;
    struct digests *digests = calloc(1, sizeof *digests);
    request->digests = digests;
    if (digests == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the digests");
    for (int field = 0; field < DIGEST_FIELDS; field++)
        for (int i = 0; i < DIGEST_ALGORITHMS; i++)
            digests->wishes[field].weight[i] = -1;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_field, digests);
    if (digests->malformed)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "Content-Digest and Repr-Digest must be like sha-256=:BASE64: or "
                         "sha-512=:BASE64:, with the base64 of the whole digest");
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (is_given(digests, (enum digest_algorithm)i) &&
            !digest_hashes_begin(&digests->body, (enum digest_algorithm)i))
            return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the digests");
    return GEMMD_OK;
}

void digests_close(struct digests *digests)
{
    digest_hashes_end(&digests->body, NULL);
    MHD_destroy_response(digests->response); /* NULL is allowed */
    free(digests);
}

/* ---- the body ---- */

void digests_add(struct digests *digests, const void *bytes, uint64_t length)
{
    digest_hashes_add(&digests->body, bytes, length);
}

enum gemmd_error digests_check(struct digests *digests, struct fault *fault)
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++) {
        const enum digest_algorithm algorithm = (enum digest_algorithm)i;
        unsigned char value[DIGEST_BYTES_MAX];
        char found[DIGEST_TEXT_MAX], given[DIGEST_TEXT_MAX];
        if (digests->body.of[i] == NULL)
            continue;
        gnutls_hash_output(digests->body.of[i], value);
        for (int field = 0; field < DIGEST_FIELDS; field++) {
            const struct digest_values *values = &digests->given[field];
            if (!values->given[i] || memcmp(values->value[i], value, digest_bytes(algorithm)) == 0)
                continue;
            digest_write(algorithm, values->value[i], given);
            digest_write(algorithm, value, found);
            return fault_set(fault, GEMMD_ERR_MALFORMED, names[field],
                             "%s is %s, but that of the body is %s", names[field], given, found);
        }
    }
    return GEMMD_OK;
}

/* ---- the answer ---- */

bool digests_are_wanted(const struct digests *digests)
{
    return digest_wanted(&digests->wishes[DIGEST_CONTENT]) != DIGEST_NONE ||
           digest_wanted(&digests->wishes[DIGEST_REPR]) != DIGEST_NONE;
}

static bool is_wanted(const struct digests *digests, enum digest_algorithm algorithm)
{
    return digest_wanted(&digests->wishes[DIGEST_CONTENT]) == algorithm ||
           digest_wanted(&digests->wishes[DIGEST_REPR]) == algorithm;
}

/* Begins the hashes that the client wants of the answer. False: out of memory; no hash is begun. */
static bool begin_wanted(const struct digests *digests, struct digest_hashes *hashes)
{
    *hashes = (struct digest_hashes){0};
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (is_wanted(digests, (enum digest_algorithm)i) &&
            !digest_hashes_begin(hashes, (enum digest_algorithm)i)) {
            digest_hashes_end(hashes, NULL);
            return false;
        }
    return true;
}

/* Adds the digests that the client wants to the response's headers. If memory runs out, the
 * response is destroyed, and NULL is returned. An answer to HEAD gets no Content-Digest, because it
 * has no content. */
static struct MHD_Response *add_digests(const struct request *request,
                                        struct MHD_Response *response,
                                        unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX])
{
    const bool has_content = strcmp(request->method, "HEAD") != 0;
    char text[DIGEST_TEXT_MAX];
    for (int field = has_content ? DIGEST_CONTENT : DIGEST_REPR; field < DIGEST_FIELDS; field++) {
        const enum digest_algorithm wanted = digest_wanted(&request->digests->wishes[field]);
        if (wanted == DIGEST_NONE)
            continue;
        digest_write(wanted, values[wanted], text);
        if (MHD_add_response_header(response, names[field], text) != MHD_YES) {
            MHD_destroy_response(response);
            return NULL;
        }
    }
    return response;
}

struct MHD_Response *digests_add_headers(const struct request *request,
                                         struct MHD_Response *response,
                                         const struct payload *payload)
{
    unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX];
    struct digest_hashes hashes;
    if (!begin_wanted(request->digests, &hashes)) {
        MHD_destroy_response(response);
        return NULL;
    }
    for (uint32_t part = 0; part < payload->count; part++)
        digest_hashes_add(&hashes, payload->parts[part].iov_base, payload->parts[part].iov_len);
    digest_hashes_end(&hashes, values);
    return add_digests(request, response, values);
}

bool digests_hand_over(struct request *request, struct MHD_Response *response, int status,
                       const struct payload *payload)
{
    struct digests *digests = request->digests;
    digests->run = (struct digest_run){.request = request, .payload = &digests->payload};
    if (!begin_wanted(digests, &digests->run.hashes)) {
        MHD_destroy_response(response);
        return false;
    }
    digests->response = response;
    digests->status = status;
    digests->payload = *payload;
    digester_push(request->server->digester, &digests->run, request->tenant_number);
    return true;
}

bool digests_has_answer(const struct digests *digests)
{
    return digests->response != NULL;
}

bool digests_withdraw(struct request *request)
{
    struct digests *digests = request->digests;
    if (!digester_withdraw(request->server->digester, &digests->run))
        return false;
    MHD_destroy_response(digests->response);
    digests->response = NULL;
    return true;
}

struct MHD_Response *digests_take_answer(struct request *request, int *status, uint64_t *length)
{
    struct digests *digests = request->digests;
    struct MHD_Response *response = digests->response;
    digests->response = NULL;
    *status = digests->status;
    *length = payload_bytes(&digests->payload);
    if (digests->run.status != GEMMD_OK) {
        MHD_destroy_response(response);
        fault_set(&request->fault, digests->run.status, NULL, "the daemon is shutting down");
        return NULL;
    }
    response = add_digests(request, response, digests->run.values);
    if (response == NULL)
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the digests");
    return response;
}
