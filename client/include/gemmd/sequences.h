/*
 * sequences.h - sequences of a gemmd daemon: keys and values of attentions that stay on the device
 * and grow. Programs include <gemmd/gemmd.h>, which includes this file and says what holds for all
 * functions of libgemmd: ownership, threads, durations, repeats and compatibility. All of this file
 * is there since version 0.2.
 *
 * A program that generates text puts a sequence, appends the keys and values of each token, and
 * attends to the sequence. gemmd_attention() does both in one request: `sequence`, `append` and
 * `position` of struct gemmd_attention.
 *
 * A sequence has a name of 1 to 128 of the characters A-Z a-z 0-9 . _ -, which no other sequence
 * has, though a tensor may. Its memory is that of resident tensors, but a sequence is never
 * evicted.
 *
 * Functions wait for the daemon's answer. The function of the same name that ends in _submit starts
 * the same request and returns a new request, or NULL with `error` filled in, as
 * gemmd_gemm_submit() does. GEMMD_ERR_NOT_FOUND: there is no sequence of the name; _FORBIDDEN: the
 * sequence belongs to another tenant than the client's token; _NO_ROOM: the sequence or its
 * positions do not fit, and `message` names the bytes that are needed and free; _PRECONDITION: the
 * sequence does not have the positions that the request is about, and `message` names its length;
 * _CONFLICT: another request is appending to the sequence.
 */
#ifndef GEMMD_SEQUENCES_H
#define GEMMD_SEQUENCES_H

#include <gemmd/gemmd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GEMMD_SEQUENCE_LAYERS_MAX = 256 };

/* Describes a sequence. */
struct gemmd_sequence {
    size_t size;
    char name[129];
    char etag[72];          /* names the state of the sequence; every change changes the tag */
    enum gemmd_dtype dtype; /* type of keys and values; GEMMD_DTYPE_COUNT: a type of a newer daemon
                             */
    uint64_t kv_heads, d, dv;
    uint64_t length; /* of the shortest layer, in positions */
    uint32_t layers;
    uint64_t lengths[GEMMD_SEQUENCE_LAYERS_MAX]; /* of each layer, in positions */
    uint64_t memory_bytes; /* that the sequence takes, with the pages that forks share */
};

/* A sequence to create. */
struct gemmd_sequence_put {
    size_t size;
    const char *name;
    uint64_t kv_heads; /* heads of the keys and values of a position */
    uint64_t d, dv;    /* elements of a head's key and value, 1 ... 256; a `dv` of 0 means `d` */
    enum gemmd_dtype dtype; /* GEMMD_F32, GEMMD_F16 or GEMMD_BF16; default GEMMD_F16 */
    uint32_t layers;        /* 1 ... GEMMD_SEQUENCE_LAYERS_MAX; default 1 */
    const char *fork;       /* the name of a sequence, whose shape and positions the new sequence
                               has; the fields from kv_heads to layers are then left as they are.
                               NULL: the new sequence has no positions */
    int32_t has_length;  /* 1: a fork has the first `length` positions of each layer, which must all
                            have as many; default 0: all positions */
    uint64_t length;     /* read only if has_length is not 0 */
    uint32_t timeout_ms; /* longest time of this request, as in struct gemmd_gemm */
    const char *request_id;  /* X-Request-Id to send, as in struct gemmd_gemm */
    void *user;              /* the caller's own pointer, see gemmd_request_user() */
    const char *traceparent; /* traceparent to send, as in struct gemmd_gemm */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_sequence_put). */
GEMMD_API void gemmd_sequence_put_init(struct gemmd_sequence_put *put, size_t size);

/* The caller sets sequence->size to sizeof(struct gemmd_sequence); `sequence` may be NULL, here and
 * below. After the _submit form of a function that has the argument `sequence`,
 * gemmd_request_sequence() takes the description. */

/* Creates a sequence, or a fork of one, which replaces the sequence that had the name. */
GEMMD_API enum gemmd_error gemmd_sequence_put(struct gemmd_client *client,
                                              const struct gemmd_sequence_put *put,
                                              struct gemmd_sequence *sequence,
                                              struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_sequence_put_submit(struct gemmd_client *client,
                                                          const struct gemmd_sequence_put *put,
                                                          struct gemmd_error_info *error);

/* Keys and values to append to a layer of a sequence. */
struct gemmd_sequence_append {
    size_t size;
    const char *name;
    uint64_t layer;           /* from 0; default 0 */
    uint64_t position;        /* how many positions precede the new ones: the length of the layer */
    enum gemmd_layout layout; /* GEMMD_LAYOUT_BHSD: kv_heads x positions x d, the default;
                                 GEMMD_LAYOUT_BSHD: positions x kv_heads x d. The same for values */
    const void *k, *v;        /* of the sequence's type; borrowed until the request is done */
    uint64_t k_bytes, v_bytes;
    uint32_t timeout_ms; /* this field and those below as in struct gemmd_sequence_put */
    const char *request_id;
    void *user;
    const char *traceparent;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_sequence_append). */
GEMMD_API void gemmd_sequence_append_init(struct gemmd_sequence_append *append, size_t size);

/* Appends positions, all of them or none. Positions that the layer has already with the same bytes
 * are not appended again, so that a repeated request does no harm. */
GEMMD_API enum gemmd_error gemmd_sequence_append(struct gemmd_client *client,
                                                 const struct gemmd_sequence_append *append,
                                                 struct gemmd_sequence *sequence,
                                                 struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *
gemmd_sequence_append_submit(struct gemmd_client *client,
                             const struct gemmd_sequence_append *append,
                             struct gemmd_error_info *error);

/* Positions of a layer to fetch. */
struct gemmd_sequence_get {
    size_t size;
    const char *name;
    uint64_t layer;           /* from 0; default 0 */
    uint64_t position;        /* the first position; default 0 */
    uint64_t count;           /* how many positions; default 0: all from `position` on */
    enum gemmd_layout layout; /* as in struct gemmd_sequence_append */
    void *data;               /* where keys and values go; NULL: the library allocates the memory */
    uint64_t bytes;           /* size of `data` */
    uint32_t timeout_ms;      /* this field and those below as in struct gemmd_sequence_put */
    const char *request_id;
    void *user;
    const char *traceparent;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_sequence_get). */
GEMMD_API void gemmd_sequence_get_init(struct gemmd_sequence_get *get, size_t size);

/* Fetches the keys of positions and, after them, the values: result->data and result->bytes, with
 * the type in result->dtype and a result->rank of 0. Each position has kv_heads * (d + dv)
 * elements. GEMMD_ERR_USAGE with field "bytes": get->data is too small. */
GEMMD_API enum gemmd_error gemmd_sequence_get(struct gemmd_client *client,
                                              const struct gemmd_sequence_get *get,
                                              struct gemmd_result *result,
                                              struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_sequence_get_submit(struct gemmd_client *client,
                                                          const struct gemmd_sequence_get *get,
                                                          struct gemmd_error_info *error);

/* Shortens all layers that are longer to `length` positions. Of `call`, data, bytes, no_wait and
 * scales are not used. */
GEMMD_API enum gemmd_error gemmd_sequence_truncate(struct gemmd_client *client, const char *name,
                                                   uint64_t length, const struct gemmd_call *call,
                                                   struct gemmd_sequence *sequence,
                                                   struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_sequence_truncate_submit(struct gemmd_client *client,
                                                               const char *name, uint64_t length,
                                                               const struct gemmd_call *call,
                                                               struct gemmd_error_info *error);

/* Asks for a sequence's description. */
GEMMD_API enum gemmd_error gemmd_sequence_stat(struct gemmd_client *client, const char *name,
                                               const struct gemmd_call *call,
                                               struct gemmd_sequence *sequence,
                                               struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_sequence_stat_submit(struct gemmd_client *client,
                                                           const char *name,
                                                           const struct gemmd_call *call,
                                                           struct gemmd_error_info *error);

/* Deletes a sequence. Requests that use the sequence are computed with it all the same. If the
 * connection was lost and the library repeated the request, GEMMD_ERR_NOT_FOUND may mean that the
 * first attempt deleted the sequence. */
GEMMD_API enum gemmd_error gemmd_sequence_delete(struct gemmd_client *client, const char *name,
                                                 const struct gemmd_call *call,
                                                 struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_sequence_delete_submit(struct gemmd_client *client,
                                                             const char *name,
                                                             const struct gemmd_call *call,
                                                             struct gemmd_error_info *error);

/* Lists the sequences of the tenant whose token the client sends, as gemmd_tensor_list() lists
 * tensors. */
GEMMD_API enum gemmd_error gemmd_sequence_list(struct gemmd_client *client,
                                               void (*each)(const struct gemmd_sequence *sequence,
                                                            void *user),
                                               void *user, struct gemmd_error_info *error);

/* Takes the description from a request that is done. GEMMD_ERR_CONFLICT: the request is not done
 * yet; GEMMD_ERR_USAGE: the answer to the request does not describe a sequence. */
GEMMD_API enum gemmd_error gemmd_request_sequence(struct gemmd_request *request,
                                                  struct gemmd_sequence *sequence,
                                                  struct gemmd_error_info *error);

#ifdef __cplusplus
}
#endif

#endif
