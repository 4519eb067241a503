#include "server/http/digests.h"

#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/heartbeat.h"
#include "server/http/digest_fields.h"
#include "server/http/request.h"
#include "server/http/server_state.h"

enum digest_field { DIGEST_CONTENT, DIGEST_REPR, DIGEST_FIELDS };

static const char *const names[DIGEST_FIELDS] = {"Content-Digest", "Repr-Digest"};
static const char *const wish_names[DIGEST_FIELDS] = {"Want-Content-Digest", "Want-Repr-Digest"};
static const gnutls_digest_algorithm_t hashes[DIGEST_ALGORITHMS] = {
    [DIGEST_SHA256] = GNUTLS_DIG_SHA256, [DIGEST_SHA512] = GNUTLS_DIG_SHA512};

struct digests {
    struct request *request; /* owns this struct */
    bool malformed;          /* one of the body's digests is */
    struct digest_values given[DIGEST_FIELDS];
    struct digest_wishes wishes[DIGEST_FIELDS];
    gnutls_hash_hd_t body[DIGEST_ALGORITHMS]; /* NULL: not needed */

    /* The answer while the digester has it. The digester reads `payload` and writes `values`. */
    struct digests *next; /* in the digester's list */
    struct MHD_Response *response;
    struct payload payload;
    int status;
    bool hashed; /* false: no memory for a hash */
    unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX];
};

/* The most bytes that the digester hashes before it reports progress (heartbeat.h). */
enum { PIECE_BYTES = 8 << 20 };

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
    digests->request = request;
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
            gnutls_hash_init(&digests->body[i], hashes[i]) != 0) {
            digests->body[i] = NULL;
            return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the digests");
        }
    return GEMMD_OK;
}

void digests_close(struct digests *digests)
{
    if (digests == NULL)
        return;
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (digests->body[i] != NULL)
            gnutls_hash_deinit(digests->body[i], NULL);
    MHD_destroy_response(digests->response); /* NULL is allowed */
    free(digests);
}

/* ---- the body ---- */

void digests_add(struct digests *digests, const void *bytes, uint64_t length)
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++)
        if (digests->body[i] != NULL)
            (void)gnutls_hash(digests->body[i], bytes, (size_t)length);
}

enum gemmd_error digests_check(struct digests *digests, struct fault *fault)
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++) {
        const enum digest_algorithm algorithm = (enum digest_algorithm)i;
        unsigned char value[DIGEST_BYTES_MAX];
        char found[DIGEST_TEXT_MAX], given[DIGEST_TEXT_MAX];
        if (digests->body[i] == NULL)
            continue;
        gnutls_hash_output(digests->body[i], value);
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
    return digests != NULL && (digest_wanted(&digests->wishes[DIGEST_CONTENT]) != DIGEST_NONE ||
                               digest_wanted(&digests->wishes[DIGEST_REPR]) != DIGEST_NONE);
}

static bool is_wanted(const struct digests *digests, enum digest_algorithm algorithm)
{
    return digest_wanted(&digests->wishes[DIGEST_CONTENT]) == algorithm ||
           digest_wanted(&digests->wishes[DIGEST_REPR]) == algorithm;
}

static void hash_part(gnutls_hash_hd_t hash, const struct MHD_IoVec *part,
                      struct heartbeat *heartbeat)
{
    const char *bytes = part->iov_base;
    for (size_t done = 0; done < part->iov_len; done += PIECE_BYTES) {
        const size_t left = part->iov_len - done;
        (void)gnutls_hash(hash, bytes + done, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (heartbeat != NULL)
            heartbeat_beat(heartbeat);
    }
}

/* Hashes the payload by the algorithms that are wanted. `heartbeat` is the calling thread's, or
 * NULL. False: out of memory. */
static bool hash_payload(const struct digests *digests, const struct payload *payload,
                         struct heartbeat *heartbeat,
                         unsigned char values[DIGEST_ALGORITHMS][DIGEST_BYTES_MAX])
{
    for (int i = 0; i < DIGEST_ALGORITHMS; i++) {
        gnutls_hash_hd_t hash;
        if (!is_wanted(digests, (enum digest_algorithm)i))
            continue;
        if (gnutls_hash_init(&hash, hashes[i]) != 0)
            return false;
        for (uint32_t part = 0; part < payload->count; part++)
            hash_part(hash, &payload->parts[part], heartbeat);
        gnutls_hash_deinit(hash, values[i]);
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
    if (hash_payload(request->digests, payload, NULL, values))
        return add_digests(request, response, values);
    MHD_destroy_response(response);
    return NULL;
}

bool digests_has_answer(const struct digests *digests)
{
    return digests != NULL && digests->response != NULL;
}

struct MHD_Response *digests_take_answer(struct request *request, int *status, uint64_t *length)
{
    struct digests *digests = request->digests;
    struct MHD_Response *response = digests->response;
    digests->response = NULL;
    *status = digests->status;
    *length = payload_bytes(&digests->payload);
    if (digests->hashed)
        return add_digests(request, response, digests->values);
    MHD_destroy_response(response);
    return NULL;
}

/* ---- the digester ---- */

struct digester {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct digests *first, *last;
    bool stopping;
    struct heartbeat heartbeat;
    struct digester_hooks hooks;
};

static void *digester_run(void *argument)
{
    struct digester *digester = argument;
    pthread_setname_np(pthread_self(), "digester");
    pthread_mutex_lock(&digester->lock);
    while (digester->first != NULL || !digester->stopping) {
        struct digests *digests = digester->first;
        heartbeat_beat(&digester->heartbeat);
        if (digests == NULL) {
            pthread_cond_wait(&digester->changed, &digester->lock);
            continue;
        }
        digester->first = digests->next;
        pthread_mutex_unlock(&digester->lock);
        digests->hashed =
            hash_payload(digests, &digests->payload, &digester->heartbeat, digests->values);
        digester->hooks.wake(digests->request);
        pthread_mutex_lock(&digester->lock);
    }
    pthread_mutex_unlock(&digester->lock);
    return NULL;
}

struct digester *digester_start(struct digester_hooks hooks)
{
    struct digester *digester = calloc(1, sizeof *digester);
    if (digester == NULL)
        return NULL;
    digester->hooks = hooks;
    if (pthread_mutex_init(&digester->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&digester->changed, NULL) != 0)
        goto no_condition;
    if (pthread_create(&digester->thread, NULL, digester_run, digester) != 0)
        goto no_thread;
    return digester;

no_thread:
    pthread_cond_destroy(&digester->changed);
no_condition:
    pthread_mutex_destroy(&digester->lock);
no_lock:
    free(digester);
    return NULL;
}

bool digester_alive(struct digester *digester)
{
    const bool alive = heartbeat_look(&digester->heartbeat);
    pthread_mutex_lock(&digester->lock);
    pthread_cond_signal(&digester->changed);
    pthread_mutex_unlock(&digester->lock);
    return alive;
}

void digester_stop(struct digester *digester)
{
    if (digester == NULL)
        return;
    pthread_mutex_lock(&digester->lock);
    digester->stopping = true;
    pthread_cond_signal(&digester->changed);
    pthread_mutex_unlock(&digester->lock);
    pthread_join(digester->thread, NULL);
}

void digester_destroy(struct digester *digester)
{
    if (digester == NULL)
        return;
    pthread_cond_destroy(&digester->changed);
    pthread_mutex_destroy(&digester->lock);
    free(digester);
}

bool digests_hand_over(struct request *request, struct MHD_Response *response, int status,
                       const struct payload *payload)
{
    struct digester *digester = request->server->digester;
    struct digests *digests = request->digests;
    pthread_mutex_lock(&digester->lock);
    const bool takes = !digester->stopping;
    if (takes) {
        digests->response = response;
        digests->status = status;
        digests->payload = *payload;
        digests->next = NULL;
        digester->hooks.hand_over(request); /* before the digester can wake the request */
        if (digester->first == NULL)
            digester->first = digests;
        else
            digester->last->next = digests;
        digester->last = digests;
        pthread_cond_signal(&digester->changed);
    }
    pthread_mutex_unlock(&digester->lock);
    return takes;
}
