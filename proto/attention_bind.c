/* Finds the operands of an attention in a body: the functions of attention_request.h that bind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/dtype.h"
#include "proto/parameter.h"

enum { LENS_Q, LENS_KV, SLOPES, SINKS, Q, K, V, MASK };

/* Whether K and V, or those of the positions that are appended, are not all in a sequence. */
static bool brings_kv(const struct attention_request *request)
{
    return request->sequence[0] == '\0' || request->append;
}

/* Returns whether the body has to hold the operand. */
static bool is_wanted(const void *of, uint32_t operand)
{
    const struct attention_request *request = of;
    const bool lens = request->lens != ATTENTION_LENS_NONE;
    const bool wanted[ATTENTION_OPERANDS] = {lens,
                                             lens,
                                             request->alibi,
                                             request->sinks,
                                             true,
                                             brings_kv(request) && request->k[0] == '\0',
                                             brings_kv(request) && request->v[0] == '\0',
                                             request->mask != ATTENTION_MASK_NONE};
    return wanted[operand];
}

static enum gemmd_dtype mask_dtype(const struct attention_request *request)
{
    return request->mask == ATTENTION_MASK_BOOL ? GEMMD_I8 : request->dtype;
}

/* The number of elements of lens_q and lens_kv. */
static uint64_t lens_count(const struct attention_request *request)
{
    return request->batch + (request->lens == ATTENTION_LENS_RAGGED);
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct attention_request *r = of;
    const uint64_t lens = lens_count(r);
    if (operand == LENS_Q || operand == LENS_KV)
        return tensor_init(tensor, GEMMD_I32, &lens, 1, NULL);
    if (operand == SLOPES || operand == SINKS)
        return tensor_init(tensor, GEMMD_F32, &r->heads, 1, NULL);
    if (operand == MASK) {
        const uint64_t dims[] = {r->mask_batch, r->mask_heads, r->mask_sq, r->skv};
        return tensor_init(tensor, mask_dtype(r), dims, 4, NULL);
    }
    return operand == Q ? attention_request_tensor(r, r->heads, r->sq, r->d, tensor)
                        : attention_request_tensor(r, r->kv_heads, r->append ? r->sq : r->skv,
                                                   operand == K ? r->d : r->dv, tensor);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct attention_request *r = of;
    snprintf(out, room,
             "batch=%" PRIu64 " heads=%" PRIu64 " kv_heads=%" PRIu64 " sq=%" PRIu64 " skv=%" PRIu64
             " d=%" PRIu64 " dv=%" PRIu64 " in %s%s%s%s%s",
             r->batch, r->heads, r->kv_heads, r->sq, r->skv, r->d, r->dv, dtype_name(r->dtype),
             r->lens == ATTENTION_LENS_NONE     ? ""
             : r->lens == ATTENTION_LENS_RAGGED ? " with ragged entries"
                                                : " with lengths",
             r->alibi ? " with slopes" : "", r->sinks ? " with sinks" : "",
             r->mask == ATTENTION_MASK_NONE   ? ""
             : r->mask == ATTENTION_MASK_BOOL ? " with a boolean mask"
                                              : " with a mask");
}

/* A request that differs from a client's in one thing, to see if its body has the length `bytes`.
 */
struct attention_variant {
    struct attention_request request;
    uint32_t elsewhere;
    uint64_t bytes;
};

static bool attention_variant_fits(const struct attention_variant *variant)
{
    struct operand_layout layout;
    return operand_layout_compute(&layout, &attention_operand_table, &variant->request,
                                  variant->elsewhere) &&
           layout.bytes == variant->bytes;
}

static bool attention_fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    struct attention_variant variant = *(const struct attention_variant *)context;
    variant.request.dtype = dtype;
    return (dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16 ||
            dtype == GEMMD_F8_E4M3) &&
           attention_variant_fits(&variant);
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    const struct attention_request *r = of;
    struct attention_variant variant = {*r, elsewhere, bytes};
    if (bytes == 0)
        return;
    if (r->k[0] == '\0' && r->v[0] == '\0')
        operand_guess_dtypes(out, r->dtype, attention_fits_with_dtype, &variant);
    const bool has_lens = r->lens != ATTENTION_LENS_NONE;
    variant.request.lens = has_lens ? ATTENTION_LENS_NONE : ATTENTION_LENS_PADDED;
    if (attention_variant_fits(&variant))
        operand_guess_add(out, has_lens ? "are the lengths missing" : "is lens=1 missing");
    variant.request.lens = r->lens;
    variant.request.mask =
        r->mask == ATTENTION_MASK_NONE ? ATTENTION_MASK_ADD : ATTENTION_MASK_NONE;
    if (attention_variant_fits(&variant))
        operand_guess_add(out, r->mask != ATTENTION_MASK_NONE ? "is the mask missing"
                                                              : "is mask=add missing");
}

/* lens_q and lens_kv determine which elements the kernel reads. The client may change shared memory
 * at any time, so that the lengths can be in the body only. */
const struct operand_table attention_operand_table = {
    .path = "/attention",
    .names = "q, k, v, lens_q, lens_kv, slopes, sinks, mask",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .count = ATTENTION_OPERANDS,
    .npy_more = " (lens=1 adds two vectors before Q, alibi=1 and sinks=1 one each, mask=add and "
                "mask=bool an array after V)",
    .operands = {{"lens_q", "the lengths of Q", NULL, "lens"},
                 {"lens_kv", "the lengths of K and V", NULL, "lens"},
                 {"slopes", "the slopes", "slopes", "alibi"},
                 {"sinks", "the sinks", "sinks", "sinks"},
                 {"q", "Q", "q", "q"},
                 {"k", "K", "k", "k"},
                 {"v", "V", "v", "v"},
                 {"mask", "the mask", "mask", "mask"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

static const char *title_of(uint32_t operand)
{
    return attention_operand_table.operands[operand].title;
}

/* ---- raw bodies: the parameters give all types and shapes, and only the length is checked ---- */

bool attention_request_operands(const struct attention_request *request,
                                struct attention_operands *operands)
{
    return operand_shapes(&attention_operand_table, request, operands->all);
}

bool attention_request_layout(const struct attention_request *request,
                              struct operand_layout *layout)
{
    return operand_layout_compute(layout, &attention_operand_table, request, request->elsewhere);
}

bool attention_request_raw_bytes(const struct attention_request *request, uint64_t *out)
{
    struct operand_layout layout;
    if (!attention_request_layout(request, &layout))
        return false;
    *out = layout.bytes;
    return true;
}

enum gemmd_error attention_request_check_raw_bytes(const struct attention_request *request,
                                                   uint64_t bytes, struct fault *fault)
{
    struct operand_layout layout;
    enum gemmd_error code = operand_layout_settle(&layout, &attention_operand_table, request,
                                                  request->elsewhere, fault);
    return code == GEMMD_OK
               ? operand_layout_check(&layout, &attention_operand_table, request, bytes, fault)
               : code;
}

/* ---- formats whose arrays have types and shapes ---- */

static enum gemmd_error settle_dtype(struct attention_request *request, const struct tensor *tensor,
                                     const char *title, struct fault *fault)
{
    if (!operand_is_there(tensor))
        return GEMMD_OK;
    if (tensor->dtype != GEMMD_F32 && tensor->dtype != GEMMD_F16 && tensor->dtype != GEMMD_BF16 &&
        tensor->dtype != GEMMD_F8_E4M3)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "%s is of type %s; attention is offered in f32, f16, bf16 and f8_e4m3",
                         title, dtype_name(tensor->dtype));
    if (attention_request_given(request, "dtype") && tensor->dtype != request->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "%s is of type %s and the parameter or another operand says %s; all must "
                         "be the same",
                         title, dtype_name(tensor->dtype), dtype_name(request->dtype));
    request->dtype = tensor->dtype;
    attention_request_mark_given(request, "dtype");
    return GEMMD_OK;
}

static enum gemmd_error settle_size(const char *name, uint64_t *size, uint64_t value,
                                    const char *title, struct fault *fault)
{
    return operand_settle_size(name, size, value, title, "the parameter or another operand", fault);
}

/* The sizes of the request that are the dimensions of Q, K or V, with their names for messages. */
struct sizes {
    const char *heads_name, *length_name, *width_name;
    uint64_t *heads, *length, *width;
};

static enum gemmd_error settle_shape(struct attention_request *request, const struct tensor *tensor,
                                     const char *title, const struct sizes *sizes,
                                     struct fault *fault)
{
    uint64_t dims[4] = {1, 1, 1, 1}, one = 1;
    if (!operand_is_there(tensor))
        return GEMMD_OK;
    if (tensor->rank < 2 || tensor->rank > 4)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s has %" PRIu32
                         " dimensions; it must have 4: %s, with leading ones of 1 "
                         "left out or not",
                         title, tensor->rank,
                         request->layout == ATTENTION_BHSD ? "batch, heads, sequence, head size"
                                                           : "batch, sequence, heads, head size");
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[4 - tensor->rank + i] = tensor->dims[i];
    /* A tensor of rank 2 is [length, width] in both layouts, and is read as one head of bhsd. */
    const bool heads_first = request->layout == ATTENTION_BHSD || tensor->rank == 2;
    const bool is_ragged = request->lens == ATTENTION_LENS_RAGGED;
    enum gemmd_error code =
        is_ragged && dims[0] != 1
            ? fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                        "%s has a batch of %" PRIu64
                        "; with lens=ragged the rows of all entries follow one another in a batch "
                        "of 1",
                        title, dims[0])
            : settle_size("batch", is_ragged ? &one : &request->batch, dims[0], title, fault);
    if (code == GEMMD_OK)
        code =
            settle_size(sizes->heads_name, sizes->heads, dims[heads_first ? 1 : 2], title, fault);
    if (code == GEMMD_OK)
        code =
            settle_size(sizes->length_name, sizes->length, dims[heads_first ? 2 : 1], title, fault);
    if (code == GEMMD_OK)
        code = settle_size(sizes->width_name, sizes->width, dims[3], title, fault);
    return code;
}

static enum gemmd_error settle_kv(struct attention_request *request, const struct tensor *tensor,
                                  bool is_v, const char *title, struct fault *fault)
{
    const struct sizes sizes = {"kv_heads",
                                request->append ? "sq" : "skv",
                                is_v ? "dv" : "d",
                                &request->kv_heads,
                                request->append ? &request->sq : &request->skv,
                                is_v ? &request->dv : &request->d};
    enum gemmd_error code = settle_dtype(request, tensor, title, fault);
    return code == GEMMD_OK ? settle_shape(request, tensor, title, &sizes, fault) : code;
}

/* Adds the shapes of the operands that are there (NULL and rank 0: not there) to the sentence of a
 * fault about a size, so that a client sees which operand does not fit. Returns `code`. */
static enum gemmd_error tell_shapes(enum gemmd_error code, const struct tensor *q,
                                    const struct tensor *k, const struct tensor *v,
                                    struct fault *fault)
{
    const struct tensor *const tensors[] = {q, k, v};
    char shape[64];
    if (code == GEMMD_OK || fault == NULL || fault->field[0] == '\0' ||
        strcmp(fault->field, "dtype") == 0)
        return code;
    for (uint32_t i = 0, told = 0; i < 3; i++) {
        const size_t length = strlen(fault->detail);
        if (tensors[i] == NULL || tensors[i]->rank == 0)
            continue;
        tensor_shape_text(tensors[i], shape, sizeof shape);
        snprintf(fault->detail + length, sizeof fault->detail - length, "%s%c is [%s]",
                 told++ == 0 ? "; " : ", ", "QKV"[i], shape);
    }
    return code;
}

enum gemmd_error attention_request_settle_residents(struct attention_request *request,
                                                    const struct tensor *k, const struct tensor *v,
                                                    struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    if (k != NULL)
        code = settle_kv(request, k, false, "the resident K", fault);
    if (code == GEMMD_OK && v != NULL)
        code = settle_kv(request, v, true, "the resident V", fault);
    return tell_shapes(code, NULL, k, v, fault);
}

/* Checks which parameters are given together. */
static enum gemmd_error check_sequence_parameters(const struct attention_request *r,
                                                  struct fault *fault)
{
    const bool named = r->sequence[0] != '\0';
    const char *own = r->append                                ? "append"
                      : attention_request_given(r, "position") ? "position"
                      : r->layer != 0                          ? "layer"
                                                               : NULL;
    if (!named && own != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, own,
                         "%s is given, and the request names no sequence", own);
    if (named && (r->k[0] != '\0' || r->v[0] != '\0'))
        return fault_set(fault, GEMMD_ERR_MALFORMED, r->k[0] != '\0' ? "k" : "v",
                         "K and V are those of the sequence; k and v cannot be given too");
    if (named && r->lens != ATTENTION_LENS_NONE)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "an attention over a sequence has no lengths");
    if (named && r->append != attention_request_given(r, "position"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "position",
                         r->append ? "position is missing: the number of positions that precede "
                                     "those that are appended"
                                   : "position is given without append=1");
    if (r->append && attention_request_given(r, "skv"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "skv",
                         "skv is given with append=1; it is position + sq");
    return GEMMD_OK;
}

/* Sets skv of a request that reads: by default all positions of the layer. */
static enum gemmd_error settle_read(struct attention_request *r, uint64_t length,
                                    struct fault *fault)
{
    if (r->skv == 0)
        r->skv = length;
    if (r->skv != 0 && r->skv <= length)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_PRECONDITION, "sequence",
                     "layer %" PRIu64 " of the sequence has %" PRIu64
                     " positions; the attention needs %" PRIu64,
                     r->layer, length, r->skv != 0 ? r->skv : 1);
}

enum gemmd_error attention_request_settle_sequence(struct attention_request *request,
                                                   const struct attention_sequence *sequence,
                                                   struct fault *fault)
{
    struct attention_request *r = request;
    enum gemmd_error code = check_sequence_parameters(r, fault);
    if (code != GEMMD_OK || sequence == NULL)
        return code;
    if (r->layer >= sequence->layers)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "layer",
                         "layer is %" PRIu64 "; the sequence has the layers 0 to %" PRIu64,
                         r->layer, sequence->layers - 1);
    const struct tensor like = {.rank = 1, .dtype = sequence->dtype, .dims = {1}};
    code = settle_dtype(r, &like, "the sequence", fault);
    if (code == GEMMD_OK)
        code = settle_size("batch", &r->batch, 1, "the sequence", fault);
    if (code == GEMMD_OK)
        code = settle_size("kv_heads", &r->kv_heads, sequence->kv_heads, "the sequence", fault);
    if (code == GEMMD_OK)
        code = settle_size("d", &r->d, sequence->d, "the sequence", fault);
    if (code == GEMMD_OK)
        code = settle_size("dv", &r->dv, sequence->dv, "the sequence", fault);
    if (code == GEMMD_OK && !r->append)
        code = settle_read(r, sequence->lengths[r->layer], fault);
    return code;
}

/* Derives the number of ragged entries from a vector that has one element more. */
static enum gemmd_error settle_ragged_batch(struct attention_request *request,
                                            const struct tensor *lens, struct fault *fault)
{
    if (request->lens != ATTENTION_LENS_RAGGED || !operand_is_there(lens) || lens->rank != 1)
        return GEMMD_OK; /* settle_vector refuses another rank */
    if (lens->dims[0] < 2)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "%s has %" PRIu64
                         " elements; with lens=ragged there is one for each entry, and one more",
                         title_of(LENS_Q), lens->dims[0]);
    return settle_size("batch", &request->batch, lens->dims[0] - 1, title_of(LENS_Q), fault);
}

/* Checks the type and the shape of an operand that is a vector: of `count` elements, which is the
 * size `name`. */
static enum gemmd_error settle_vector(struct attention_operands *operands, uint32_t operand,
                                      enum gemmd_dtype dtype, const char *name, uint64_t count,
                                      struct fault *fault)
{
    struct tensor *vector = &operands->all[operand];
    if (!operand_is_there(vector))
        return GEMMD_OK;
    if (vector->dtype != dtype || vector->rank != 1 || vector->dims[0] != count)
        return fault_set(fault, GEMMD_ERR_MALFORMED,
                         attention_operand_table.operands[operand].field,
                         "%s must be one vector of %s=%" PRIu64 " elements of %s",
                         title_of(operand), name, count, dtype_name(dtype));
    vector->fortran = false;
    return GEMMD_OK;
}

static enum gemmd_error settle_vectors(const struct attention_request *request,
                                       struct attention_operands *operands, struct fault *fault)
{
    const uint64_t lens = lens_count(request);
    const char *name = request->lens == ATTENTION_LENS_RAGGED ? "batch+1" : "batch";
    enum gemmd_error code = settle_vector(operands, LENS_Q, GEMMD_I32, name, lens, fault);
    if (code == GEMMD_OK)
        code = settle_vector(operands, LENS_KV, GEMMD_I32, name, lens, fault);
    if (code == GEMMD_OK)
        code = settle_vector(operands, SLOPES, GEMMD_F32, "heads", request->heads, fault);
    return code == GEMMD_OK
               ? settle_vector(operands, SINKS, GEMMD_F32, "heads", request->heads, fault)
               : code;
}

static int32_t element_of(const struct tensor *lens, uint64_t i)
{
    int32_t value;
    memcpy(&value, (const char *)lens->data + i * sizeof value, sizeof value);
    return value;
}

/* Checks the first rows of ragged entries: 0, in ascending order, and at the end `rows`. */
static enum gemmd_error check_first_rows(const struct tensor *lens, uint64_t rows,
                                         const char *title, const char *name, struct fault *fault)
{
    int64_t before = 0;
    if (!operand_is_there(lens))
        return GEMMD_OK;
    for (uint64_t i = 0; i < lens->dims[0]; i++) {
        const int64_t value = element_of(lens, i);
        const bool first = i == 0, last = i == lens->dims[0] - 1;
        if (value < before || (first && value != 0) || (last && (uint64_t)value != rows))
            return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                             "of %s, number %" PRIu64 " is %" PRId64
                             "; with lens=ragged they ascend from 0 to %s=%" PRIu64,
                             title, i, value, name, rows);
        before = value;
    }
    return GEMMD_OK;
}

/* Checks that each value in lens_q or lens_kv is from 0 to `limit`. */
static enum gemmd_error check_lens(const struct tensor *lens, uint64_t limit, const char *title,
                                   const char *limit_name, struct fault *fault)
{
    for (uint64_t i = 0; operand_is_there(lens) && i < lens->dims[0]; i++) {
        const int32_t value = element_of(lens, i);
        if (value < 0 || (uint64_t)value > limit)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                             "of %s, number %" PRIu64 " is %" PRId32
                             "; it must be from 0 to %s=%" PRIu64,
                             title, i, value, limit_name, limit);
    }
    return GEMMD_OK;
}

/* Finds out from the mask's type and shape, if it is there, what kind of mask it is, and how often
 * its rows are used. Leading dimensions of 1 may be left out. */
static enum gemmd_error settle_mask(struct attention_request *request, struct tensor *mask,
                                    struct fault *fault)
{
    uint64_t dims[4] = {1, 1, 1, 1};
    if (!operand_is_there(mask))
        return GEMMD_OK;
    if (mask->rank > 4)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "mask",
                         "the mask has %" PRIu32 " dimensions; it must have 4: batch, heads, "
                         "queries, keys, with leading ones of 1 left out or not",
                         mask->rank);
    const enum attention_mask kind =
        mask->dtype == GEMMD_I8 ? ATTENTION_MASK_BOOL : ATTENTION_MASK_ADD;
    if (attention_request_given(request, "mask") && request->mask != kind)
        return fault_set(
            fault, GEMMD_ERR_MALFORMED, "mask",
            "the mask is of type %s and the parameter mask is %s; mask=bool takes "
            "i8, and mask=add the type of Q, %s",
            dtype_name(mask->dtype),
            parameter_choice(&attention_parameter_table, "mask", (uint32_t)request->mask),
            dtype_name(request->dtype));
    if (kind == ATTENTION_MASK_ADD && mask->dtype != request->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "mask",
                         "the mask is of type %s; it must be of the type of Q, %s, to be added, or "
                         "of i8 to hide keys",
                         dtype_name(mask->dtype), dtype_name(request->dtype));
    request->mask = kind;
    for (uint32_t i = 0; i < mask->rank; i++)
        dims[4 - mask->rank + i] = mask->dims[i];
    enum gemmd_error code =
        settle_size("mask_batch", &request->mask_batch, dims[0], "the mask", fault);
    if (code == GEMMD_OK)
        code = settle_size("mask_heads", &request->mask_heads, dims[1], "the mask", fault);
    if (code == GEMMD_OK)
        code = settle_size("mask_sq", &request->mask_sq, dims[2], "the mask", fault);
    return code == GEMMD_OK ? settle_size("skv", &request->skv, dims[3], "the mask", fault) : code;
}

static enum gemmd_error settle_arrays(struct attention_request *request,
                                      struct attention_operands *operands, struct fault *fault)
{
    const struct sizes q = {"heads", "sq", "d", &request->heads, &request->sq, &request->d};
    enum gemmd_error code = settle_ragged_batch(request, &operands->lens_q, fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, &operands->q, "Q", fault);
    if (code == GEMMD_OK)
        code = settle_shape(request, &operands->q, "Q", &q, fault);
    if (code == GEMMD_OK)
        code = settle_kv(request, &operands->k, false, "K", fault);
    if (code == GEMMD_OK)
        code = settle_kv(request, &operands->v, true, "V", fault);
    if (code == GEMMD_OK)
        code = settle_mask(request, &operands->mask, fault);
    if (code == GEMMD_OK)
        code = attention_request_settle_sizes(request, fault);
    code = tell_shapes(code, &operands->q, &operands->k, &operands->v, fault);
    if (code == GEMMD_OK)
        code = settle_vectors(request, operands, fault);
    request->rank = operands->q.rank;
    return code;
}

enum gemmd_error attention_request_check_lens(const struct attention_request *request,
                                              const struct attention_operands *operands,
                                              struct fault *fault)
{
    enum gemmd_error (*const check)(const struct tensor *, uint64_t, const char *, const char *,
                                    struct fault *) =
        request->lens == ATTENTION_LENS_RAGGED ? check_first_rows : check_lens;
    const enum gemmd_error code =
        check(&operands->lens_q, request->sq, title_of(LENS_Q), "sq", fault);
    return code == GEMMD_OK
               ? check(&operands->lens_kv, request->skv, title_of(LENS_KV), "skv", fault)
               : code;
}

/* ---- all formats ---- */

/* Lets a request have the optional operands that were found, if the parameters say nothing. The
 * type of a mask then says which kind it is (settle_mask). */
static void take_found(struct attention_request *request, const struct attention_operands *operands)
{
    if (!attention_request_given(request, "lens") &&
        (operand_is_there(&operands->lens_q) || operand_is_there(&operands->lens_kv)))
        request->lens = ATTENTION_LENS_PADDED;
    if (!attention_request_given(request, "alibi"))
        request->alibi = operand_is_there(&operands->slopes);
    if (!attention_request_given(request, "sinks"))
        request->sinks = operand_is_there(&operands->sinks);
    if (!attention_request_given(request, "mask") && operand_is_there(&operands->mask))
        request->mask = ATTENTION_MASK_ADD;
}

enum gemmd_error attention_request_bind_tensors(struct attention_request *request,
                                                struct attention_operands *operands,
                                                struct fault *fault)
{
    take_found(request, operands);
    const uint32_t i = operand_mismatch(&attention_operand_table, request, operands->all);
    if (i == ATTENTION_OPERANDS)
        return settle_arrays(request, operands, fault);
    return fault_set(
        fault, GEMMD_ERR_MALFORMED, attention_operand_table.operands[i].field,
        operand_is_there(&operands->all[i]) ? "the request sends %s, which is resident%s"
                                            : "the request lacks %s%s",
        title_of(i), i == LENS_Q || i == LENS_KV ? "; the lengths are two vectors, or none" : "");
}

enum gemmd_error attention_request_bind_front(struct attention_request *request, enum format format,
                                              struct body_front *front,
                                              struct attention_operands *operands,
                                              struct fault *fault)
{
    const enum gemmd_dtype carrier =
        attention_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    enum gemmd_error code =
        operand_bind_front(&attention_operand_table, request, request->elsewhere, format, front,
                           carrier, operands->all, fault);
    if (code != GEMMD_OK || format == FORMAT_RAW)
        return code;
    if (format == FORMAT_SAFETENSORS) {
        take_found(request, operands);
        code = operand_check_named(&attention_operand_table, request, operands->all, fault);
    }
    return code == GEMMD_OK ? settle_arrays(request, operands, fault) : code;
}

enum gemmd_error attention_request_bind(struct attention_request *request, enum format format,
                                        const void *body, uint64_t bytes,
                                        struct attention_operands *operands, struct fault *fault)
{
    struct body_front all = {.bytes = body, .length = bytes, .received = bytes};
    enum gemmd_error code = attention_request_bind_front(request, format, &all, operands, fault);
    return code == GEMMD_OK ? attention_request_check_lens(request, operands, fault) : code;
}
