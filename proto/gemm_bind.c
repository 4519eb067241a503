/* Finding the operands of a product in a body: the second half of gemm_request.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/npy.h"
#include "proto/size.h"

enum { OPERANDS_MAX = 4 };

/* An operand that the body does not hold has rank 0 (no operand is a scalar). */
static bool is_there(const struct tensor *tensor)
{
    return tensor->rank > 0;
}

/* ---- raw: everything is known, only the length has to be right ---- */

bool gemm_request_operands(const struct gemm_request *request, struct gemm_operands *operands)
{
    const uint64_t batch = request->batch, m = request->m, n = request->n, k = request->k;
    const uint64_t a[] = {batch, request->transa ? k : m, request->transa ? m : k};
    const uint64_t b[] = {batch, request->transb ? n : k, request->transb ? k : n};
    const uint64_t c0[] = {batch, m, n};
    const uint32_t rank = batch > 1 ? 3 : 2, skip = 3 - rank;
    *operands = (struct gemm_operands){.transa = request->transa, .transb = request->transb};
    return (request->a[0] != '\0' ||
            tensor_init(&operands->a, request->dtype, a + skip, rank, NULL)) &&
           (request->b[0] != '\0' ||
            tensor_init(&operands->b, request->dtype, b + skip, rank, NULL)) &&
           (!request->bias || tensor_init(&operands->bias, request->out, &n, 1, NULL)) &&
           (request->beta == 0 || tensor_init(&operands->c0, request->out, c0 + skip, rank, NULL));
}

bool gemm_request_raw_bytes(const struct gemm_request *request, uint64_t *out)
{
    struct gemm_operands operands;
    uint64_t total = 0;
    if (!gemm_request_operands(request, &operands))
        return false;
    const struct tensor *all[OPERANDS_MAX] = {&operands.a, &operands.b, &operands.bias,
                                              &operands.c0};
    for (uint32_t i = 0; i < OPERANDS_MAX; i++)
        if ((request->elsewhere & 1u << i) == 0 && !size_add(total, all[i]->bytes, &total))
            return false;
    *out = total;
    return true;
}

enum gemmd_error gemm_request_check_raw_bytes(const struct gemm_request *request, uint64_t bytes,
                                              struct fault *fault)
{
    uint64_t expected;

    if (!gemm_request_raw_bytes(request, &expected))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the size of these operands does not fit in 64 bits");
    if (bytes != expected)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; m=%" PRIu64 " n=%" PRIu64 " k=%" PRIu64
                         " batch=%" PRIu64 " in %s%s%s take %" PRIu64,
                         bytes, request->m, request->n, request->k, request->batch,
                         dtype_name(request->dtype), request->bias ? " with bias" : "",
                         request->beta != 0 ? " and C0" : "", expected);
    return GEMMD_OK;
}

static enum gemmd_error bind_raw(const struct gemm_request *request, const void *body,
                                 uint64_t bytes, struct gemm_operands *operands,
                                 struct fault *fault)
{
    enum gemmd_error code = gemm_request_check_raw_bytes(request, bytes, fault);
    if (code != GEMMD_OK)
        return code;
    /* It fits, or its length would not have been right. */
    (void)gemm_request_operands(request, operands);
    struct tensor *const all[OPERANDS_MAX] = {&operands->a, &operands->b, &operands->bias,
                                              &operands->c0};
    const unsigned char *at = body;
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        if (!is_there(all[i]) || (request->elsewhere & 1u << i) != 0)
            continue;
        all[i]->data = at;
        at += all[i]->bytes;
    }
    return GEMMD_OK;
}

/* ---- arrays with shapes and types of their own ---- */

/* Settles the operands' type: what `dtype` said, else what the arrays say. */
static enum gemmd_error settle_dtype(struct gemm_request *request, const struct tensor *a,
                                     const struct tensor *b, struct fault *fault)
{
    const struct tensor *first = is_there(a) ? a : b;
    if (is_there(a) && is_there(b) && a->dtype != b->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "A is of type %s and B of %s; they must be the same", dtype_name(a->dtype),
                         dtype_name(b->dtype));
    if (is_there(first)) {
        if (gemm_request_given(request, "dtype") && first->dtype != request->dtype)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                             "dtype is %s and the arrays are of type %s; leave it out or make them "
                             "agree",
                             dtype_name(request->dtype), dtype_name(first->dtype));
        if (first->dtype == GEMMD_I32)
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                             "operands of i32 are not offered; f64, f32, f16, bf16, f8_e4m3 and i8 "
                             "are");
        request->dtype = first->dtype;
    }
    return gemm_request_settle_types(request, fault);
}

/* Writes what `name`, a dimension, was known by before an array said it. */
static void name_source(const struct gemm_request *request, const char *name, char *text,
                        size_t capacity)
{
    const char *resident = "";
    if (strcmp(name, "m") != 0)
        resident = request->b;
    if (strcmp(name, "n") != 0 && resident[0] == '\0')
        resident = request->a;
    if (gemm_request_given(request, name))
        snprintf(text, capacity, "the parameter");
    else if (resident[0] != '\0')
        snprintf(text, capacity, "that of the tensor '%s'", resident);
    else
        snprintf(text, capacity, "that of %s", request->a_title);
}

/* One dimension, as an array's shape says it, against what is known of it so far. */
static enum gemmd_error settle_dim(const struct gemm_request *request, const char *name,
                                   uint64_t *dim, uint64_t value, const char *array,
                                   struct fault *fault)
{
    if (value < 1 || value > GEMM_DIM_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "%s is %" PRIu64 " by the shape of %s; it must be from 1 to %d", name,
                         value, array, GEMM_DIM_MAX);
    if (*dim == 0)
        *dim = value;
    if (*dim == value)
        return GEMMD_OK;
    char source[192];
    name_source(request, name, source, sizeof source);
    return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                     "%s is %" PRIu64 " by the shape of %s and %" PRIu64 " by %s", name, value,
                     array, *dim, source);
}

static void flip_matrix(struct tensor *tensor)
{
    uint32_t rows = tensor->rank - 2, cols = tensor->rank - 1;
    uint64_t swapped = tensor->dims[rows];
    tensor->dims[rows] = tensor->dims[cols];
    tensor->dims[cols] = swapped;
    tensor->fortran = false;
}

/* A or B, and what its shape says: rows and columns of op(A) or op(B). */
struct matrix {
    const char *name;
    struct tensor *tensor;
    bool *transposed;
    const char *dim_names[2];
    uint64_t *dims[2];
};

/* Takes batch, rows and columns from the shape. A column-major matrix is the row-major one of its
 * transpose, which is free; only batches of several keep the flag. */
static enum gemmd_error settle_matrix(const struct gemm_request *request,
                                      const struct matrix *matrix, uint64_t *batch,
                                      struct fault *fault)
{
    struct tensor *tensor = matrix->tensor;
    if (!is_there(tensor))
        return GEMMD_OK;
    if (tensor->rank != 2 && tensor->rank != 3)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s has %" PRIu32 " dimensions; it must have 2, or 3 with the batch first",
                         matrix->name, tensor->rank);
    const uint64_t *shape = tensor->dims + (tensor->rank - 2);
    const uint64_t problems = tensor->rank == 3 ? tensor->dims[0] : 1;
    enum gemmd_error code = settle_dim(request, "batch", batch, problems, matrix->name, fault);
    for (int i = 0; i < 2 && code == GEMMD_OK; i++)
        code = settle_dim(request, matrix->dim_names[i], matrix->dims[i],
                          shape[*matrix->transposed ? 1 - i : i], matrix->name, fault);
    if (code == GEMMD_OK && tensor->fortran && problems == 1) {
        flip_matrix(tensor);
        *matrix->transposed = !*matrix->transposed;
    }
    return code;
}

static enum gemmd_error settle_bias(const struct gemm_request *request, struct tensor *bias,
                                    struct fault *fault)
{
    if (!is_there(bias))
        return GEMMD_OK;
    if (bias->dtype != request->out)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                         "bias is of type %s; it must be of the result's, %s",
                         dtype_name(bias->dtype), dtype_name(request->out));
    if ((bias->rank != 1 && (bias->rank != 2 || bias->dims[0] != 1)) ||
        bias->dims[bias->rank - 1] != request->n)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                         "bias must be one vector of length n=%" PRIu64 ", of shape (n,) or (1, n)",
                         request->n);
    /* Both shapes, in either order, are the same bytes. */
    bias->rank = 1;
    bias->dims[0] = request->n;
    bias->fortran = false;
    return GEMMD_OK;
}

static enum gemmd_error settle_c0(const struct gemm_request *request, const struct tensor *c0,
                                  struct fault *fault)
{
    if (!is_there(c0))
        return GEMMD_OK;
    if (c0->dtype != request->out)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         "C0 is of type %s; it must be of the result's, %s", dtype_name(c0->dtype),
                         dtype_name(request->out));
    bool batched = c0->rank == 3 && c0->dims[0] == request->batch;
    bool plain = c0->rank == 2 && request->batch == 1;
    if ((!batched && !plain) || c0->dims[c0->rank - 2] != request->m ||
        c0->dims[c0->rank - 1] != request->n)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         "C0 must have the result's shape: m=%" PRIu64 ", n=%" PRIu64
                         ", with batch=%" PRIu64 " before them if that is not 1",
                         request->m, request->n, request->batch);
    return GEMMD_OK;
}

static enum gemmd_error settle_shapes(struct gemm_request *request, struct gemm_operands *operands,
                                      struct fault *fault)
{
    const struct tensor *a = &operands->a, *b = &operands->b;
    uint64_t batch = gemm_request_given(request, "batch") ? request->batch : 0, of_one_b = 0;
    if (request->b[0] != '\0' && is_there(b)) /* who asks knows what it is */
        request->one_b = b->rank == 2;
    if (is_there(a) && is_there(b) && a->rank != b->rank && !request->one_b)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "A has %" PRIu32 " dimensions and B %" PRIu32
                         "; both must have 2, or 3 with the batch first",
                         a->rank, b->rank);
    const struct matrix matrix_a = {
        request->a_title, &operands->a, &operands->transa, {"m", "k"}, {&request->m, &request->k}};
    const struct matrix matrix_b = {
        "B", &operands->b, &operands->transb, {"k", "n"}, {&request->k, &request->n}};
    enum gemmd_error code = settle_matrix(request, &matrix_a, &batch, fault);
    if (code == GEMMD_OK)
        code = settle_matrix(request, &matrix_b, request->one_b ? &of_one_b : &batch, fault);
    if (code != GEMMD_OK)
        return code;
    if (batch > 0)
        request->batch = batch;
    const char *missing = gemm_request_missing_dim(request);
    if (missing != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, missing,
                         "%s is missing; an operand that is not in the body does not say it",
                         missing);
    code = settle_bias(request, &operands->bias, fault);
    if (code == GEMMD_OK)
        code = settle_c0(request, &operands->c0, fault);
    return code;
}

enum gemmd_error gemm_request_settle_residents(struct gemm_request *request, const struct tensor *a,
                                               const struct tensor *b, struct fault *fault)
{
    static const struct tensor none = {.rank = 0};
    struct tensor tensor_a = a != NULL ? *a : none, tensor_b = b != NULL ? *b : none;
    uint64_t batch = gemm_request_given(request, "batch") ? request->batch : 0;
    if (a == NULL && b == NULL)
        return GEMMD_OK;
    const struct matrix matrix_a = {
        "the resident A", &tensor_a, &request->transa, {"m", "k"}, {&request->m, &request->k}};
    const struct matrix matrix_b = {
        "the resident B", &tensor_b, &request->transb, {"k", "n"}, {&request->k, &request->n}};
    uint64_t of_one_b = 0;
    request->one_b = tensor_b.rank == 2;
    enum gemmd_error code = settle_dtype(request, &tensor_a, &tensor_b, fault);
    if (code == GEMMD_OK)
        code = settle_matrix(request, &matrix_a, &batch, fault);
    if (code == GEMMD_OK)
        code = settle_matrix(request, &matrix_b, request->one_b ? &of_one_b : &batch, fault);
    if (code != GEMMD_OK)
        return code;
    gemm_request_mark_given(request, "dtype");
    if (batch > 0) { /* else A in the body says it */
        request->batch = batch;
        gemm_request_mark_given(request, "batch");
    }
    return GEMMD_OK;
}

/* ---- npy: arrays one after another ---- */

struct npy_body {
    struct body_front *front;
    uint64_t at; /* where the next array begins */
    uint32_t taken, expected;
};

static enum gemmd_error next_array(struct npy_body *body, const char *array,
                                   enum gemmd_dtype carrier, struct tensor *tensor,
                                   struct fault *fault)
{
    struct fault reason = {0};
    if (body->at == body->front->length)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body holds %" PRIu32 " .npy arrays, %" PRIu32
                         " are needed: %s is missing",
                         body->taken, body->expected, array);
    enum gemmd_error code = npy_decode_front(body->front, &body->at, carrier, tensor, &reason);
    if (code == GEMMD_ERR_CONFLICT)
        return code;
    if (code != GEMMD_OK)
        return fault_set(fault, code, reason.field, "%s: %s", array, reason.detail);
    if (tensor->rank == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%s is a scalar, not a matrix or vector",
                         array);
    body->taken++;
    return GEMMD_OK;
}

/* The bias behind everything else is not there yet; what it has to be is known all the same. */
static enum gemmd_error expect_bias(struct gemm_request *request, struct gemm_operands *operands,
                                    struct fault *fault)
{
    enum gemmd_error code = settle_shapes(request, operands, fault);
    if (code == GEMMD_OK && !tensor_init(&operands->bias, request->out, &request->n, 1, NULL))
        code = GEMMD_ERR_TOO_LARGE;
    return code;
}

static enum gemmd_error bind_npy(struct gemm_request *request, struct body_front *front,
                                 struct gemm_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        gemm_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    const bool has_a = request->a[0] == '\0', has_b = request->b[0] == '\0';
    const bool has_bias = request->bias, has_c0 = request->beta != 0;
    struct npy_body body = {
        front, 0, 0, (uint32_t)has_a + (uint32_t)has_b + (uint32_t)has_bias + (uint32_t)has_c0};
    enum gemmd_error code = GEMMD_OK;

    if (has_a)
        code = next_array(&body, "A", carrier, &operands->a, fault);
    if (code == GEMMD_OK && has_b)
        code = next_array(&body, "B", carrier, &operands->b, fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, &operands->a, &operands->b, fault);
    if (code == GEMMD_OK && has_bias)
        code = next_array(&body, "bias", request->out, &operands->bias, fault);
    if (code == GEMMD_ERR_CONFLICT && body.taken + 1 == body.expected && has_bias && !has_c0)
        return expect_bias(request, operands, fault);
    if (code == GEMMD_OK && has_c0)
        code = next_array(&body, "C0", request->out, &operands->c0, fault);
    if (code == GEMMD_OK && body.at < front->length)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its %" PRIu32 " .npy arrays take %" PRIu64
                         " (bias=1 adds a third, beta other than 0 adds C0)",
                         front->length, body.expected, body.at);
    if (code == GEMMD_OK)
        code = settle_shapes(request, operands, fault);
    return code;
}

/* ---- safetensors: arrays by name ---- */

/* Moves the entry of that name into `tensor`; whether there is one. */
static bool claim(struct safetensors_entry *entries, uint32_t count, const char *name,
                  struct tensor *tensor)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            *tensor = entries[i].tensor;
            return true;
        }
    }
    return false;
}

static enum gemmd_error check_names(const struct safetensors_entry *entries, uint32_t count,
                                    struct fault *fault)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        if (strcmp(name, "a") != 0 && strcmp(name, "b") != 0 && strcmp(name, "bias") != 0 &&
            strcmp(name, "c") != 0)
            return fault_set(
                fault, GEMMD_ERR_MALFORMED, NULL,
                "safetensors: there is a tensor '%s'; those of /gemm are a, b, bias, c", name);
        if (entries[i].tensor.rank == 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "safetensors: '%s' is a scalar, not a matrix or vector", name);
    }
    return GEMMD_OK;
}

static enum gemmd_error bind_safetensors(struct gemm_request *request, struct body_front *front,
                                         struct gemm_operands *operands, struct fault *fault)
{
    struct safetensors_entry entries[OPERANDS_MAX];
    uint32_t count = 0;
    enum gemmd_error code = safetensors_decode_front(front, entries, OPERANDS_MAX, &count, fault);
    if (code == GEMMD_OK)
        code = check_names(entries, count, fault);
    if (code != GEMMD_OK)
        return code;

    bool has_a = claim(entries, count, "a", &operands->a);
    bool has_b = claim(entries, count, "b", &operands->b);
    bool has_bias = claim(entries, count, "bias", &operands->bias);
    bool has_c0 = claim(entries, count, "c", &operands->c0);
    if (has_a != (request->a[0] == '\0') || has_b != (request->b[0] == '\0'))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the tensors a and b must both be there, unless a parameter "
                         "of the same name says where else the operand is");
    if (has_bias != request->bias && gemm_request_given(request, "bias"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                         has_bias ? "safetensors: there is a tensor 'bias' and bias=0 says there "
                                    "is none"
                                  : "safetensors: bias=1 needs a tensor 'bias'");
    if (has_c0 != (request->beta != 0))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         has_c0 ? "safetensors: there is a tensor 'c', which beta=0 leaves unused"
                                : "safetensors: beta other than 0 needs a tensor 'c'");
    request->bias = has_bias;
    code = settle_dtype(request, &operands->a, &operands->b, fault);
    if (code == GEMMD_OK)
        code = settle_shapes(request, operands, fault);
    return code;
}

enum gemmd_error gemm_request_bind_tensors(struct gemm_request *request,
                                           struct gemm_operands *operands, struct fault *fault)
{
    operands->transa = request->transa;
    operands->transb = request->transb;
    request->bias = is_there(&operands->bias);
    const bool has_a = is_there(&operands->a) || request->a[0] != '\0';
    const bool has_b = is_there(&operands->b) || request->b[0] != '\0';
    if (!has_a || !has_b)
        return fault_set(fault, GEMMD_ERR_MALFORMED, has_a ? "b" : "a",
                         "an operand is missing; A and B are needed");
    if (is_there(&operands->c0) != (request->beta != 0))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         is_there(&operands->c0) ? "there is a C0, which beta=0 leaves unused"
                                                 : "beta other than 0 needs a C0");
    enum gemmd_error code = settle_dtype(request, &operands->a, &operands->b, fault);
    if (code == GEMMD_OK)
        code = settle_shapes(request, operands, fault);
    return code;
}

enum gemmd_error gemm_request_bind_front(struct gemm_request *request, enum format format,
                                         struct body_front *front, struct gemm_operands *operands,
                                         struct fault *fault)
{
    *operands = (struct gemm_operands){.transa = request->transa, .transb = request->transb};
    if (format == FORMAT_NPY)
        return bind_npy(request, front, operands, fault);
    if (format == FORMAT_SAFETENSORS)
        return bind_safetensors(request, front, operands, fault);
    return bind_raw(request, front->bytes, front->length, operands, fault);
}

enum gemmd_error gemm_request_bind(struct gemm_request *request, enum format format,
                                   const void *body, uint64_t bytes, struct gemm_operands *operands,
                                   struct fault *fault)
{
    struct body_front all = {.bytes = body, .length = bytes, .landed = bytes};
    return gemm_request_bind_front(request, format, &all, operands, fault);
}
