/*
 * arrays.h - convolutions, reductions, softmaxes and experts by a gemmd daemon. Programs include
 * <gemmd/gemmd.h>, which includes this file and says what holds for all functions of libgemmd:
 * ownership, threads, durations, repeats and compatibility.
 */
#ifndef GEMMD_ARRAYS_H
#define GEMMD_ARRAYS_H

#include <gemmd/gemmd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Convolution ----------------------------------------------------------------------------- */

enum gemmd_conv_layout {
    GEMMD_CONV_NCHW, /* batch, channels, height, width */
    GEMMD_CONV_NHWC  /* batch, height, width, channels */
};
enum gemmd_conv_w_layout {
    GEMMD_CONV_KCRS, /* filters, channels / groups, r, s */
    GEMMD_CONV_KRSC  /* filters, r, s, channels / groups */
};

/* The parameters of a convolution, Y = act(alpha * conv(X, W) + bias). X has `batch` images of
 * channels x height x width, W has filters of channels / groups x r x s, and Y has as many channels
 * as W has filters. Tensors are contiguous. Every size, stride and dilation is 1 ... 2^31-1. */
struct gemmd_conv2d {
    size_t size;
    uint64_t batch;                                    /* images; default 1 */
    uint64_t channels, height, width;                  /* of X */
    uint64_t filters, r, s;                            /* of W */
    uint64_t groups;                                   /* default 1; divides channels and filters */
    uint64_t stride_h, stride_w;                       /* default 1 */
    uint64_t dilation_h, dilation_w;                   /* default 1 */
    uint64_t pad_top, pad_bottom, pad_left, pad_right; /* zeros around X; default 0 */
    int32_t pad_same; /* 1: as many zeros as give an output of the size of X divided by the stride,
                         rounded up; the four numbers are then ignored. Default 0 */
    enum gemmd_conv_layout layout;     /* of X and Y; default GEMMD_CONV_NCHW */
    enum gemmd_conv_w_layout w_layout; /* of W; default GEMMD_CONV_KCRS */
    enum gemmd_dtype dtype;            /* type of X and W; default GEMMD_F32 */
    int32_t out;                       /* type of Y and the bias; default GEMMD_OUT_DEFAULT */
    enum gemmd_precision precision;    /* default GEMMD_PRECISION_FULL */
    enum gemmd_act act;                /* default GEMMD_ACT_NONE */
    uint32_t priority; /* this field and those below have the meanings and defaults that they have
                          in struct gemmd_gemm */
    double alpha;
    const void *x, *w;    /* the operands; like all pointers to data from here on borrowed until the
                             request is done */
    const void *bias;     /* `filters` elements; NULL: no bias */
    const char *w_tensor; /* name of the resident tensor that is W; `w` is then NULL */
    void *y;              /* where Y goes; NULL: the library allocates Y */
    uint64_t y_bytes;     /* size of `y` */
    const char *store;
    const char *kernel;
    const char *request_id;
    void *user;
    uint32_t timeout_ms;
    int32_t job;
    const char *traceparent;
    const char *x_tensor; /* name of the resident tensor that is X; `x` is then NULL. Y of a
                             convolution with `store` can be X */
};

/* Fills in the defaults; `size` is sizeof(struct gemmd_conv2d). */
GEMMD_API void gemmd_conv2d_init(struct gemmd_conv2d *conv2d, size_t size);

/* Computes a convolution and waits for the answer, with the errors of gemmd_gemm(). `result` may be
 * NULL if conv2d->y or conv2d->store is set. */
GEMMD_API enum gemmd_error gemmd_conv2d(struct gemmd_client *client,
                                        const struct gemmd_conv2d *conv2d,
                                        struct gemmd_result *result,
                                        struct gemmd_error_info *error);
/* Starts a convolution and returns at once, as gemmd_gemm_submit() does for a product. */
GEMMD_API struct gemmd_request *gemmd_conv2d_submit(struct gemmd_client *client,
                                                    const struct gemmd_conv2d *conv2d,
                                                    struct gemmd_error_info *error);

/* ---- Reductions and softmaxes ---------------------------------------------------------------- */

enum gemmd_reduce_op {
    GEMMD_REDUCE_SUM,
    GEMMD_REDUCE_MEAN,
    GEMMD_REDUCE_MAX,
    GEMMD_REDUCE_MIN,
    GEMMD_REDUCE_NORM2,     /* the square root of the sum of squares */
    GEMMD_REDUCE_LOGSUMEXP, /* the logarithm of the sum of exponentials */
    GEMMD_REDUCE_ARGMAX     /* the index of the first greatest element, as GEMMD_I32 */
};

/* The parameters of a reduction of X over one axis, for gemmd_reduce(). gemmd_reduce_init() fills
 * in the defaults; the caller sets `rank`, `dims` and `x` or `x_tensor`. */
struct gemmd_reduce {
    size_t size;
    enum gemmd_reduce_op op; /* default GEMMD_REDUCE_SUM */
    int32_t axis; /* the dimension that is reduced; a negative number counts from the last, which
                     is -1, the default */
    int32_t keepdims;       /* 1: the reduced dimension stays in the shape of Y, as 1; default 0 */
    enum gemmd_dtype dtype; /* type of X; default GEMMD_F32 */
    int32_t out;      /* type of Y, an enum gemmd_dtype; default GEMMD_OUT_DEFAULT: the type of X,
                         GEMMD_I32 for argmax and sums of integers, GEMMD_F64 for their means */
    uint32_t rank;    /* number of dimensions of X, 1 ... 8 */
    uint64_t dims[8]; /* each at least 1 */
    const void *x;    /* row-major; borrowed until the request is done */
    const char *x_tensor; /* name of the resident tensor that is X; `x` is then NULL */
    void *y;              /* where Y goes. NULL: the library allocates Y */
    uint64_t y_bytes;     /* size of `y` */
    const char *store; /* this field and those below have the meanings and defaults that they have
                          in struct gemmd_gemm */
    uint32_t priority;
    uint32_t timeout_ms;
    const char *kernel;
    const char *request_id;
    void *user;
    int32_t job;
    const char *traceparent;
};
/* Fills in the defaults; `size` is sizeof(struct gemmd_reduce). */
GEMMD_API void gemmd_reduce_init(struct gemmd_reduce *reduce, size_t size);

/* Computes a reduction and waits for the answer, with the errors of gemmd_gemm(). `result` may be
 * NULL if reduce->y or reduce->store is set. */
GEMMD_API enum gemmd_error gemmd_reduce(struct gemmd_client *client,
                                        const struct gemmd_reduce *reduce,
                                        struct gemmd_result *result,
                                        struct gemmd_error_info *error);
/* Starts a reduction and returns at once, as gemmd_gemm_submit() does for a product. */
GEMMD_API struct gemmd_request *gemmd_reduce_submit(struct gemmd_client *client,
                                                    const struct gemmd_reduce *reduce,
                                                    struct gemmd_error_info *error);

/* The parameters of Y = softmax(scale * X) over the last axis of X, for gemmd_softmax().
 * gemmd_softmax_init() fills in the defaults; the caller sets `rank`, `dims` and `x` or `x_tensor`.
 */
struct gemmd_softmax {
    size_t size;
    enum gemmd_dtype dtype; /* type of X; default GEMMD_F32 */
    int32_t out;      /* type of Y, an enum gemmd_dtype; default GEMMD_OUT_DEFAULT: the type of X */
    double scale;     /* factor of X; default 1 */
    int32_t log;      /* 1: Y is the logarithm of the softmax; default 0 */
    uint32_t rank;    /* number of dimensions of X, 1 ... 8 */
    uint64_t dims[8]; /* each at least 1 */
    const void *x;    /* row-major; borrowed until the request is done */
    const char *x_tensor; /* name of the resident tensor that is X; `x` is then NULL */
    const int32_t *lens; /* for each index of the first `lens_rank` dimensions, how many elements of
                            each row there count; Y is 0 from there on (minus infinity if `log`).
                            NULL: all; borrowed until the request is done */
    uint32_t lens_rank;  /* less than `rank`; 0 if `lens` is NULL */
    void *y;             /* where Y goes. NULL: the library allocates Y */
    uint64_t y_bytes;    /* size of `y` */
    const char *store;   /* this field and those below have the meanings and defaults that they have
                            in struct gemmd_gemm */
    uint32_t priority;
    uint32_t timeout_ms;
    const char *kernel;
    const char *request_id;
    void *user;
    int32_t job;
    const char *traceparent;
};
/* Fills in the defaults; `size` is sizeof(struct gemmd_softmax). */
GEMMD_API void gemmd_softmax_init(struct gemmd_softmax *softmax, size_t size);

/* Computes a softmax and waits for the answer, with the errors of gemmd_gemm(). `result` may be
 * NULL if softmax->y or softmax->store is set. */
GEMMD_API enum gemmd_error gemmd_softmax(struct gemmd_client *client,
                                         const struct gemmd_softmax *softmax,
                                         struct gemmd_result *result,
                                         struct gemmd_error_info *error);
/* Starts a softmax and returns at once, as gemmd_gemm_submit() does for a product. */
GEMMD_API struct gemmd_request *gemmd_softmax_submit(struct gemmd_client *client,
                                                     const struct gemmd_softmax *softmax,
                                                     struct gemmd_error_info *error);

/* ---- Experts --------------------------------------------------------------------------------- */

/* The parameters of a mixture of experts, for gemmd_experts():
 *
 *   C[r] = sum over j of weight[r, j] * act(A[r] * W[e] + bias[e]),   e = experts[r, j]
 *
 * W is a stack of `count` experts of k x columns, where there are n columns, or 2 n with `glu`: the
 * gate is then the first half, and a place of a row is act(gate) times the other half. Operands are
 * contiguous. gemmd_experts_init() fills in the defaults; the caller sets the sizes, `a` or
 * `a_tensor`, `w` or `w_tensor`, and `experts`. Every size is 1 ... 2^31-1. */
struct gemmd_experts {
    size_t size;
    uint64_t m, n, k;       /* of C and A */
    uint64_t count;         /* experts of W */
    uint64_t topk;          /* places of a row; default 1 */
    enum gemmd_dtype dtype; /* type of A and W: GEMMD_F64, _F32, _F16 or _BF16; default GEMMD_F32 */
    int32_t out;            /* type of C and the bias; default GEMMD_OUT_DEFAULT: the type of A */
    int32_t transb;         /* 1: W is [count, columns, k]; default 0 */
    int32_t glu;            /* 1: an expert has a gate; default 0 */
    enum gemmd_precision precision; /* default GEMMD_PRECISION_FULL */
    enum gemmd_act act;             /* default GEMMD_ACT_NONE */
    const void *a, *w;      /* [m, k] and [count, k, columns]; like all pointers to data from here
                               on borrowed until the request is done */
    const int32_t *experts; /* [m, topk], each 0 ... count-1, or -1 for a place that computes
                               nothing */
    const float *weights;   /* [m, topk]; NULL: every weight is 1 */
    const void *bias;       /* [count, columns] of type `out`; NULL: no bias */
    const char *a_tensor;   /* name of the resident tensor that is A; `a` is then NULL */
    const char *w_tensor;   /* name of the resident tensor that is W; `w` is then NULL */
    void *c;                /* where C goes. NULL: the library allocates C */
    uint64_t c_bytes;       /* size of `c` */
    const char *store;      /* this field and those below have the meanings and defaults that they
                               have in struct gemmd_gemm */
    uint32_t priority;
    uint32_t timeout_ms;
    const char *kernel;
    const char *request_id;
    void *user;
    int32_t job;
    const char *traceparent;
};
/* Fills in the defaults; `size` is sizeof(struct gemmd_experts). */
GEMMD_API void gemmd_experts_init(struct gemmd_experts *experts, size_t size);

/* Computes experts and waits for the answer, with the errors of gemmd_gemm(). `result` may be NULL
 * if experts->c or experts->store is set. */
GEMMD_API enum gemmd_error gemmd_experts(struct gemmd_client *client,
                                         const struct gemmd_experts *experts,
                                         struct gemmd_result *result,
                                         struct gemmd_error_info *error);
/* Starts experts and returns at once, as gemmd_gemm_submit() does for a product. */
GEMMD_API struct gemmd_request *gemmd_experts_submit(struct gemmd_client *client,
                                                     const struct gemmd_experts *experts,
                                                     struct gemmd_error_info *error);

#ifdef __cplusplus
}
#endif
#endif
