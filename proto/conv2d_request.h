/*
 * conv2d_request.h - the parameters of POST /conv2d, and the operands in the request's body. The
 * convolution is Y = act(alpha * conv(X, W) + bias); conv_shape.h has the formula.
 *
 * A caller calls conv2d_request_init, then conv2d_request_set for each parameter, then
 * conv2d_request_settle_residents if X or W is resident, then conv2d_request_check when all
 * parameters are set, then conv2d_request_bind when the body has been received. No function does
 * I/O. Only the reader of a safetensors header allocates memory, which the reader frees before
 * returning. Different requests may be used by different threads; one request is used by one thread
 * at a time.
 *
 * In the layout nchw, X is [batch, channels, height, width] and Y is [batch, filters, out_height,
 * out_width]; in nhwc, the channels and the filters come last. W is [filters, channels / groups, r,
 * s] if w_layout is kcrs, and [filters, r, s, channels / groups] if it is krsc, whatever the layout
 * of X is. The bias is [filters]. X and W have the type `dtype`; bias and Y have the type `out`.
 */
#ifndef PROTO_CONV2D_REQUEST_H
#define PROTO_CONV2D_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/conv_shape.h"
#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/tensor.h"

enum { CONV2D_OPERANDS = 3 };

/* A number for each of height and width. */
struct conv2d_pair {
    uint64_t h, w;
};
/* The parameter `padding`: `same`, or elements on four sides. */
struct conv2d_padding {
    bool same;
    uint64_t top, bottom, left, right;
};

/* The parameters of the request. */
struct conv2d_request {
    uint64_t batch, channels, height, width; /* 0: not known yet */
    uint64_t filters, filter_h, filter_w;    /* 0: not known yet */
    uint64_t groups;
    struct conv2d_pair stride, dilation;
    struct conv2d_padding padding;
    enum conv_layout layout;
    enum conv_w_layout w_layout;
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_act act;
    double alpha;
    bool bias;
    char x[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident X, or "" */
    char w[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident W, or "" */
    char store[GEMM_TENSOR_NAME_MAX + 1];  /* name under which Y becomes resident, or "" */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given; /* bit set of the parameters that were given; see conv2d_request.c */
    /* Bit set of the operands that are not resident and that a raw body leaves out. Operand i of
     * conv2d_operand_table is bit 1 << i. */
    uint32_t elsewhere;
};

/* The operands of a request, as views onto the body, which the caller owns. An absent operand has
 * rank 0. If an operand is `fortran`, the caller has to copy the operand with tensor_copy_row_major
 * before use. */
struct conv2d_operands {
    union {
        struct {
            struct tensor x, w, bias;
        };
        struct tensor all[CONV2D_OPERANDS]; /* the same tensors, by index */
    };
};

/* The table of the operands (operands.h). The table's request is a struct conv2d_request. */
extern const struct operand_table conv2d_operand_table;

/* The table of the parameters (parameter.h). */
extern const struct parameter_table conv2d_parameter_table;

/* Sets every parameter to the default. */
void conv2d_request_init(struct conv2d_request *request);

/* Parses and stores one name=value pair, already percent-decoded. GEMMD_ERR_MALFORMED, with the
 * name in fault->field, if the name is unknown or repeated, or the value is invalid. */
enum gemmd_error conv2d_request_set(struct conv2d_request *request, const char *name,
                                    const char *value, struct fault *fault);

/* Derives dtype and the sizes from the resident X and the resident W, before conv2d_request_check;
 * NULL: not resident. dtype then counts as given. GEMMD_ERR_MALFORMED if a tensor contradicts the
 * parameters or the other tensor; GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type. */
enum gemmd_error conv2d_request_settle_residents(struct conv2d_request *request,
                                                 const struct tensor *x, const struct tensor *w,
                                                 struct fault *fault);

/* Checks the parameters of a request with a raw body, when all parameters are set. Does nothing for
 * the other formats, whose arrays give the sizes. GEMMD_ERR_MALFORMED if a size is not known, or as
 * conv_shape_settle. GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types. */
enum gemmd_error conv2d_request_check(struct conv2d_request *request, enum format format,
                                      struct fault *fault);

/* The sizes of the convolution, settled, when all are known. Errors as conv_shape_settle. */
enum gemmd_error conv2d_request_shape(const struct conv2d_request *request,
                                      struct conv_shape *shape, struct fault *fault);
/* Sets request->out to the default for dtype, unless `out` was given, and checks types and sizes.
 * conv2d_request_check calls the function for a raw body, and binding for the other formats. */
enum gemmd_error conv2d_request_settle(struct conv2d_request *request, struct fault *fault);

/* Finds the operands in a body of which the front has been received (body_front.h), which may be
 * all of it, and sets `operands` to views onto the body. In a raw body, an operand in
 * request->elsewhere has a shape but no data. A .npy or safetensors body has types and shapes, from
 * which the function derives dtype and the sizes, and, for safetensors, the parameter `bias`.
 * GEMMD_ERR_CONFLICT if the front is too short; front->wanted is then the number of bytes that the
 * next call needs. GEMMD_ERR_MALFORMED if the body is too long or contradicts the parameters.
 * GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type. GEMMD_ERR_TOO_LARGE if a size overflows.
 * GEMMD_ERR_OUT_OF_MEMORY if a safetensors header cannot be parsed for lack of memory. */
enum gemmd_error conv2d_request_bind_front(struct conv2d_request *request, enum format format,
                                           struct body_front *front,
                                           struct conv2d_operands *operands, struct fault *fault);
/* As conv2d_request_bind_front, for a complete body. */
enum gemmd_error conv2d_request_bind(struct conv2d_request *request, enum format format,
                                     const void *body, uint64_t bytes,
                                     struct conv2d_operands *operands, struct fault *fault);
/* As conv2d_request_bind, for tensors that the caller has already found. The caller sets the
 * tensors in `operands`, with rank 0 for an absent operand. The function sets request->bias to
 * whether `operands` has a bias. */
enum gemmd_error conv2d_request_bind_tensors(struct conv2d_request *request,
                                             struct conv2d_operands *operands, struct fault *fault);

/* Sets `y` to the type and shape of Y, without data. All sizes must be known and settled. False on
 * overflow. */
bool conv2d_request_result(const struct conv2d_request *request, struct tensor *y);

/* Returns whether the parameter of that name was given, or has been marked as given. */
bool conv2d_request_given(const struct conv2d_request *request, const char *name);
void conv2d_request_mark_given(struct conv2d_request *request, const char *name);

#endif
