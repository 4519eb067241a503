/*
 * gemmd.h - libgemmd, the client of a gemmd daemon.
 *
 * A client holds the connections to one daemon. A request is one product, or one attention, on its
 * way:
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
 * Ownership. Operands are borrowed: they are sent from where they lie and must stay as they are
 * until the request is done. The result is written into the
 * caller's buffer, or into one that the library allocates and the caller releases with
 * gemmd_free(). Until a call says GEMMD_OK the contents of a result's buffer are undefined.
 * Strings and structures handed in are copied before a call returns, unless said otherwise.
 *
 * Concurrency. Any number of requests can be in flight from one thread: the ..._submit functions
 * start one and return at once. As many as the client has connections (`max_in_flight`) are with
 * the daemon at a time, the others wait in the client in the order they came; HTTP/1.1 carries one
 * request at a time on a connection. What is done is learned by waiting (gemmd_wait(),
 * gemmd_wait_any()), by a callback (gemmd_on_done()), or from an event loop of the caller's that
 * watches gemmd_fd(); <gemmd/adapters/uv.h> does so for libuv. What has no ..._submit form waits
 * for its answer.
 *
 * Threads. A client, and the requests made with it, belong to one thread at a time: use a client
 * for each thread, or serialise the calls. Different clients are independent of each other.
 * Functions without a client may be called from any thread. The library starts no threads of its
 * own but the resolver's; nothing moves outside of its functions. It handles no signals; with https
 * a lost connection may raise SIGPIPE, which a program then ignores.
 * The first gemmd_client_new() calls curl_global_init(), once for the process and safely against
 * other threads of this library; a program that uses libcurl itself from several threads calls
 * curl_global_init() before either.
 *
 * Time. Every duration is in milliseconds of a monotonic clock. No wait is endless: what is left
 * of a request's total time travels with it to the daemon, which drops work that nobody waits for;
 * where it is more than the daemon allows, the daemon's own deadline holds.
 *
 * Repeats. A product or an attention is safe to repeat. A request that was refused for a while
 * (429, 503) or lost its connection is sent again, `retries` times at most and within its total
 * time, after the daemon's Retry-After and a random delay between 0 and min(5 s, 50 ms *
 * 2^repeats). A connection that the daemon closed while it was idle is replaced at once, which is
 * no repeat.
 *
 * Growth. Structures that callers allocate begin with their `size`; the ..._init functions set
 * it. A later version may append fields whose zero means what happens today. A structure larger
 * than the library knows is refused if the unknown part is not zero. The values of enumerations
 * and the layout of `struct gemmd_error_info` stay for the life of the SONAME.
 *
 * Every symbol here has been there since version 0.1, unless it says otherwise.
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

/* What went wrong with a call. Allocated by the caller, filled in by every call that takes one
 * (NULL is allowed everywhere); it owns nothing, and filling it in allocates nothing. */
struct gemmd_error_info {
    enum gemmd_error code;
    int32_t http_status;     /* of the answer, 0 if there was none */
    int32_t retriable;       /* 1 if the same request may succeed later */
    uint32_t retry_after_ms; /* what the daemon asked to wait, 0 if it did not */
    uint32_t attempts;       /* how often the request was sent */
    char field[32];          /* the parameter at fault, or "" */
    char request_id[64];     /* X-Request-Id, to find the request in the daemon's log, or "" */
    char message[256];       /* one sentence */
};

GEMMD_API const char *gemmd_error_name(enum gemmd_error code);  /* "QUEUE_FULL" */
GEMMD_API const char *gemmd_error_title(enum gemmd_error code); /* "The queue is full" */

/* ---- Element types --------------------------------------------------------------------------- */

/* Bytes of an element, 0 if there is no such type. */
GEMMD_API size_t gemmd_dtype_size(enum gemmd_dtype dtype);
/* "bf16"; "?" if there is no such type. */
GEMMD_API const char *gemmd_dtype_name(enum gemmd_dtype dtype);
/* Finds a type by its name. Returns 1 and sets `*dtype`, or returns 0. */
GEMMD_API int gemmd_dtype_from_name(const char *name, enum gemmd_dtype *dtype);

/* The version of the library that the program runs with: "MAJOR.MINOR.PATCH". */
GEMMD_API const char *gemmd_version(void);

/* Releases what the library allocated for its caller. NULL is allowed. */
GEMMD_API void gemmd_free(void *memory);

/* ---- Clients --------------------------------------------------------------------------------- */

/* Whether operands and results go through memory that the daemon shares (over a Unix socket). */
enum gemmd_shared {
    GEMMD_SHARED_AUTO,  /* where the daemon takes it and it is worth it */
    GEMMD_SHARED_NEVER, /* through the socket */
    GEMMD_SHARED_ALWAYS /* or fail; jobs go through the socket all the same */
};

/* Zero, or NULL, means the default everywhere but in `retries`. */
struct gemmd_options {
    size_t size;
    /* "http://host:port", "https://host:port", or "unix:PATH" for a Unix socket. NULL: the
     * environment's GEMMD_URL, else "http://127.0.0.1:8080". Proxies named in the environment are
     * used for http and https, never for a Unix socket. */
    const char *url;
    const char *token;           /* bearer token; NULL: the environment's GEMMD_TOKEN; "": none */
    const char *ca_file;         /* certificates to trust for https; NULL: the system's */
    uint32_t connect_timeout_ms; /* default 5,000 */
    uint32_t total_timeout_ms;   /* of a request with all its repeats; default 300,000 */
    uint32_t stall_timeout_ms;   /* a transfer that moves no byte; default 30,000. Does not run
                                    while the daemon computes */
    uint32_t retries;            /* default 4; 0: none */
    uint32_t max_in_flight;      /* connections, each with one request on it; default 64. Further
                                    requests wait in the client */
    uint64_t shared_bytes;       /* of the memory that is shared, which a GPU pins as a whole; to be
                                    set where gemmd_memory_alloc() is used. Default: as much as
                                    requests turn out to need, 1 GiB at most */
    enum gemmd_shared shared;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_options). */
GEMMD_API void gemmd_options_init(struct gemmd_options *options, size_t size);

/* A new client, or NULL. Connects to nothing yet. `options` may be NULL for the defaults.
 * GEMMD_ERR_USAGE: a URL that is none of the above; GEMMD_ERR_OUT_OF_MEMORY. */
GEMMD_API struct gemmd_client *gemmd_client_new(const struct gemmd_options *options,
                                                struct gemmd_error_info *error);
/* Cancels and releases the client's requests, whose handles die with it, then the client. */
GEMMD_API void gemmd_client_free(struct gemmd_client *client);

/* ---- Shared memory --------------------------------------------------------------------------- */

/* On a client of a Unix socket, operands and results go through memory that the daemon reads and
 * writes where it lies, if it takes that (its --shm-memfd): they are copied there, the result
 * from there. What lies in memory from gemmd_memory_alloc() is not copied
 * at all. The daemon may write to a result for as long as it computes, which is longer than a
 * request that was cancelled or ran out of time. */

/* New memory for operands and results, aligned to 64, shared with the daemon if it can be, ordinary
 * memory if not; good until the client is released. NULL: GEMMD_ERR_OUT_OF_MEMORY. */
GEMMD_API void *gemmd_memory_alloc(struct gemmd_client *client, uint64_t bytes,
                                   struct gemmd_error_info *error);
/* No request may use it any more. NULL is allowed. */
GEMMD_API void gemmd_memory_free(struct gemmd_client *client, void *memory);

/* ---- Products -------------------------------------------------------------------------------- */

enum gemmd_precision {
    GEMMD_PRECISION_FULL, /* error no worse than a chain of FMAs in the accumulator's type */
    GEMMD_PRECISION_TF32  /* f32 operands may be rounded to TF32 */
};
enum gemmd_act {
    GEMMD_ACT_NONE,
    GEMMD_ACT_RELU,
    GEMMD_ACT_GELU,
    GEMMD_ACT_GELU_TANH,
    GEMMD_ACT_SILU
};
enum gemmd_verify { GEMMD_VERIFY_NONE, GEMMD_VERIFY_FREIVALDS };

/* `out` when the daemon's default is meant: dtype; bf16 for f8_e4m3, i32 for i8. */
#define GEMMD_OUT_DEFAULT (-1)

/* C = act(alpha * op(A) * op(B) + beta * C0 + bias), `batch` times. Matrices are row-major and
 * contiguous; op(A) is m x k, op(B) is k x n, C is m x n. All problems of a batch have one shape
 * and lie one after another; the bias is shared by all. */
struct gemmd_gemm {
    size_t size;
    uint64_t m, n, k;       /* 1 ... 2^31-1 */
    uint64_t batch;         /* default 1 */
    enum gemmd_dtype dtype; /* of A and B; default GEMMD_F32 */
    int32_t out;            /* of C, C0, bias: an enum gemmd_dtype; default GEMMD_OUT_DEFAULT */
    enum gemmd_precision precision;
    enum gemmd_act act;
    enum gemmd_verify verify;
    int32_t transa, transb; /* 1: A is stored k x m, B is stored n x k */
    uint32_t priority;      /* 0 (lowest) ... 9; default 4 */
    double alpha, beta;     /* default 1 and 0 */
    uint32_t timeout_ms;    /* of this request, no longer than the client's; 0: the client's */
    const char *kernel;     /* one of the daemon's kernels; NULL: its choice */
    const char *request_id; /* at most 63 visible ASCII characters; NULL: the daemon makes one */
    const void *a, *b;      /* borrowed until the request is done */
    const void *bias;       /* borrowed; n elements; NULL: none */
    const void *c0;         /* borrowed; needed if beta is not 0, else not sent */
    void *c;                /* borrowed; where C goes. NULL: the library allocates it */
    uint64_t c_bytes;       /* room in `c` */
    void *user;             /* the caller's own, see gemmd_request_user() */
    const char *a_tensor;   /* name of a resident tensor that is A; `a` is then NULL */
    const char *b_tensor;   /* the same of B */
    const char *store;      /* keep C on the daemon as a tensor of this name; none comes back */
    int32_t job;            /* 1: hand it in as a job. The request is done when the daemon has
                               taken it, and the result names the job */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_gemm). */
GEMMD_API void gemmd_gemm_init(struct gemmd_gemm *gemm, size_t size);

/* How long each stage took in the daemon, in ms; negative where it did not say. */
struct gemmd_timing {
    double recv, queue, h2d, kernel, d2h, total;
};

/* What became of a tensor that was put or stored. */
enum gemmd_put {
    GEMMD_PUT_NONE,     /* no tensor was */
    GEMMD_PUT_CREATED,  /* the name is new */
    GEMMD_PUT_REPLACED, /* the name had another content */
    GEMMD_PUT_UNCHANGED /* the name had this content already; nothing was uploaded */
};

/* What a request answered. Of a product that was stored or handed in as a job there is no data, of
 * the latter neither a shape nor a type. */
struct gemmd_result {
    size_t size;
    void *data;     /* the caller's buffer, or a new one (aligned to 64) for gemmd_free() */
    uint64_t bytes; /* of the result */
    enum gemmd_dtype dtype;
    uint32_t rank; /* of a product 2: m, n; 3: batch, m, n. Of an attention 4 */
    uint64_t dims[8];
    char kernel[32];     /* that ran */
    uint32_t batch;      /* how many requests shared its launch */
    uint32_t attempts;   /* how often the request was sent */
    double residual;     /* of the check, if `verified` */
    int32_t verified;    /* 1 if `verify` was asked for and passed */
    char request_id[64]; /* X-Request-Id */
    struct gemmd_timing timing;
    double elapsed_ms; /* from submit to the last byte, on the client's clock */
    char job[64];      /* the id of the job that was handed in, or "" */
    char etag[72];     /* of a resident tensor: put, stored, fetched or looked at */
    enum gemmd_put put;
    float *lse; /* of an attention, if it was asked for: the caller's buffer, or a new one as `data`
                   is; else NULL */
    uint64_t lse_bytes;
    int32_t shared; /* 1 if it went through shared memory */
    uint32_t lse_rank;
    uint64_t lse_dims[8]; /* batch, heads and queries, whatever the layout; as rank and dims, those
                             that the request left out are left out */
};

/* Zeroes the structure; `size` is sizeof(struct gemmd_result). */
GEMMD_API void gemmd_result_init(struct gemmd_result *result, size_t size);

/* Computes a product and waits for it. `result` may be NULL if gemm->c is given, or with `store`.
 * Moves the client's other requests forward meanwhile. A daemon that takes no jobs computes one at
 * once: then result->job is "", and the result is there.
 * GEMMD_ERR_USAGE: a parameter out of range, an operand missing, too little room in `c`; nothing
 * is sent then. Otherwise what the daemon answered, GEMMD_ERR_CONNECTION, _TIMEOUT, _PROTOCOL, or
 * _OUT_OF_MEMORY with http_status 0 where the library could not allocate. */
GEMMD_API enum gemmd_error gemmd_gemm(struct gemmd_client *client, const struct gemmd_gemm *gemm,
                                      struct gemmd_result *result, struct gemmd_error_info *error);

/* ---- Attention ------------------------------------------------------------------------------- */

enum gemmd_layout {
    GEMMD_LAYOUT_BHSD, /* batch, heads, sequence, head size */
    GEMMD_LAYOUT_BSHD  /* batch, sequence, heads, head size */
};

#define GEMMD_WINDOW_NONE (-1)
#define GEMMD_SCALE_DEFAULT 1e300 /* 1/sqrt(d); no scale that the daemon takes */

/* O = softmax(scale * Q * K^T + mask) * V for each head of each entry of a batch. Tensors are
 * contiguous, in the order of dimensions that `layout` says. Head h of Q uses head
 * h / (heads / kv_heads) of K and V. */
struct gemmd_attention {
    size_t size;
    uint64_t batch;           /* default 1 */
    uint64_t heads, kv_heads; /* heads is a multiple of kv_heads; kv_heads 0: as heads */
    uint64_t sq, skv;         /* lengths of Q, of K and V; skv 0: as sq */
    uint64_t d, dv;           /* head sizes of Q and K, of V and O; dv 0: as d */
    enum gemmd_layout layout;
    enum gemmd_dtype dtype;          /* of Q, K, V and O; default GEMMD_F16 */
    int32_t causal;                  /* 1: query i sees no key right of i + skv - sq */
    int64_t window;                  /* w: it sees no key left of i + skv - sq - w; default
                                        GEMMD_WINDOW_NONE */
    double scale;                    /* default GEMMD_SCALE_DEFAULT */
    double softcap;                  /* c: scores become c * tanh(score / c); default 0: none */
    const int32_t *lens_q;           /* borrowed until the request is done, as all that follow; the
                                        valid length of each entry of Q; the rest of O is zeros */
    const int32_t *lens_kv;          /* the same of K and V; both or neither. NULL: sq and skv */
    const void *q, *k, *v;           /* the operands */
    const char *k_tensor, *v_tensor; /* names of resident tensors that are K and V; `k` and `v` are
                                        then NULL */
    void *o;          /* where O goes, as Q with head size dv. NULL: the library allocates it */
    uint64_t o_bytes; /* room in `o` */
    int32_t with_lse; /* 1: the logarithm of the sum of exp(score) of each row is wanted too,
                         batch x heads x sq whatever the layout */
    float *lse;       /* where that goes. NULL: the library allocates it */
    uint64_t lse_bytes;
    uint32_t priority; /* this and what follows as in struct gemmd_gemm; default 4 */
    uint32_t timeout_ms;
    const char *kernel;
    const char *request_id;
    void *user;
    int32_t job;
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_attention). */
GEMMD_API void gemmd_attention_init(struct gemmd_attention *attention, size_t size);

/* Computes an attention and waits for it; all is as with gemmd_gemm(). `result` may be NULL if
 * attention->o is given, and attention->lse if that is wanted. A job's lse comes with its result,
 * from gemmd_job_result(). */
GEMMD_API enum gemmd_error gemmd_attention(struct gemmd_client *client,
                                           const struct gemmd_attention *attention,
                                           struct gemmd_result *result,
                                           struct gemmd_error_info *error);
/* Starts one, as gemmd_gemm_submit() does. */
GEMMD_API struct gemmd_request *gemmd_attention_submit(struct gemmd_client *client,
                                                       const struct gemmd_attention *attention,
                                                       struct gemmd_error_info *error);

/* ---- Resident tensors ------------------------------------------------------------------------ */

/* Operands that stay on the daemon under a name of 1 to 128 of the characters A-Z a-z 0-9 . _ -
 *
 * The functions with a result wait for the answer; those that end in _submit start the same and
 * return a new request or NULL, as gemmd_gemm_submit() does, and gemmd_request_result() says how it
 * went. GEMMD_ERR_NOT_FOUND: there is no tensor of that name; _FORBIDDEN: it is not this token's;
 * _NO_ROOM: it does not fit, `message` says what is needed and what is free. */

/* How a small request is made; NULL stands for one that was only initialised. */
struct gemmd_call {
    size_t size;
    void *data;             /* borrowed; where the payload goes. NULL: the library allocates it */
    uint64_t bytes;         /* room in `data` */
    uint32_t timeout_ms;    /* as in struct gemmd_gemm */
    int32_t no_wait;        /* of a job's result, 1: do not wait until it is there */
    const char *request_id; /* as in struct gemmd_gemm */
    void *user;             /* see gemmd_request_user() */
};

/* Zeroes the structure; `size` is sizeof(struct gemmd_call). */
GEMMD_API void gemmd_call_init(struct gemmd_call *call, size_t size);

struct gemmd_tensor_put {
    size_t size;
    const char *name;
    enum gemmd_dtype dtype; /* default GEMMD_F32 */
    uint32_t rank;          /* 1 ... 8 */
    uint64_t dims[8];       /* each at least 1 */
    const void *data;       /* borrowed until the request is done; row-major */
    const char *etag;       /* what gemmd_tensor_etag() says of it; NULL: computed in the call, at
                               a GB/s or so */
    int32_t evictable;      /* 1: the daemon may drop it when it needs the room */
    uint32_t timeout_ms;    /* as in struct gemmd_gemm */
    const char *request_id; /* as in struct gemmd_gemm */
    void *user;             /* see gemmd_request_user() */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_tensor_put). */
GEMMD_API void gemmd_tensor_put_init(struct gemmd_tensor_put *put, size_t size);

/* What the daemon calls a content, so that equal ones are not sent again: in quotes, the SHA-256 of
 * type, shape and bytes. `out` gets 67 bytes; "" if there is no such tensor. Any thread. */
GEMMD_API void gemmd_tensor_etag(enum gemmd_dtype dtype, uint32_t rank, const uint64_t *dims,
                                 const void *data, char out[72]);

/* Makes a tensor resident under its name. The daemon is asked first whether it has this content
 * there; then nothing is uploaded, and result->put says GEMMD_PUT_UNCHANGED. A large upload's
 * progress says gemmd_request_progress(). */
GEMMD_API enum gemmd_error gemmd_tensor_put(struct gemmd_client *client,
                                            const struct gemmd_tensor_put *put,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_put_submit(struct gemmd_client *client,
                                                        const struct gemmd_tensor_put *put,
                                                        struct gemmd_error_info *error);

/* Fetches a tensor. GEMMD_ERR_USAGE with field "bytes": there is too little room in call->data. */
GEMMD_API enum gemmd_error gemmd_tensor_get(struct gemmd_client *client, const char *name,
                                            const struct gemmd_call *call,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_get_submit(struct gemmd_client *client,
                                                        const char *name,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Type, shape, bytes and etag of a tensor, without its data. */
GEMMD_API enum gemmd_error gemmd_tensor_stat(struct gemmd_client *client, const char *name,
                                             const struct gemmd_call *call,
                                             struct gemmd_result *result,
                                             struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_stat_submit(struct gemmd_client *client,
                                                         const char *name,
                                                         const struct gemmd_call *call,
                                                         struct gemmd_error_info *error);

/* Takes the name from a tensor; requests that use it keep it until they end. Where the connection
 * was lost and the request repeated, GEMMD_ERR_NOT_FOUND may mean that the first one did it. */
GEMMD_API enum gemmd_error gemmd_tensor_delete(struct gemmd_client *client, const char *name,
                                               const struct gemmd_call *call,
                                               struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_tensor_delete_submit(struct gemmd_client *client,
                                                           const char *name,
                                                           const struct gemmd_call *call,
                                                           struct gemmd_error_info *error);

/* A tensor among those that are there. */
struct gemmd_tensor {
    size_t size;
    char name[129];
    char etag[72];
    enum gemmd_dtype dtype;
    uint32_t rank;
    uint64_t dims[8];
    uint64_t bytes;
    int32_t evictable;
};

/* Calls `each` for every tensor that this token may see, once all are known: on an error for none.
 * The structure is gone afterwards. */
GEMMD_API enum gemmd_error gemmd_tensor_list(struct gemmd_client *client,
                                             void (*each)(const struct gemmd_tensor *tensor,
                                                          void *user),
                                             void *user, struct gemmd_error_info *error);

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* A product or an attention that was handed in (`job` of its structure) and is computed whether or
 * not its client stays. Its `timeout_ms`, if not 0, is the deadline of the job. The result is kept
 * until it is cancelled away or expires. GEMMD_ERR_NOT_FOUND: there is no such job, or it is not
 * this token's; _GONE: it is expired. */

enum gemmd_job_state {
    GEMMD_JOB_UNKNOWN, /* one that this library does not know */
    GEMMD_JOB_QUEUED,
    GEMMD_JOB_RUNNING,
    GEMMD_JOB_DONE,
    GEMMD_JOB_FAILED,
    GEMMD_JOB_CANCELLED
};

struct gemmd_job {
    size_t size;
    char id[64];
    enum gemmd_job_state state;
    int32_t http_status;           /* of its result; 0 while there is none */
    uint64_t bytes;                /* of its result */
    double queued_ms, running_ms;  /* so far; negative if the daemon does not say */
    char created[32], expires[32]; /* RFC 3339, or "" */
    char request_id[64];           /* X-Request-Id of the request that handed it in */
};

/* "running"; "unknown" if there is no such state. */
GEMMD_API const char *gemmd_job_state_name(enum gemmd_job_state state);

/* How a job is. `job` has its size set; with _submit, gemmd_request_job() says it. */
GEMMD_API enum gemmd_error gemmd_job_status(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call, struct gemmd_job *job,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_status_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Waits until a job's result is there, without fetching it. A job that failed fails this with the
 * code of its error, whose sentence only gemmd_job_result() can tell. */
GEMMD_API enum gemmd_error gemmd_job_wait(struct gemmd_client *client, const char *id,
                                          const struct gemmd_call *call,
                                          struct gemmd_result *result,
                                          struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_wait_submit(struct gemmd_client *client, const char *id,
                                                      const struct gemmd_call *call,
                                                      struct gemmd_error_info *error);

/* Fetches a job's result, waiting until it is there unless call->no_wait is set: then
 * GEMMD_ERR_CONFLICT says that it is not. A job that failed fails this with its own error. */
GEMMD_API enum gemmd_error gemmd_job_result(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call,
                                            struct gemmd_result *result,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_result_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* Ends a job and drops its result. Repeated as gemmd_tensor_delete() is. */
GEMMD_API enum gemmd_error gemmd_job_cancel(struct gemmd_client *client, const char *id,
                                            const struct gemmd_call *call,
                                            struct gemmd_error_info *error);
GEMMD_API struct gemmd_request *gemmd_job_cancel_submit(struct gemmd_client *client, const char *id,
                                                        const struct gemmd_call *call,
                                                        struct gemmd_error_info *error);

/* ---- Requests in flight ---------------------------------------------------------------------- */

/* Starts a product and returns at once: a new request, to be released with gemmd_request_free(),
 * or NULL with `error` filled in (GEMMD_ERR_USAGE, _OUT_OF_MEMORY). It moves forward while the
 * caller is in gemmd_advance() or a function that waits. */
GEMMD_API struct gemmd_request *gemmd_gemm_submit(struct gemmd_client *client,
                                                  const struct gemmd_gemm *gemm,
                                                  struct gemmd_error_info *error);

/* Moves all of the client's requests forward until `request` is done, or for `timeout_ms` at most
 * (0: only what can be done without waiting; negative: until it is done). Returns 1 if it is done,
 * else 0. How it went says gemmd_request_result(). */
GEMMD_API int gemmd_wait(struct gemmd_request *request, int64_t timeout_ms);

/* Moves all requests forward until one is done, and returns it (borrowed). A request is returned
 * once, and not if gemmd_wait() already said it is done. NULL: none in `timeout_ms` (as above), or
 * none in flight. */
GEMMD_API struct gemmd_request *gemmd_wait_any(struct gemmd_client *client, int64_t timeout_ms);

/* Moves all requests forward until one is done, or for `timeout_ms` at most (as above), and calls
 * the callbacks of those that are. Returns the number of requests that are not done. */
GEMMD_API uint32_t gemmd_advance(struct gemmd_client *client, int64_t timeout_ms);

/* Called once for a request that is done. May do everything but release the client; usually it
 * takes the result, releases the request and submits the next one. */
typedef void (*gemmd_done_function)(struct gemmd_request *request, void *user);
/* Has `call` called with the request's `user` from the function in which the request turns out to
 * be done; if it is done already, from the next that moves requests forward. gemmd_wait_any() does
 * not return it then, and gemmd_wait() is not for one that its callback releases. Not called by
 * gemmd_request_free() and gemmd_client_free(). */
GEMMD_API void gemmd_on_done(struct gemmd_request *request, gemmd_done_function call);

/* A descriptor, the client's own, that is readable whenever there is something to do, timers
 * included: watch it for reading and call gemmd_advance(client, 0) when it is. Good for as long as
 * the client; the same in each call. -1 if there is no descriptor to be had. */
GEMMD_API int gemmd_fd(struct gemmd_client *client);

/* The number of requests that are not done. */
GEMMD_API uint32_t gemmd_in_flight(const struct gemmd_client *client);

/* Ends a request with GEMMD_ERR_CANCELLED; its connection is closed, so that the daemon drops the
 * work. It is then done, and its operands are the caller's again. No effect on one that is done. */
GEMMD_API void gemmd_cancel(struct gemmd_request *request);

/* How a request that is done went: GEMMD_OK and the result, or the error. `result` may be NULL.
 * A buffer that the library allocated belongs to the caller from the first successful call with
 * a result on. GEMMD_ERR_CONFLICT: the request is not done yet. */
GEMMD_API enum gemmd_error gemmd_request_result(struct gemmd_request *request,
                                                struct gemmd_result *result,
                                                struct gemmd_error_info *error);

/* The same for gemmd_job_status_submit(). `job` has its size set and is filled in if GEMMD_OK.
 * GEMMD_ERR_USAGE: the request was for something else. */
GEMMD_API enum gemmd_error gemmd_request_job(struct gemmd_request *request, struct gemmd_job *job,
                                             struct gemmd_error_info *error);

struct gemmd_progress {
    uint64_t sent, to_send;        /* bytes of the body, in this attempt */
    uint64_t received, to_receive; /* bytes of the result, in this attempt */
    uint32_t attempts;             /* how often the request was sent so far */
};
/* How far a request is. */
GEMMD_API void gemmd_request_progress(const struct gemmd_request *request,
                                      struct gemmd_progress *progress);

/* The `user` pointer the request was made with. */
GEMMD_API void *gemmd_request_user(const struct gemmd_request *request);

/* Cancels the request if it is not done, and releases it. NULL is allowed. */
GEMMD_API void gemmd_request_free(struct gemmd_request *request);

/* ---- The daemon ------------------------------------------------------------------------------ */

/* Its description (JSON: version, devices, kernels, limits) and its metrics (Prometheus text):
 * `*text` is new, terminated, released with gemmd_free(). */
GEMMD_API enum gemmd_error gemmd_info(struct gemmd_client *client, char **text,
                                      struct gemmd_error_info *error);
GEMMD_API enum gemmd_error gemmd_metrics(struct gemmd_client *client, char **text,
                                         struct gemmd_error_info *error);
/* GEMMD_OK if the daemon takes work, else the reason why not. Asked once, not repeated. `text`
 * (as above) may be NULL. */
GEMMD_API enum gemmd_error gemmd_ready(struct gemmd_client *client, char **text,
                                       struct gemmd_error_info *error);

#ifdef __cplusplus
}
#endif
#endif
