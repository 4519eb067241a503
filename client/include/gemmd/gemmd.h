/*
 * gemmd.h - libgemmd, the client of a gemmd daemon.
 *
 * A client holds the connections to one daemon. A request is one call to the daemon: a product,
 * another operation, or something done with a tensor, a sequence or a job. The operations are
 * products and attentions, and the convolutions, reductions, softmaxes and experts of
 * <gemmd/arrays.h>; <gemmd/sequences.h> has sequences. This file includes both. A product from
 * start to end:
 *
 *     struct gemmd_error_info error;
 *     struct gemmd_client *client = gemmd_client_new(NULL, &error);
 *     struct gemmd_gemm gemm;
 *     gemmd_gemm_init(&gemm, sizeof gemm);
 *     gemm.m = 64, gemm.n = 64, gemm.k = 64;
 *     gemm.a = a, gemm.b = b, gemm.c = c, gemm.c_bytes = sizeof c;
 *     if (gemmd_gemm(client, &gemm, NULL, &error) != GEMMD_OK)
 *         fprintf(stderr, "%s\n", error.message);
 *     gemmd_client_free(client);
 *
 * Ownership. Operands are borrowed: the library sends them from the caller's memory, which must not
 * change until the request is done. The result is written into the caller's buffer, or into a
 * buffer that the library allocates and the caller releases with gemmd_free(). The contents of a
 * result's buffer are undefined until a function has returned GEMMD_OK for the request. Strings and
 * structures that are passed to a function are copied before the function returns, unless the
 * function's comment says otherwise. A `const char *` that a function returns is a constant of the
 * library, which nobody releases.
 *
 * Concurrency. One thread can have any number of requests in flight: a function whose name ends in
 * _submit starts a request and returns at once. HTTP/1.1 carries one request at a time on a
 * connection, so the daemon has at most `max_in_flight` requests of a client, one on each
 * connection. Further requests wait in the client, in the order in which they were submitted. A
 * program learns that a request is done in one of three ways: by waiting (gemmd_wait(),
 * gemmd_wait_any()), by a callback (gemmd_on_done()), or from an event loop of its own that watches
 * gemmd_fd(). <gemmd/adapters/uv.h> connects a client to a libuv loop. A function that has no
 * _submit form returns when the daemon has answered.
 *
 * Threads. A client, and the requests made with the client, belong to one thread at a time: give
 * each thread a client of its own, or serialise the calls. Different clients are independent of
 * each other. Functions that take neither a client nor a request may be called from any thread. The
 * library starts no threads, except that libcurl may resolve a host's name in one; requests move
 * forward only while the caller is in a function of the library. The library handles no signals.
 * With https a lost connection may raise SIGPIPE, which the program has to ignore. The first call
 * of gemmd_client_new() in a process calls curl_global_init(), and is safe against other threads
 * that use this library. A program that also uses libcurl directly from several threads calls
 * curl_global_init() before it uses either library.
 *
 * Forks. Parent and child of a fork() may both go on using a client. The first function that the
 * child calls with the client, or with a request of the client, gives the child connections and
 * shared memory of its own. The requests that were in flight go on in the parent. In the child they
 * are done with GEMMD_ERR_CANCELLED, and their callbacks are called. Memory from
 * gemmd_memory_alloc() is private to the child after that first call, and must not be written by
 * the child before the call. A child whose event loop watches gemmd_fd() calls gemmd_fd() before
 * the loop runs and watches the descriptor anew; the descriptor's number is the same. A client that
 * another thread was using during the fork must not be used in the child. Since version 0.2.
 *
 * Time. Every duration is in milliseconds, measured with a monotonic clock. Every wait ends: what
 * is left of a request's total time is sent to the daemon as the request's deadline, and the daemon
 * drops work whose deadline has passed. If the total time is longer than the daemon's
 * --max-timeout, the daemon's default deadline applies.
 *
 * Repeats. Every operation is safe to repeat. A request that the daemon refused for the moment
 * (429, 503), or whose connection was lost, is sent again, at most `retries` times and
 * within the request's total time. Before each repeat the library waits for the daemon's
 * Retry-After and a random delay between 0 and min(5 s, 50 ms * 2^repeats). If the daemon closed a
 * connection while the connection was idle, the library opens another at once and does not count a
 * repeat.
 *
 * Compatibility. A structure that callers allocate begins with its `size`, which the structure's
 * _init function sets. A later version may append fields; in such a field zero means today's
 * behaviour. The library refuses a structure that is larger than the library's own, unless the
 * unknown part is all zeros. The values of enumerations and the layout of struct gemmd_error_info
 * do not change for the life of the SONAME. Every symbol has been there since version 0.1, unless
 * the symbol's comment names a later version.
 */
#ifndef GEMMD_GEMMD_H
#define GEMMD_GEMMD_H

#include <gemmd/dtypes.h>
#include <gemmd/errors.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GEMMD_API __attribute__((visibility("default")))
#else
#define GEMMD_API
#endif

struct gemmd_client;
struct gemmd_request;

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Describes why a function failed. The caller allocates the structure, and a function that is
 * passed one fills it in; every such function allows NULL. The structure owns no memory. */
struct gemmd_error_info {
    enum gemmd_error code;
    int32_t http_status;     /* of the daemon's answer; 0 if the daemon did not answer */
    int32_t retriable;       /* 1 if the same request may succeed later */
    uint32_t retry_after_ms; /* the daemon's Retry-After; 0 if the daemon sent none */
    uint32_t attempts;       /* how often the request was sent */
    char field[32];          /* the parameter at fault, or "" */
    char request_id[64];     /* X-Request-Id, by which the daemon's log names the request, or "" */
    char message[256];       /* one sentence for people */
};

/* The name of a code, for example "QUEUE_FULL", and what the code means in general, for example
 * "The queue is full"; "?" if `code` is not a code. */
GEMMD_API const char *gemmd_error_name(enum gemmd_error code);
GEMMD_API const char *gemmd_error_title(enum gemmd_error code);

/* ---- Element types --------------------------------------------------------------------------- */

/* The size of an element in bytes; 0 if `dtype` is not a type. */
GEMMD_API size_t gemmd_dtype_size(enum gemmd_dtype dtype);
/* The name of a type, for example "bf16"; "?" if `dtype` is not a type. */
GEMMD_API const char *gemmd_dtype_name(enum gemmd_dtype dtype);
/* Finds a type by its name. Returns 1 and sets `*dtype`; returns 0 if no type has the name. */
GEMMD_API int gemmd_dtype_from_name(const char *name, enum gemmd_dtype *dtype);

/* The version of the library that the program runs with: "MAJOR.MINOR.PATCH". */
GEMMD_API const char *gemmd_version(void);

/* Releases a buffer or a text that the library allocated for the caller. NULL is allowed. */
GEMMD_API void gemmd_free(void *memory);

/* ---- Clients --------------------------------------------------------------------------------- */

/* Whether a client of a Unix socket passes operands and results through memory that the daemon
 * shares, or through the socket. */
enum gemmd_shared {
    GEMMD_SHARED_AUTO,  /* shared memory, if the daemon takes it and the matrices are large enough
                           for it to be faster, or lie in it already */
    GEMMD_SHARED_NEVER, /* always the socket */
    GEMMD_SHARED_ALWAYS /* shared memory whatever the size; a request fails if the daemon takes
                           none. Jobs go through the socket in any case */
};

/* Options of a client. Zero, or NULL, means the default in every field but `retries`. */
struct gemmd_options {
    size_t size;
    /* The daemon's address: "http://host:port", "https://host:port", "host:port", which is short
     * for the first, or "unix:PATH" for a Unix socket. NULL: the environment's GEMMD_URL, else
     * "http://127.0.0.1:8080". Proxies that the environment names are used for http and https,
     * never for a Unix socket. */
    const char *url;
    const char *token;           /* bearer token; NULL: the environment's GEMMD_TOKEN; "": none */
    const char *ca_file;         /* PEM file with the certificates to trust for https; NULL: the
                                    environment's GEMMD_CA_FILE, else the system's; "": the system's.
                                    A file that cannot be read is GEMMD_ERR_USAGE */
    uint32_t connect_timeout_ms; /* longest time to connect; default 5,000 */
    uint32_t total_timeout_ms; /* longest time of a request with all its repeats; default 300,000 */
    uint32_t stall_timeout_ms; /* longest time for which a transfer may move no byte; default
                                  30,000. Does not run while the daemon computes */
    uint32_t retries;          /* repeats of a request at most; default 4; 0: none */
    uint32_t max_in_flight;    /* connections at most, each with one request; default 64. Further
                                  requests wait in the client */
    uint64_t shared_bytes;     /* size of the shared memory, all of which a GPU pins. Set it where
                                  gemmd_memory_alloc() is used. Default: the memory grows as
                                  requests need, to 1 GiB at most */
    enum gemmd_shared shared;  /* default GEMMD_SHARED_AUTO */
    /* PEM files of the client's certificate and its private key, for daemons that ask for one.
     * NULL: the environment's GEMMD_CERT_FILE and GEMMD_KEY_FILE; "": none. Without a key file the
     * certificate's file holds the key too. A file that cannot be read is GEMMD_ERR_USAGE. */
    const char *cert_file, *key_file;
    /* traceparent (W3C Trace Context) of every request that names none of its own, "00-", 32
     * hexadecimal digits of the trace, "-", 16 of the caller's span, "-", 2 of flags. NULL: none.
     * Another form is GEMMD_ERR_USAGE. */
    const char *traceparent;
    /* 1: ask for the digest (RFC 9530, sha-256) of each answer, and compare it with the answer's
     * bytes. Bytes that were changed on their way are GEMMD_ERR_CONNECTION, which is repeated like
     * a lost connection; an answer without a digest is GEMMD_ERR_PROTOCOL. Results in shared memory
     * have no digest. Default 0. Since 0.2. */
    int32_t check_digests;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_options). */
GEMMD_API void gemmd_options_init(struct gemmd_options *options, size_t size);

/* Returns a new client, or NULL with `error` filled in. The client connects when its first request
 * is sent. `options` may be NULL for the defaults. GEMMD_ERR_USAGE: an option is wrong, for example
 * a URL of another form; GEMMD_ERR_OUT_OF_MEMORY. */
GEMMD_API struct gemmd_client *gemmd_client_new(const struct gemmd_options *options,
                                                struct gemmd_error_info *error);
/* Cancels and releases all requests of the client, then the client. Pointers to these requests are
 * no longer valid. NULL is allowed. */
GEMMD_API void gemmd_client_free(struct gemmd_client *client);

/* ---- Shared memory --------------------------------------------------------------------------- */

/* A client of a Unix socket shares memory with the daemon, if the daemon was not started with
 * --no-shm-memfd. The library copies operands into the shared memory, the daemon computes there,
 * and the library copies the result out. Operands and results that lie in memory from
 * gemmd_memory_alloc() are not copied. After a request was cancelled or ran out of time, the daemon
 * may still write to the request's result until the computation that has begun ends. */

/* Allocates memory for operands and results, aligned to 64 bytes: shared memory if the daemon can
 * share it, else ordinary memory. The caller releases the memory with gemmd_memory_free(), before
 * the client. Returns NULL on GEMMD_ERR_OUT_OF_MEMORY. */
GEMMD_API void *gemmd_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                                   struct gemmd_error_info *error);
/* Releases memory from gemmd_memory_alloc(). All requests that use the memory have to be done. NULL
 * is allowed. */
GEMMD_API void gemmd_memory_free(struct gemmd_client *client, void *memory);

/* ---- Products -------------------------------------------------------------------------------- */

enum gemmd_precision {
    GEMMD_PRECISION_FULL, /* at most the error of sums in the accumulator's type (PROTOCOL.md) */
    GEMMD_PRECISION_TF32, /* f32 operands may be rounded to TF32 */
    GEMMD_PRECISION_F8    /* f8_e4m3 operands: sums of 128 products may keep 13 bits only */
};
/* The activation, which is applied last. */
enum gemmd_act {
    GEMMD_ACT_NONE,
    GEMMD_ACT_RELU,
    GEMMD_ACT_GELU,
    GEMMD_ACT_GELU_TANH,
    GEMMD_ACT_SILU
};
/* Whether the daemon checks the product, by Freivalds' method, before it sends the product. */
enum gemmd_verify { GEMMD_VERIFY_NONE, GEMMD_VERIFY_FREIVALDS };

/* The scales of f8_e4m3 and i8 operands. ROWCOL: a factor for each row of op(A) and each column of
 * op(B). BLOCK, for f8_e4m3: a factor for each row of op(A) and 128 steps of k, and for each 128 x
 * 128 elements of op(B). Since version 0.2. */
enum gemmd_scales { GEMMD_SCALES_NONE, GEMMD_SCALES_ROWCOL, GEMMD_SCALES_BLOCK };

/* The value of `out` for the daemon's default: the type of A and B, but bf16 for f8_e4m3 and with
 * scales, and i32 for i8. */
#define GEMMD_OUT_DEFAULT (-1)

/* The parameters of a product, C = act(alpha * op(A) * op(B) + beta * C0 + bias), computed `batch`
 * times. Matrices are row-major and contiguous: op(A) is m x k, op(B) is k x n, C is m x n. All
 * problems of a batch have one shape and lie one after another in each operand; all of them use the
 * same bias. */
struct gemmd_gemm {
    size_t size;
    uint64_t m, n, k;               /* 1 ... 2^31-1 */
    uint64_t batch;                 /* default 1 */
    enum gemmd_dtype dtype;         /* type of A and B; default GEMMD_F32 */
    int32_t out;                    /* type of C, C0 and bias, an enum gemmd_dtype; default
                                       GEMMD_OUT_DEFAULT */
    enum gemmd_precision precision; /* default GEMMD_PRECISION_FULL */
    enum gemmd_act act;             /* default GEMMD_ACT_NONE */
    enum gemmd_verify verify;       /* default GEMMD_VERIFY_NONE */
    int32_t transa, transb;         /* 1: A is stored k x m, B is stored n x k; default 0 */
    uint32_t priority;              /* among the tenant's requests, 0 (lowest) ... 9; default 4 */
    double alpha, beta;             /* default 1 and 0 */
    uint32_t timeout_ms;     /* longest time of this request with all its repeats, if that is less
                                than the client's total_timeout_ms; 0: the client's */
    const char *kernel;      /* name of the daemon's kernel to use; NULL: the daemon chooses */
    const char *request_id;  /* X-Request-Id to send, at most 63 visible ASCII characters; NULL: the
                                daemon makes one */
    const void *a, *b;       /* the operands, borrowed until the request is done */
    const void *bias;        /* n elements, borrowed like `a`; NULL: no bias */
    const void *c0;          /* borrowed like `a`; needed if beta is not 0, else not sent */
    void *c;                 /* where C goes, borrowed like `a`; NULL: the library allocates it */
    uint64_t c_bytes;        /* size of `c` */
    void *user;              /* the caller's own pointer, see gemmd_request_user() */
    const char *a_tensor;    /* name of the resident tensor that is A; `a` is then NULL */
    const char *b_tensor;    /* name of the resident tensor that is B; `b` is then NULL */
    const char *store;       /* name under which the daemon keeps C as a tensor; C is then not sent
                                back. NULL: C is sent back */
    int32_t job;             /* 1: hand the product in as a job. The request is done when the daemon
                                has accepted the job, and the result names the job; default 0 */
    const char *traceparent; /* traceparent to send, by which the daemon's log and spans belong to
                                the caller's trace; NULL: the client's */
    enum gemmd_scales scales; /* default GEMMD_SCALES_NONE. Since version 0.2, as are a_scale and
                                 b_scale */
    /* The scales, positive and finite, borrowed until the request is done. ROWCOL: m and n
     * elements. BLOCK, with K and N for k and n divided by 128 and rounded up: m x K elements, or K
     * x m if transa is 1, and K x N elements, or N x K if transb is 1. With a batch, those of all
     * problems, one after another. NULL: there are no scales, or the resident tensor brings its
     * own. */
    const float *a_scale, *b_scale;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_gemm). */
GEMMD_API void gemmd_gemm_init(struct gemmd_gemm *gemm, size_t size);

/* How long each stage of a request took in the daemon, in milliseconds: receiving the body, waiting
 * in the queue, copying to the device, computing, copying back, and all of it. Negative: the daemon
 * did not report the stage. */
struct gemmd_timing {
    double recv, queue, h2d, kernel, d2h, total;
};

/* The effect of a request that puts or stores a tensor. */
enum gemmd_put {
    GEMMD_PUT_NONE,     /* the request puts or stores no tensor */
    GEMMD_PUT_CREATED,  /* there was no tensor of the name before */
    GEMMD_PUT_REPLACED, /* the name had another content before */
    GEMMD_PUT_UNCHANGED /* the name had this content already; nothing was uploaded */
};

/* The answer to a request. There is no data if the result was stored or the request was handed in
 * as a job; a job has neither shape nor type yet. */
struct gemmd_result {
    size_t size;
    void *data;     /* the caller's buffer, or a new one, aligned to 64 bytes, that the caller
                       releases with gemmd_free() */
    uint64_t bytes; /* length of the result */
    enum gemmd_dtype dtype;
    uint32_t rank; /* of a product 2 (m, n) or 3 (batch, m, n); of an attention and of a
                      convolution 4; of an array as many as the result has */
    uint64_t dims[8];
    char kernel[32];     /* name of the kernel that computed the result */
    uint32_t batch;      /* how many requests shared the kernel's launch */
    uint32_t attempts;   /* how often the request was sent */
    double residual;     /* if `verified`: the largest error that the check found, as a fraction of
                            what rounding can explain */
    int32_t verified;    /* 1 if the request asked for `verify` and the result passed */
    char request_id[64]; /* X-Request-Id of the answer */
    struct gemmd_timing timing;
    double elapsed_ms; /* from submit to the last byte of the answer, on the client's clock */
    char job[64];      /* id of the job that was handed in, or "" */
    char etag[72]; /* entity tag of a tensor that was put, stored, fetched or looked at, or "" */
    enum gemmd_put put; /* effect of a put or of `store` */
    float *lse; /* lse of an attention that asked for it: the caller's buffer, or a new one that the
                   caller releases with gemmd_free(); else NULL */
    uint64_t lse_bytes;
    int32_t shared; /* 1 if operands and result went through shared memory */
    uint32_t lse_rank;
    uint64_t lse_dims[8]; /* batch, heads and queries, whatever the layout. Leading dimensions that
                             the request's arrays left out are left out here and in `dims` */
    float *scale; /* the scales of a tensor that was fetched with call->scales, row-major, which the
                     caller releases with gemmd_free(); NULL: the tensor has none, or they were not
                     asked for. Since version 0.2 */
    uint64_t scale_bytes;
    uint32_t scale_rank; /* number of dimensions of the scales, 1 ... 8 */
    uint64_t scale_dims[8];
    char type[16]; /* of a tensor that was put, fetched or looked at: the daemon's name of its type,
                      such as "bf16". If the tensor has packed weights, the name is, for example,
                      "u4", `dtype` is GEMMD_DTYPE_COUNT, `dims` are k and n of the matrix, and
                      `bytes` and `data` are those of the safetensors file. Since version 0.2 */
};

/* Zeroes the structure; `size` is sizeof(struct gemmd_result). */
GEMMD_API void gemmd_result_init(struct gemmd_result *result, size_t size);

/* Computes a product and waits for the answer. The client's other requests move forward meanwhile.
 * `result` may be NULL if gemm->c or gemm->store is set. With gemm->job set, a daemon that accepts
 * no jobs computes the product at once: result->job is then "", and the result is in `result`.
 * GEMMD_ERR_USAGE: a parameter is out of range, an operand is missing, or `c` is too small; nothing
 * was sent. GEMMD_ERR_UNSUPPORTED with http_status 0: gemmd does not offer these parameters
 * together; nothing was sent. Else the error of the daemon's answer, GEMMD_ERR_CONNECTION,
 * _TIMEOUT, _PROTOCOL, or _OUT_OF_MEMORY (with http_status 0 if the library, not the daemon, ran
 * out of memory). */
GEMMD_API enum gemmd_error gemmd_gemm(struct gemmd_client *client, const struct gemmd_gemm *gemm,
                                      struct gemmd_result *result, struct gemmd_error_info *error);

/* ---- Attention ------------------------------------------------------------------------------- */

enum gemmd_layout {
    GEMMD_LAYOUT_BHSD, /* batch, heads, sequence, head size */
    GEMMD_LAYOUT_BSHD  /* batch, sequence, heads, head size */
};

#define GEMMD_WINDOW_NONE (-1)
#define GEMMD_SCALE_DEFAULT 1e300 /* stands for 1/sqrt(d); the daemon takes no scale so large */

/* What the mask of an attention does. */
enum gemmd_mask {
    GEMMD_MASK_NONE, /* there is no mask */
    GEMMD_MASK_ADD,  /* elements of the type of Q are added to the scores; minus infinity hides the
                        key */
    GEMMD_MASK_BOOL  /* bytes; 0 hides the key */
};

/* The parameters of an attention, O = softmax(scale * Q * K^T + mask) * V for each head of each
 * entry of a batch. Tensors are contiguous, with their dimensions in the order of `layout`. Head h
 * of Q uses head h / (heads / kv_heads) of K and V. */
struct gemmd_attention {
    size_t size;
    uint64_t batch;           /* entries; default 1 */
    uint64_t heads, kv_heads; /* heads of Q, and of K and V. `heads` is a multiple of `kv_heads`; a
                                 `kv_heads` of 0 means `heads` */
    uint64_t sq, skv;         /* lengths of Q, and of K and V; an `skv` of 0 means `sq` */
    uint64_t d, dv;           /* head sizes of Q and K, and of V and O; a `dv` of 0 means `d` */
    enum gemmd_layout layout; /* default GEMMD_LAYOUT_BHSD */
    enum gemmd_dtype dtype;   /* type of Q, K, V and O; default GEMMD_F16 */
    int32_t causal;           /* 1: query i sees no key to the right of i + skv - sq; default 0 */
    int64_t window;           /* w: query i sees no key to the left of i + skv - sq - w; default
                                 GEMMD_WINDOW_NONE */
    double scale;             /* factor of the scores; default GEMMD_SCALE_DEFAULT */
    double softcap;           /* c: a score becomes c * tanh(score / c); default 0: scores stay */
    const int32_t *lens_q;  /* number of valid queries of each entry, from 0 to sq; rows of O beyond
                               are zeros. NULL: sq. All pointers to data from here on are borrowed
                               until the request is done */
    const int32_t *lens_kv; /* number of valid keys of each entry, from 0 to skv. NULL: skv. Set
                               both lens_q and lens_kv, or neither */
    const void *q, *k, *v;  /* the operands */
    const char *k_tensor, *v_tensor; /* names of the resident tensors that are K and V; `k` and `v`
                                        are then NULL */
    void *o;            /* where O goes, of the shape of Q with head size dv. NULL: the library
                           allocates O */
    uint64_t o_bytes;   /* size of `o` */
    int32_t with_lse;   /* 1: compute lse too, the logarithm of each row's sum of exp(score), of the
                           shape batch x heads x sq whatever the layout; default 0 */
    float *lse;         /* where lse goes. NULL: the library allocates lse */
    uint64_t lse_bytes; /* size of `lse` */
    uint32_t priority;  /* this field and those below have the meanings and defaults that they have
                           in struct gemmd_gemm */
    uint32_t timeout_ms;
    const char *kernel;
    const char *request_id;
    void *user;
    int32_t job;
    const char *traceparent; /* traceparent to send, as in struct gemmd_gemm */
    const void *mask; /* mask_batch x mask_heads x mask_sq x skv elements; NULL: no mask. This field
                         and those below since version 0.2 */
    enum gemmd_mask mask_kind;       /* what the elements of `mask` mean; set it with `mask` */
    uint64_t mask_batch, mask_heads; /* 1, or batch and heads; 0: 1 */
    uint64_t mask_sq;                /* 1, or sq; 0: sq */
    int32_t has_offset; /* 1: query i is at the position i + offset among the keys, not at i + skv -
                           sq; default 0 */
    uint64_t offset;    /* read only if has_offset is not 0 */
    const char *sequence; /* the name of a sequence (<gemmd/sequences.h>), whose keys and values are
                             K and V: kv_heads, d, dv and dtype are those of the sequence, and
                             `batch` is 1. `k` and `v` are NULL unless `append` is 1, and `skv` can
                             be less than the length of the layer, 0: its length. NULL: none */
    uint64_t layer;       /* of the sequence, from 0 */
    int32_t append;       /* 1: `k` and `v` are the keys and values of the sq positions from
                             `position` on, which are appended to the sequence first, all or none;
                             skv is 0, and the queries see position + sq keys. Default 0 */
    uint64_t position;    /* of an append: how many positions precede the new ones */
    int64_t window_right; /* w: query i sees no key to the right of i + skv - sq + w; default
                             GEMMD_WINDOW_NONE */
    int32_t ragged; /* 1: the rows of the entries follow one another, without padding. sq and skv
                       are the rows of all entries, the first dimension of the operands, O and lse
                       is 1, and lens_q and lens_kv have batch + 1 elements: the first row of each
                       entry, and then sq and skv. Default 0 */
    const float *slopes; /* ALiBi's slope of each head: slope * |i + skv - sq - j| is subtracted
                            from the score of key j. NULL: none */
    const float *sinks;  /* a score of each head that has no value and takes its part of the weights
                            of each row. NULL: none */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_attention). */
GEMMD_API void gemmd_attention_init(struct gemmd_attention *attention, size_t size);

/* Computes an attention and waits for the answer, with the errors of gemmd_gemm(). `result` may be
 * NULL if attention->o is set and, with attention->with_lse, attention->lse too. The lse of an
 * attention that was handed in as a job comes with the job's result, from gemmd_job_result(). */
GEMMD_API enum gemmd_error gemmd_attention(struct gemmd_client *client,
                                           const struct gemmd_attention *attention,
                                           struct gemmd_result *result,
                                           struct gemmd_error_info *error);
/* Starts an attention and returns at once, as gemmd_gemm_submit() does for a product. */
GEMMD_API struct gemmd_request *gemmd_attention_submit(struct gemmd_client *client,
                                                       const struct gemmd_attention *attention,
                                                       struct gemmd_error_info *error);

/* ---- Resident tensors ------------------------------------------------------------------------ */

/* A resident tensor stays on the daemon's device under a name of 1 to 128 of the characters
 * A-Z a-z 0-9 . _ - and can be an operand of any number of requests.
 *
 * Functions of this section wait for the daemon's answer. The function of the same name that ends
 * in _submit starts the same request and returns a new request, or NULL with `error` filled in, as
 * gemmd_gemm_submit() does; gemmd_request_result() then takes the result. GEMMD_ERR_NOT_FOUND:
 * there is no tensor of the name; _FORBIDDEN: the tensor belongs to another tenant than the
 * client's token; _NO_ROOM: the tensor does not fit, and `message` names the bytes that are needed
 * and free. */

/* Options of a request for a tensor or a job. A function that takes a pointer to this structure
 * takes NULL for the defaults. */
struct gemmd_call {
    size_t size;
    void *data;          /* where the tensor or the result goes, borrowed until the request is
                            done; NULL: the library allocates it */
    uint64_t bytes;      /* size of `data` */
    uint32_t timeout_ms; /* longest time of this request, as in struct gemmd_gemm */
    int32_t no_wait;     /* of gemmd_job_result() only. 1: fail with GEMMD_ERR_CONFLICT if the job
                            is not done yet; default 0: wait */
    const char *request_id;  /* X-Request-Id to send, as in struct gemmd_gemm */
    void *user;              /* the caller's own pointer, see gemmd_request_user() */
    const char *traceparent; /* traceparent to send, as in struct gemmd_gemm */
    int32_t scales;          /* of gemmd_tensor_get() only. 1: fetch the tensor's scales too, to
                                result->scale; default 0. Since version 0.2 */
    /* Of gemmd_tensor_get() only: fetch `rows` elements of the tensor's first dimension, from
     * number `row` on. rows = 0: all from `row` on. `scales` must then be 0. Since version 0.2. */
    uint64_t row, rows;
};

/* Zeroes the structure, which sets the defaults; `size` is sizeof(struct gemmd_call). */
GEMMD_API void gemmd_call_init(struct gemmd_call *call, size_t size);

/* A tensor to put on the daemon. */
struct gemmd_tensor_put {
    size_t size;
    const char *name;
    enum gemmd_dtype dtype; /* default GEMMD_F32 */
    uint32_t rank;          /* number of dimensions, 1 ... 8 */
    uint64_t dims[8];       /* each at least 1 */
    const void *data;       /* row-major; borrowed until the request is done */
    const char *etag;       /* the tensor's entity tag from gemmd_tensor_etag(); NULL: the library
                               computes the tag, at about 1 GB/s, before anything is sent */
    int32_t evictable;      /* 1: the daemon may drop the tensor when another tensor needs the room;
                               default 0 */
    uint32_t timeout_ms;    /* longest time of this request, as in struct gemmd_gemm */
    const char *request_id; /* X-Request-Id to send, as in struct gemmd_gemm */
    void *user;             /* the caller's own pointer, see gemmd_request_user() */
    const char *traceparent; /* traceparent to send, as in struct gemmd_gemm */
    /* The scales of a tensor of GEMMD_F8_E4M3 or GEMMD_I8, positive and finite, row-major, borrowed
     * until the request is done. Products that use the tensor take the scales with it (enum
     * gemmd_scales). NULL: the tensor has no scales. `etag` is then the tag of tensor and scales,
     * which the library computes if `etag` is NULL; gemmd_tensor_etag() does not. Since version
     * 0.2. */
    const float *scale;
    uint32_t scale_rank;    /* number of dimensions of the scales, 1 ... 8 */
    uint64_t scale_dims[8]; /* each at least 1 */
    int32_t contiguous; /* 1: the device keeps the rows one after another, as gemmd_conv2d() wants a
                           resident X; default 0. Since version 0.2 */
    /* Packed weights, which PROTOCOL.md describes: the name of the format of their file, such as
     * "gptq" or "mxfp4". `data` is then a safetensors file of `data_bytes` bytes, which tells its
     * types and shapes: `dtype`, `rank`, `dims`, `scale` and `contiguous` keep their defaults. The
     * tensor can be b_tensor of products whose A is of GEMMD_F16 or GEMMD_BF16. NULL: `data` is an
     * array. Since version 0.2. */
    const char *format;
    uint64_t data_bytes;
    uint32_t bits; /* width of packed weights, 4 or 8; 0: the format's own */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_tensor_put). */
GEMMD_API void gemmd_tensor_put_init(struct gemmd_tensor_put *put, size_t size);

/* Computes the entity tag by which the daemon recognises a content: the SHA-256 of type, shape and
 * bytes, in hexadecimal and in quotes. Writes 66 characters and a NUL to `out`, or "" if the type
 * or the shape is invalid. Any thread. */
GEMMD_API void gemmd_tensor_etag(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims,
                                 const void *data, char out[72]);

/* Makes a tensor resident under its name. The library first asks the daemon whether the name has
 * this content already. If so, nothing is uploaded, and result->put is GEMMD_PUT_UNCHANGED.
 * gemmd_request_progress() reports how much of a large tensor was uploaded. */
GEMMD_API enum gemmd_error gemmd_tensor_put(struct gemmd_client *client,
                                            const struct gemmd_tensor_put *put,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_put_submit(struct gemmd_client *client,
                                                        const struct gemmd_tensor_put *put,
                                                        struct gemmd_error_info *error);

/* Fetches a tensor, and with call->scales its scales: tensor and scales are those of struct
 * gemmd_tensor_put. Of packed weights, fetches a safetensors file in which every tensor has the
 * bytes that were put. GEMMD_ERR_USAGE with field "bytes": call->data is smaller than the tensor or
 * the file. GEMMD_ERR_MALFORMED: the tensor has not as many rows as `call` asks for. */
GEMMD_API enum gemmd_error gemmd_tensor_get(struct gemmd_client *client, const char *name,
                                            const struct gemmd_call *call,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_get_submit(struct gemmd_client *client,
                                                        const char *name,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Fetches type, shape, bytes and entity tag of a tensor, without the tensor's data. */
GEMMD_API enum gemmd_error gemmd_tensor_stat(struct gemmd_client *client, const char *name,
                                             const struct gemmd_call *call,
                                             struct gemmd_result *result,
                                             struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_stat_submit(struct gemmd_client *client,
                                                         const char *name,
                                                         const struct gemmd_call *call,
                                                         struct gemmd_error_info *error);

/* Deletes a tensor. Requests that use the tensor are computed with it all the same. If the
 * connection was lost and the library repeated the request, GEMMD_ERR_NOT_FOUND may mean that the
 * first attempt deleted the tensor. */
GEMMD_API enum gemmd_error gemmd_tensor_delete(struct gemmd_client *client, const char *name,
                                               const struct gemmd_call *call,
                                               struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_delete_submit(struct gemmd_client *client,
                                                           const char *name,
                                                           const struct gemmd_call *call,
                                                           struct gemmd_error_info *error);

/* Describes a resident tensor. */
struct gemmd_tensor {
    size_t size;
    char name[129];
    char etag[72];
    enum gemmd_dtype dtype; /* GEMMD_DTYPE_COUNT: packed weights, which PROTOCOL.md describes, or a
                               type of a newer daemon. Since version 0.2; version 0.1 does not list
                               the tensors of a daemon that has such a tensor */
    uint32_t rank;
    uint64_t dims[8];
    uint64_t bytes;
    int32_t evictable;
    char type[16];   /* the daemon's name of the type: "bf16", or "u4" of packed weights. This
                        member and those below are there since version 0.2 */
    char format[24]; /* of the file of packed weights, such as "gptq"; "": the tensor has none */
    uint64_t group;  /* steps of k that have one scale; 0: the tensor has no packed weights */
};

/* Lists the tensors of the tenant whose token the client sends. Calls `each` for every tensor once
 * the whole list has arrived; on an error, for none. The structure that `each` gets is valid during
 * the call only. */
GEMMD_API enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                             void (*each)(const struct gemmd_tensor *tensor,
                                                          void *user),
                                             void *user, struct gemmd_error_info *error);

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* A job is a product or another operation that the daemon computes whether or not the client stays.
 * To hand in a job, set `job` in the operation's structure, for example struct gemmd_gemm;
 * `timeout_ms` of that structure, if not 0, is the deadline of the job. The daemon keeps the result
 * until the job is cancelled or expires. GEMMD_ERR_NOT_FOUND: there is no job of the id;
 * _FORBIDDEN: the job belongs to another tenant than the client's token; _GONE: the result has
 * expired, or the job was cancelled. */

enum gemmd_job_state {
    GEMMD_JOB_UNKNOWN, /* a state of a newer daemon that this library does not know */
    GEMMD_JOB_QUEUED,
    GEMMD_JOB_RUNNING,
    GEMMD_JOB_DONE,
    GEMMD_JOB_FAILED,
    GEMMD_JOB_CANCELLED
};

struct gemmd_job {
    size_t size;
    char id[64]; /* "" in the list of a daemon that requires no tokens */
    enum gemmd_job_state state;
    int32_t http_status;           /* status of the result; 0 while there is no result */
    uint64_t bytes;                /* length of the result; 0 while there is no result */
    double queued_ms, running_ms;  /* time in the queue and time of computing, so far; negative: the
                                      daemon did not report it */
    char created[32], expires[32]; /* when the job was handed in, and when the result expires, as in
                                      RFC 3339; "" if the daemon did not report it */
    char request_id[64];           /* X-Request-Id of the request that handed the job in */
    char op[16];                   /* the operation, for example "gemm"; "" if not reported */
};

/* The name of a state, for example "running"; "unknown" if `state` is not a state. */
GEMMD_API const char *gemmd_job_state_name(enum gemmd_job_state state);

/* Asks for a job's description. The caller sets job->size to sizeof(struct gemmd_job). After
 * gemmd_job_status_submit(), gemmd_request_job() takes the description. */
GEMMD_API enum gemmd_error gemmd_job_status(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call, struct gemmd_job *job,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_status_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Lists the jobs of the tenant whose token the client sends, the newest first. A daemon that
 * requires no tokens lists the jobs of all clients, without their ids, which are their clients'
 * secrets. Calls `each` for every job once the whole list has arrived; on an error, for none. The
 * structure that `each` gets is valid during the call only. GEMMD_ERR_NOT_FOUND: the daemon is
 * older than 0.2 and has no list. */
GEMMD_API enum gemmd_error gemmd_job_list(struct gemmd_client *client,
                                          void (*each)(const struct gemmd_job *job, void *user),
                                          void *user, struct gemmd_error_info *error);

/* Waits until a job is done, without fetching the job's result. If the job failed, this function
 * fails with the code of the job's error; gemmd_job_result() has the error's sentence too. */
GEMMD_API enum gemmd_error gemmd_job_wait(struct gemmd_client *client, const char *id,
                                          const struct gemmd_call *call,
                                          struct gemmd_result *result,
                                          struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_wait_submit(struct gemmd_client *client, const char *id,
                                                      const struct gemmd_call *call,
                                                      struct gemmd_error_info *error);

/* Waits until a job is done and fetches the job's result. With call->no_wait set the function does
 * not wait: GEMMD_ERR_CONFLICT then means that the job is not done yet. If the job failed, this
 * function fails with the job's error. */
GEMMD_API enum gemmd_error gemmd_job_result(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_result_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Ends a job and drops the job's result. If the connection was lost and the library repeated the
 * request, GEMMD_ERR_NOT_FOUND may mean that the first attempt dropped the job. */
GEMMD_API enum gemmd_error gemmd_job_cancel(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_cancel_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* ---- Requests in flight ---------------------------------------------------------------------- */

/* Starts a product and returns at once. Returns a new request, which the caller releases with
 * gemmd_request_free(), or NULL with `error` filled in (GEMMD_ERR_USAGE, _OUT_OF_MEMORY). Requests
 * move forward while the caller is in gemmd_advance() or in a function that waits. */
GEMMD_API struct gemmd_request *gemmd_gemm_submit(struct gemmd_client *client,
                                                  const struct gemmd_gemm *gemm,
                                                  struct gemmd_error_info *error);

/* Moves all of the client's requests forward until `request` is done, or for `timeout_ms` at most.
 * A `timeout_ms` of 0 does not wait; a negative `timeout_ms` waits until the request is done, which
 * its total time limits. Returns 1 if the request is done, else 0. gemmd_request_result() then
 * takes the result. */
GEMMD_API int gemmd_wait(struct gemmd_request *request, int64_t timeout_ms);

/* Moves all of the client's requests forward until one is done, and returns that request, which
 * stays the caller's to release. Each request is returned once, and a request that gemmd_wait() has
 * reported as done is not returned. Returns NULL if no request was done within `timeout_ms` (0 and
 * negative values as in gemmd_wait()), or if no request is in flight. */
GEMMD_API struct gemmd_request *gemmd_wait_any(struct gemmd_client *client, int64_t timeout_ms);

/* Moves all of the client's requests forward until one is done, or for `timeout_ms` at most (0 and
 * negative values as in gemmd_wait()), and calls the callbacks of the requests that are done.
 * Returns the number of requests that are not done. */
GEMMD_API uint32_t gemmd_advance(struct gemmd_client *client, int64_t timeout_ms);

/* A callback, which is called once for a request that is done. The callback may call any function
 * of the library except gemmd_client_free(). A callback usually takes the result, releases the
 * request and submits the next one. */
typedef void (*gemmd_done_function)(struct gemmd_request *request, void *user);
/* Sets the callback of a request. The library calls `call` with the request's `user` from the
 * function in which the request becomes done, or, if the request is done already, from the next
 * function that moves requests forward. gemmd_wait_any() does not return a request that has a
 * callback, and gemmd_wait() must not be used with a request whose callback releases it.
 * gemmd_request_free() and gemmd_client_free() call no callbacks. */
GEMMD_API void gemmd_on_done(struct gemmd_request *request, gemmd_done_function call);

/* Returns a file descriptor that is readable whenever the client's requests can move forward, also
 * when a timer has expired. An event loop watches the descriptor for reading and calls
 * gemmd_advance(client, 0) when it is readable. Every call returns the same descriptor, which is
 * the client's and is closed with the client. -1: the system has no free descriptor. */
GEMMD_API int gemmd_fd(struct gemmd_client *client);

/* The number of the client's requests that are not done. */
GEMMD_API uint32_t gemmd_in_flight(const struct gemmd_client *client);

/* Ends a request with GEMMD_ERR_CANCELLED. The library closes the request's connection, so that the
 * daemon drops the work. The request is then done, and the caller may change the operands. A
 * request that is done already stays as it is. */
GEMMD_API void gemmd_cancel(struct gemmd_request *request);

/* Takes the result of a request that is done: returns GEMMD_OK and fills in `result`, or returns
 * the request's error. `result` may be NULL. A buffer that the library allocated for the result
 * belongs to the caller after the first call that returned GEMMD_OK and had a `result`.
 * GEMMD_ERR_CONFLICT: the request is not done yet. */
GEMMD_API enum gemmd_error gemmd_request_result(struct gemmd_request *request,
                                                struct gemmd_result *result,
                                                struct gemmd_error_info *error);

/* Takes the job's description from a request of gemmd_job_status_submit() that is done. The caller
 * sets job->size to sizeof(struct gemmd_job). GEMMD_ERR_CONFLICT: the request is not done yet;
 * GEMMD_ERR_USAGE: another function made the request. */
GEMMD_API enum gemmd_error gemmd_request_job(struct gemmd_request *request, struct gemmd_job *job,
                                             struct gemmd_error_info *error);

struct gemmd_progress {
    uint64_t sent, to_send;        /* bytes of the body, in the current attempt */
    uint64_t received, to_receive; /* bytes of the result, in the current attempt */
    uint32_t attempts;             /* how often the request was sent so far */
};
/* Reports how much of a request was sent and received so far. */
GEMMD_API void gemmd_request_progress(const struct gemmd_request *request,
                                      struct gemmd_progress *progress);

/* The `user` pointer of the structure that the request was made with. */
GEMMD_API void *gemmd_request_user(const struct gemmd_request *request);

/* Releases a request, after cancelling it if it is not done. NULL is allowed. */
GEMMD_API void gemmd_request_free(struct gemmd_request *request);

/* ---- The daemon ------------------------------------------------------------------------------ */

/* Fetch the daemon's description (JSON: version, devices, kernels, limits) and the daemon's metrics
 * (Prometheus' text format). `*text` becomes a new NUL-terminated string, which the caller releases
 * with gemmd_free(). */
GEMMD_API enum gemmd_error gemmd_info(struct gemmd_client *client, char **text,
                                      struct gemmd_error_info *error);
GEMMD_API enum gemmd_error gemmd_metrics(struct gemmd_client *client, char **text,
                                         struct gemmd_error_info *error);
/* Asks once, without repeats, whether the daemon accepts work. Returns GEMMD_OK if so, else the
 * reason as an error. `text` may be NULL; else `*text` becomes the daemon's answer, which the
 * caller releases with gemmd_free(). */
GEMMD_API enum gemmd_error gemmd_ready(struct gemmd_client *client, char **text,
                                       struct gemmd_error_info *error);

#ifdef __cplusplus
}
#endif

#include <gemmd/arrays.h>
#include <gemmd/sequences.h>
#endif
