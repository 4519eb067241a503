/*
 * sequence_request.h - the parameters of the requests to /sequences/{name}, and the keys and values
 * in the body of an append.
 *
 * A caller initializes the struct, calls parameter_set for each parameter, and then the function
 * that checks. No function does I/O. Only the reader of a safetensors header allocates memory,
 * which the reader frees before returning. Different requests may be used by different threads; one
 * request is used by one thread at a time.
 */
#ifndef PROTO_SEQUENCE_REQUEST_H
#define PROTO_SEQUENCE_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/attention_request.h"
#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"
#include "proto/tensor.h"

enum {
    SEQUENCE_LAYERS_MAX = 256,
    SEQUENCE_PAGE_POSITIONS = 64,
    /* They bound how long one request holds the lock of the store, which touches every page that
     * the request uses. */
    SEQUENCE_POSITIONS_MAX = 1 << 22, /* of a layer */
    SEQUENCE_PAGES_MAX = 1 << 20      /* of all layers */
};

/* PUT /sequences/{name} */
struct sequence_put_request {
    uint64_t kv_heads, d, dv;            /* 0: not given */
    uint64_t layers;                     /* 1 ... SEQUENCE_LAYERS_MAX; 1 by default */
    enum gemmd_dtype dtype;              /* f16 by default */
    char fork[GEMM_TENSOR_NAME_MAX + 1]; /* the sequence to fork, or "" */
    uint64_t length;                     /* of the fork; valid if the parameter was given */
    uint32_t given;                      /* bit set of the parameters that were given */
};
extern const struct parameter_table sequence_put_table;
void sequence_put_init(struct sequence_put_request *request);
bool sequence_put_given(const struct sequence_put_request *request, const char *name);
/* Checks the parameters, when all are set, and sets dv. GEMMD_ERR_MALFORMED: kv_heads or d is
 * missing, a fork names a shape, or `length` is given without a fork. GEMMD_ERR_UNSUPPORTED: d or
 * dv is greater than ATTENTION_WIDTH_MAX. */
enum gemmd_error sequence_put_check(struct sequence_put_request *request, struct fault *fault);

/* POST /sequences/{name}/append and GET /sequences/{name}/kv: positions of a layer. */
struct sequence_rows_request {
    uint64_t layer;
    uint64_t position, count; /* the first position, and how many; `count` is valid if given */
    enum attention_layout layout;
    uint32_t given;
    /* The shape of the sequence, which the caller sets. */
    enum gemmd_dtype dtype;
    uint64_t kv_heads, d, dv;
};
extern const struct parameter_table sequence_append_table, sequence_kv_table;
/* Whether the parameter of an append was given. */
bool sequence_append_given(const struct sequence_rows_request *request, const char *name);
bool sequence_kv_given(const struct sequence_rows_request *request, const char *name);
/* Sets `k` and `v` to the types and shapes of `count` positions. False on overflow. */
bool sequence_rows_shapes(const struct sequence_rows_request *request, struct tensor *k,
                          struct tensor *v);
/* The table of K and V (operands.h). The table's request is a struct sequence_rows_request. */
extern const struct operand_table sequence_rows_table;
/* Compares K and V, which have been found, with the sequence's type and shape, and sets `count` to
 * the number of their positions. GEMMD_ERR_MALFORMED: they are other ones. */
enum gemmd_error sequence_rows_check(struct sequence_rows_request *request, struct tensor arrays[2],
                                     struct fault *fault);
/* Finds K and V in a complete body, as views onto the body, and sets `count` to the number of their
 * positions. A view may be `fortran`. GEMMD_ERR_MALFORMED: the body is not K and V of the
 * sequence's type and shape. */
enum gemmd_error sequence_rows_bind(struct sequence_rows_request *request, enum format format,
                                    const void *body, uint64_t bytes, struct tensor *k,
                                    struct tensor *v, struct fault *fault);

/* POST /sequences/{name}/truncate */
struct sequence_truncate_request {
    uint64_t length;
    uint32_t given;
};
extern const struct parameter_table sequence_truncate_table;
bool sequence_truncate_given(const struct sequence_truncate_request *request, const char *name);

#endif
