/* Finds the operands of a product in a body: the functions of gemm_request.h that bind, and the
 * functions about the length of a raw body. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"

enum { A, B, BIAS, C0, A_SCALE, B_SCALE };

static const uint32_t SCALE_BITS[] = {
    [A_SCALE] = GEMM_OPERAND_A_SCALE, [B_SCALE] = GEMM_OPERAND_B_SCALE};

/* Returns whether the body has to hold the operand. */
static bool is_wanted(const void *of, uint32_t operand)
{
    const struct gemm_request *request = of;
    const bool wanted[] = {request->a[0] == '\0', request->b[0] == '\0', request->bias,
                           request->beta != 0};
    if (operand >= A_SCALE)
        return request->scales != GEMM_SCALES_NONE &&
               (request->resident_scales & SCALE_BITS[operand]) == 0;
    return wanted[operand];
}

/* The scales of rows and columns are a vector: a scale for each row of op(A) or column of op(B).
 * Those of blocks are a matrix, which also has the blocks of k and lies as the operand does. */
static bool scale_shape(const struct gemm_request *r, uint32_t operand, struct tensor *tensor)
{
    const bool of_b = operand == B_SCALE, block = r->scales == GEMM_SCALES_BLOCK;
    const bool k_is_first = of_b ? !r->transb : r->transa;
    const uint64_t batch = of_b && r->one_b ? 1 : r->batch;
    const uint64_t blocks_of_k = gemm_scale_blocks(r->k);
    uint64_t lines = of_b ? r->n : r->m;
    if (of_b && block)
        lines = gemm_scale_blocks(r->n);
    uint64_t dims[3];
    uint32_t rank = 0;
    if (batch > 1)
        dims[rank++] = batch;
    if (block && k_is_first)
        dims[rank++] = blocks_of_k;
    dims[rank++] = lines;
    if (block && !k_is_first)
        dims[rank++] = blocks_of_k;
    return tensor_init(tensor, GEMMD_F32, dims, rank, NULL);
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct gemm_request *r = of;
    if (operand >= A_SCALE)
        return scale_shape(r, operand, tensor);
    /* Of A, B, bias and C0, as they are stored. */
    const uint64_t rows[] = {r->transa ? r->k : r->m, r->transb ? r->n : r->k, 1, r->m};
    const uint64_t columns[] = {r->transa ? r->m : r->k, r->transb ? r->k : r->n, r->n, r->n};
    const uint64_t dims[] = {r->batch, rows[operand], columns[operand]};
    const uint32_t rank = operand == BIAS ? 1 : r->batch > 1 ? 3 : 2;
    return tensor_init(tensor, operand == A || operand == B ? r->dtype : r->out, dims + 3 - rank,
                       rank, NULL);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct gemm_request *r = of;
    snprintf(out, room, "m=%" PRIu64 " n=%" PRIu64 " k=%" PRIu64 " batch=%" PRIu64 " in %s%s%s%s%s",
             r->m, r->n, r->k, r->batch, dtype_name(r->dtype), r->bias ? " with bias" : "",
             r->beta != 0 ? " and C0" : "", r->scales != GEMM_SCALES_NONE ? " and scales=" : "",
             r->scales != GEMM_SCALES_NONE ? gemm_scales_name(r->scales) : "");
}

/* ---- what a raw body of a wrong length may have been meant to be ---- */

/* A request that differs from a client's in one thing, to see if its body has the length `bytes`.
 */
struct gemm_variant {
    struct gemm_request request;
    uint32_t elsewhere;
    uint64_t bytes;
};

/* The length of the body of the variant; 0 if the length overflows. */
static uint64_t variant_bytes(const struct gemm_variant *variant)
{
    struct operand_layout layout;
    return operand_layout_compute(&layout, &gemm_operand_table, &variant->request,
                                  variant->elsewhere)
               ? layout.bytes
               : 0;
}

static bool gemm_variant_fits(const struct gemm_variant *variant)
{
    return variant_bytes(variant) == variant->bytes;
}

static bool gemm_fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    struct gemm_variant variant = *(const struct gemm_variant *)context;
    variant.request.dtype = dtype;
    if (!gemm_request_given(&variant.request, "out"))
        variant.request.out = gemm_scales_default_out(variant.request.scales, dtype);
    return gemm_scales_offer(variant.request.scales, dtype, variant.request.out) &&
           gemm_variant_fits(&variant);
}

static bool gemm_fits_with_k(const struct gemm_variant *of, bool swaps_m)
{
    struct gemm_variant variant = *of;
    uint64_t *other = swaps_m ? &variant.request.m : &variant.request.n;
    const uint64_t k = variant.request.k;
    variant.request.k = *other;
    *other = k;
    return gemm_variant_fits(&variant);
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    const struct gemm_request *r = of;
    struct gemm_variant variant = {*r, elsewhere, bytes};
    const bool resident = r->a[0] != '\0' || r->b[0] != '\0';
    if (bytes == 0)
        return;
    if (!resident)
        operand_guess_dtypes(out, r->dtype, gemm_fits_with_dtype, &variant);
    if (!resident && gemm_fits_with_k(&variant, true))
        operand_guess_add(out, "are m and k swapped");
    if (!resident && gemm_fits_with_k(&variant, false))
        operand_guess_add(out, "are n and k swapped");
    variant.request.bias = true;
    if (!r->bias && gemm_variant_fits(&variant))
        operand_guess_add(out, "is bias=1 missing");
    variant.request = *r;
    variant.request.beta = 1;
    if (r->beta == 0 && gemm_variant_fits(&variant))
        operand_guess_add(out, "is beta missing");
    variant.request = *r;
    for (unsigned kind = GEMM_SCALES_ROWCOL; kind <= GEMM_SCALES_BLOCK; kind++) {
        variant.request.scales = (enum gemm_scales)kind;
        if (r->scales == GEMM_SCALES_NONE &&
            gemm_scales_offer(variant.request.scales, r->dtype, r->out) &&
            gemm_variant_fits(&variant))
            operand_guess_add(out, "is scales=%s missing",
                              gemm_scales_name(variant.request.scales));
    }
    variant.request = *r;
    const uint64_t one = variant_bytes(&variant);
    if (resident || r->batch > 1 || one == 0 || bytes / one > GEMM_DIM_MAX || bytes <= one ||
        out->text[0] != '\0')
        return;
    variant.request.batch = bytes / one;
    if (gemm_variant_fits(&variant))
        operand_guess_add(out, "is batch=%" PRIu64 " missing", variant.request.batch);
}

const struct operand_table gemm_operand_table = {
    .path = "/gemm",
    .names = "a, b, bias, c, a_scale, b_scale",
    .npy_scalar = " is a scalar, not a matrix or vector",
    .named_scalar = " is a scalar, not a matrix or vector",
    .npy_more = " (bias=1 adds a third, beta other than 0 adds C0, and scales add a_scale and "
                "b_scale)",
    .count = GEMM_OPERANDS,
    /* Scales are checked before they are used, and the client may change shared memory at any time,
     * so that scales can be in the body only. */
    .operands = {{"a", "A", "a", NULL},
                 {"b", "B", "b", NULL},
                 {"bias", "bias", "bias", "bias"},
                 {"c", "C0", "c0", "beta"},
                 {"a_scale", "a_scale", NULL, "scales"},
                 {"b_scale", "b_scale", NULL, "scales"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

/* ---- raw bodies: the parameters give all types and shapes, and only the length is checked ---- */

bool gemm_request_operands(const struct gemm_request *request, struct gemm_operands *operands)
{
    operands->transa = request->transa;
    operands->transb = request->transb;
    return operand_shapes(&gemm_operand_table, request, operands->all);
}

bool gemm_request_layout(const struct gemm_request *request, struct operand_layout *layout)
{
    return operand_layout_compute(layout, &gemm_operand_table, request, request->elsewhere);
}

bool gemm_request_raw_bytes(const struct gemm_request *request, uint64_t *out)
{
    struct operand_layout layout;
    if (!gemm_request_layout(request, &layout))
        return false;
    *out = layout.bytes;
    return true;
}

enum gemmd_error gemm_request_check_raw_bytes(const struct gemm_request *request, uint64_t bytes,
                                              struct fault *fault)
{
    struct operand_layout layout;
    enum gemmd_error code =
        operand_layout_settle(&layout, &gemm_operand_table, request, request->elsewhere, fault);
    return code == GEMMD_OK
               ? operand_layout_check(&layout, &gemm_operand_table, request, bytes, fault)
               : code;
}

static enum gemmd_error bind_raw(const struct gemm_request *request, const void *body,
                                 uint64_t bytes, struct gemm_operands *operands,
                                 struct fault *fault)
{
    struct operand_layout layout;
    enum gemmd_error code =
        operand_layout_settle(&layout, &gemm_operand_table, request, request->elsewhere, fault);
    return code == GEMMD_OK ? operand_layout_bind(&layout, &gemm_operand_table, request, body,
                                                  bytes, operands->all, fault)
                            : code;
}

/* ---- formats whose arrays have types and shapes ---- */

/* Sets request->dtype to the type of A and B, and checks that the type is the parameter `dtype` if
 * the parameter was given. */
static enum gemmd_error settle_dtype(struct gemm_request *request, const struct tensor *a,
                                     const struct tensor *b, struct fault *fault)
{
    const struct tensor *first = operand_is_there(a) ? a : b;
    if (operand_is_there(a) && operand_is_there(b) && a->dtype != b->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "A is of type %s and B of %s; they must be the same", dtype_name(a->dtype),
                         dtype_name(b->dtype));
    if (operand_is_there(first)) {
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

/* Writes the source of the known value of the dimension `name`, for the message that an array
 * contradicts the value: the parameter, a resident tensor or A. */
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

/* Sets a dimension to `value`, which the shape of `array` gives, or compares `value` with the
 * dimension if the dimension is already known. */
static enum gemmd_error settle_dim(const struct gemm_request *request, const char *name,
                                   uint64_t *dim, uint64_t value, const char *array,
                                   struct fault *fault)
{
    char source[192] = "";
    if (*dim != 0 && *dim != value)
        name_source(request, name, source, sizeof source);
    return operand_settle_size(name, dim, value, array, source, fault);
}

static void flip_matrix(struct tensor *tensor)
{
    uint32_t rows = tensor->rank - 2, cols = tensor->rank - 1;
    uint64_t swapped = tensor->dims[rows];
    tensor->dims[rows] = tensor->dims[cols];
    tensor->dims[cols] = swapped;
    tensor->fortran = false;
}

/* A or B, with the dimensions of the request that are the rows and columns of op(A) or op(B). */
struct matrix {
    const char *name;
    struct tensor *tensor;
    bool *transposed;
    const char *dim_names[2];
    uint64_t *dims[2];
};

/* Derives or checks batch, rows and columns from the shape of A or B. A column-major matrix has the
 * bytes of the row-major transposed matrix, so that inverting `transposed` avoids a copy. A
 * column-major batch of several matrices is not such a transposed matrix, and keeps `fortran`. */
static enum gemmd_error settle_matrix(const struct gemm_request *request,
                                      const struct matrix *matrix, uint64_t *batch,
                                      struct fault *fault)
{
    struct tensor *tensor = matrix->tensor;
    if (!operand_is_there(tensor))
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
    if (!operand_is_there(bias))
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
    /* A vector has the same bytes in the shapes (n,) and (1, n), row-major or column-major. */
    bias->rank = 1;
    bias->dims[0] = request->n;
    bias->fortran = false;
    return GEMMD_OK;
}

static enum gemmd_error settle_c0(const struct gemm_request *request, const struct tensor *c0,
                                  struct fault *fault)
{
    if (!operand_is_there(c0))
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

/* Checks the type and shape of scales, and gives them the shape that the request says. `title`
 * names the scales in messages. */
static enum gemmd_error settle_scale(const struct gemm_request *request, uint32_t operand,
                                     const char *title, struct tensor *scale, struct fault *fault)
{
    char got[TENSOR_MAX_RANK * 21], shape[TENSOR_MAX_RANK * 21];
    const char *field = gemm_operand_table.operands[operand].name;
    struct tensor wanted;
    if (!operand_is_there(scale))
        return GEMMD_OK;
    if (scale->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_MALFORMED, field, "%s is of type %s; scales must be f32",
                         title, dtype_name(scale->dtype));
    if (!scale_shape(request, operand, &wanted))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, field,
                         "the size of %s does not fit in 64 bits", title);
    if (!gemm_scales_same_shape(scale, &wanted)) {
        tensor_shape_text(scale, got, sizeof got);
        tensor_shape_text(&wanted, shape, sizeof shape);
        return fault_set(fault, GEMMD_ERR_MALFORMED, field,
                         "%s has the shape %s; with scales=%s it must be %s (sizes of 1 may be "
                         "added or left out)",
                         title, got, gemm_scales_name(request->scales), shape);
    }
    wanted.data = scale->data;
    wanted.fortran = scale->fortran && wanted.rank > 1;
    *scale = wanted;
    return GEMMD_OK;
}

static enum gemmd_error settle_shapes(struct gemm_request *request, struct gemm_operands *operands,
                                      struct fault *fault)
{
    const struct tensor *a = &operands->a, *b = &operands->b;
    uint64_t batch = gemm_request_given(request, "batch") ? request->batch : 0, of_one_b = 0;
    if (request->b[0] != '\0' && operand_is_there(b)) /* `operands` holds the resident B too */
        request->one_b = b->rank == 2;
    if (operand_is_there(a) && operand_is_there(b) && a->rank != b->rank && !request->one_b)
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
    if (code == GEMMD_OK)
        code = settle_scale(request, A_SCALE, "a_scale", &operands->a_scale, fault);
    if (code == GEMMD_OK)
        code = settle_scale(request, B_SCALE, "b_scale", &operands->b_scale, fault);
    return code;
}

static enum gemmd_error settle_resident_scale(struct gemm_request *request, uint32_t operand,
                                              const struct tensor *scale, struct fault *fault)
{
    const char *title =
        operand == A_SCALE ? "the scale of the resident A" : "the scale of the resident B";
    char shape[TENSOR_MAX_RANK * 21];
    if (scale == NULL || !operand_is_there(scale))
        return GEMMD_OK;
    if (request->scales == GEMM_SCALES_NONE) {
        tensor_shape_text(scale, shape, sizeof shape);
        return fault_set(fault, GEMMD_ERR_MALFORMED, "scales",
                         "%s has the shape %s, and scales is none; it must be rowcol or block",
                         title, shape);
    }
    struct tensor settled = *scale;
    request->resident_scales |= SCALE_BITS[operand];
    return settle_scale(request, operand, title, &settled, fault);
}

enum gemmd_error gemm_request_settle_resident_scales(struct gemm_request *request,
                                                     const struct tensor *a_scale,
                                                     const struct tensor *b_scale,
                                                     struct fault *fault)
{
    const enum gemmd_error code = settle_resident_scale(request, A_SCALE, a_scale, fault);
    return code == GEMMD_OK ? settle_resident_scale(request, B_SCALE, b_scale, fault) : code;
}

/* Checks that arrays which have names hold the scales that the request needs, and no others. */
static enum gemmd_error check_scales_there(const struct gemm_request *request,
                                           const struct gemm_operands *operands,
                                           struct fault *fault)
{
    for (uint32_t i = A_SCALE; i <= B_SCALE; i++) {
        const char *name = gemm_operand_table.operands[i].name;
        const bool there = operand_is_there(&operands->all[i]), wanted = is_wanted(request, i);
        if (there && request->scales == GEMM_SCALES_NONE)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "scales",
                             "the array %s needs scales=rowcol or scales=block", name);
        if (there && !wanted)
            return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                             "%s must be left out: the resident operand has a scale of its own",
                             name);
        if (!there && wanted)
            return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                             "scales=%s needs the array %s, which is missing",
                             gemm_scales_name(request->scales), name);
    }
    return GEMMD_OK;
}

enum gemmd_error gemm_request_settle_residents(struct gemm_request *request, const struct tensor *a,
                                               const struct tensor *b, struct fault *fault)
{
    static const struct tensor none = {.rank = 0};
    if (a == NULL && b == NULL)
        return GEMMD_OK;
    struct tensor tensor_a = a != NULL ? *a : none, tensor_b = b != NULL ? *b : none;
    uint64_t batch = gemm_request_given(request, "batch") ? request->batch : 0;
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
    if (batch > 0) { /* otherwise A in the body determines the batch */
        request->batch = batch;
        gemm_request_mark_given(request, "batch");
    }
    return GEMMD_OK;
}

enum gemmd_error gemm_request_settle_packed(struct gemm_request *request, uint64_t k, uint64_t n,
                                            struct fault *fault)
{
    static const char title[] = "the resident B";
    if (request->transb)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "transb",
                         "transb must be 0: packed weights are k x n, however their file has them");
    if (request->scales != GEMM_SCALES_NONE)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "scales",
                         "scales must be none: packed weights bring their scales with them");
    if (request->verify == GEMM_VERIFY_FREIVALDS)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "verify",
                         "verify=freivalds is not offered with packed weights");
    request->one_b = request->packed_b = true;
    enum gemmd_error code = settle_dim(request, "k", &request->k, k, title, fault);
    if (code == GEMMD_OK)
        code = settle_dim(request, "n", &request->n, n, title, fault);
    return code;
}

/* ---- npy bodies: arrays in the order of a raw body ---- */

struct npy_body {
    struct body_front *front;
    uint64_t at; /* offset of the next array in the body */
    struct npy_before before;
    uint32_t taken, expected; /* number of arrays read so far, and in the whole body */
};

static enum gemmd_error next_array(struct npy_body *body, uint32_t operand,
                                   enum gemmd_dtype carrier, struct gemm_operands *operands,
                                   struct fault *fault)
{
    if (body->at == body->front->length)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body holds %" PRIu32 " .npy arrays, %" PRIu32
                         " are needed: %s is missing",
                         body->taken, body->expected, gemm_operand_table.operands[operand].title);
    enum gemmd_error code =
        operand_read_npy(&gemm_operand_table, operand, &body->before, body->front, &body->at,
                         carrier, &operands->all[operand], fault);
    body->taken += code == GEMMD_OK;
    return code;
}

/* Whether the body holds nothing large from an array on. */
static bool is_rest_small(const struct gemm_request *request, uint32_t operand)
{
    return operand >= A_SCALE || (operand == BIAS && !is_wanted(request, C0));
}

/* Finishes the binding before the header of an array has been received. The operands before that
 * array determine the types and shapes of the array and of all arrays behind it, which get no data.
 */
static enum gemmd_error expect_rest(struct gemm_request *request, uint32_t operand,
                                    struct gemm_operands *operands, struct fault *fault)
{
    enum gemmd_error code = settle_shapes(request, operands, fault);
    for (uint32_t i = operand; i < GEMM_OPERANDS && code == GEMMD_OK; i++)
        if (is_wanted(request, i) && !shape_of(request, i, &operands->all[i]))
            code = GEMMD_ERR_TOO_LARGE;
    return code;
}

static enum gemmd_error bind_npy(struct gemm_request *request, struct body_front *front,
                                 struct gemm_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        gemm_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    struct npy_body body = {.front = front};
    enum gemmd_error code = GEMMD_OK;

    for (uint32_t i = 0; i < GEMM_OPERANDS; i++)
        body.expected += is_wanted(request, i);
    for (uint32_t i = A; i <= B && code == GEMMD_OK; i++)
        if (is_wanted(request, i))
            code = next_array(&body, i, carrier, operands, fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, &operands->a, &operands->b, fault);
    for (uint32_t i = BIAS; i < GEMM_OPERANDS && code == GEMMD_OK; i++) {
        if (!is_wanted(request, i))
            continue;
        code = next_array(&body, i, i >= A_SCALE ? GEMMD_F32 : request->out, operands, fault);
        if (code == GEMMD_ERR_CONFLICT && is_rest_small(request, i))
            return expect_rest(request, i, operands, fault);
    }
    if (code == GEMMD_OK && body.at < front->length)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its %" PRIu32 " .npy arrays take %" PRIu64
                         "%s",
                         front->length, body.expected, body.at, gemm_operand_table.npy_more);
    if (code == GEMMD_OK)
        code = settle_shapes(request, operands, fault);
    return code;
}

/* ---- safetensors bodies: arrays by name ---- */

static enum gemmd_error bind_safetensors(struct gemm_request *request, struct body_front *front,
                                         struct gemm_operands *operands, struct fault *fault)
{
    enum gemmd_error code =
        operand_read_safetensors(&gemm_operand_table, front, operands->all, fault);
    if (code != GEMMD_OK)
        return code;
    const bool has_bias = operand_is_there(&operands->bias),
               has_c0 = operand_is_there(&operands->c0);
    if (operand_is_there(&operands->a) != is_wanted(request, A) ||
        operand_is_there(&operands->b) != is_wanted(request, B))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the tensors a and b must both be there, unless a parameter "
                         "of the same name says where else the operand is");
    if (has_bias != request->bias && gemm_request_given(request, "bias"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                         has_bias ? "safetensors: the tensor 'bias' must be left out with bias=0"
                                  : "safetensors: bias=1 needs a tensor 'bias'");
    if (has_c0 != (request->beta != 0))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         has_c0 ? "safetensors: the tensor 'c' must be left out with beta=0"
                                : "safetensors: beta other than 0 needs a tensor 'c'");
    request->bias = has_bias;
    code = check_scales_there(request, operands, fault);
    if (code == GEMMD_OK)
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
    request->bias = operand_is_there(&operands->bias);
    const bool has_a = operand_is_there(&operands->a) || request->a[0] != '\0';
    const bool has_b = operand_is_there(&operands->b) || request->b[0] != '\0';
    if (!has_a || !has_b)
        return fault_set(fault, GEMMD_ERR_MALFORMED, has_a ? "b" : "a",
                         "an operand is missing; A and B are needed");
    if (operand_is_there(&operands->c0) != (request->beta != 0))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "beta",
                         operand_is_there(&operands->c0)
                             ? "C0 must be left out with beta=0, which does not use it"
                             : "beta other than 0 needs a C0");
    enum gemmd_error code = check_scales_there(request, operands, fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, &operands->a, &operands->b, fault);
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
    struct body_front all = {.bytes = body, .length = bytes, .received = bytes};
    return gemm_request_bind_front(request, format, &all, operands, fault);
}
