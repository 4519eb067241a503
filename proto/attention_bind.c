/* Finding the operands of an attention in a body: the second half of attention_request.h. */
#include <inttypes.h>
#include <string.h>

#include "proto/attention_request.h"
#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/size.h"

enum { OPERANDS = 5 };

static bool is_there(const struct tensor *tensor)
{
    return tensor->rank > 0;
}

/* In the order in which they travel. */
static void list(struct attention_operands *operands, struct tensor *all[OPERANDS])
{
    all[0] = &operands->lens_q;
    all[1] = &operands->lens_kv;
    all[2] = &operands->q;
    all[3] = &operands->k;
    all[4] = &operands->v;
}
static const char *const names[OPERANDS] = {"lens_q", "lens_kv", "q", "k", "v"};
static const char *const titles[OPERANDS] = {"the lengths of Q", "the lengths of K and V", "Q", "K",
                                             "V"};

/* Which of them the body has to hold. */
static bool is_wanted(const struct attention_request *request, int operand)
{
    const bool wanted[OPERANDS] = {request->lens, request->lens, true, request->k[0] == '\0',
                                   request->v[0] == '\0'};
    return wanted[operand];
}

/* ---- raw ---- */

bool attention_request_operands(const struct attention_request *request,
                                struct attention_operands *operands)
{
    const struct attention_request *r = request;
    *operands = (struct attention_operands){.q = {.rank = 0}};
    return (!r->lens || (tensor_init(&operands->lens_q, GEMMD_I32, &r->batch, 1, NULL) &&
                         tensor_init(&operands->lens_kv, GEMMD_I32, &r->batch, 1, NULL))) &&
           attention_request_tensor(r, r->heads, r->sq, r->d, &operands->q) &&
           (r->k[0] != '\0' ||
            attention_request_tensor(r, r->kv_heads, r->skv, r->d, &operands->k)) &&
           (r->v[0] != '\0' ||
            attention_request_tensor(r, r->kv_heads, r->skv, r->dv, &operands->v));
}

bool attention_request_raw_bytes(const struct attention_request *request, uint64_t *out)
{
    struct attention_operands operands;
    struct tensor *all[OPERANDS];
    uint64_t total = 0;
    if (!attention_request_operands(request, &operands))
        return false;
    list(&operands, all);
    for (int i = 0; i < OPERANDS; i++)
        if ((request->elsewhere & 1u << i) == 0 && !size_add(total, all[i]->bytes, &total))
            return false;
    *out = total;
    return true;
}

enum gemmd_error attention_request_check_raw_bytes(const struct attention_request *request,
                                                   uint64_t bytes, struct fault *fault)
{
    const struct attention_request *r = request;
    uint64_t expected;
    if (!attention_request_raw_bytes(request, &expected))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the size of these operands does not fit in 64 bits");
    if (bytes != expected)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; batch=%" PRIu64 " heads=%" PRIu64
                         " kv_heads=%" PRIu64 " sq=%" PRIu64 " skv=%" PRIu64 " d=%" PRIu64
                         " dv=%" PRIu64 " in %s%s take %" PRIu64,
                         bytes, r->batch, r->heads, r->kv_heads, r->sq, r->skv, r->d, r->dv,
                         dtype_name(r->dtype), r->lens ? " with lengths" : "", expected);
    return GEMMD_OK;
}

static enum gemmd_error bind_raw(const struct attention_request *request, const void *body,
                                 uint64_t bytes, struct attention_operands *operands,
                                 struct fault *fault)
{
    const unsigned char *at = body;
    struct tensor *all[OPERANDS];
    enum gemmd_error code = attention_request_check_raw_bytes(request, bytes, fault);
    if (code != GEMMD_OK)
        return code;
    /* It fits, or its length would not have been right. */
    (void)attention_request_operands(request, operands);
    list(operands, all);
    for (int i = 0; i < OPERANDS; i++) {
        if (!is_there(all[i]) || (request->elsewhere & 1u << i) != 0)
            continue;
        all[i]->data = at;
        at += all[i]->bytes;
    }
    return GEMMD_OK;
}

/* ---- arrays with shapes and types of their own ---- */

static enum gemmd_error settle_dtype(struct attention_request *request, const struct tensor *tensor,
                                     const char *title, struct fault *fault)
{
    if (!is_there(tensor))
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

/* One size, as an array's shape says it, against what is known of it so far. */
static enum gemmd_error settle_size(const char *name, uint64_t *size, uint64_t value,
                                    const char *title, struct fault *fault)
{
    if (value < 1 || value > GEMM_DIM_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "%s is %" PRIu64 " by the shape of %s; it must be from 1 to %d", name,
                         value, title, GEMM_DIM_MAX);
    if (*size == 0)
        *size = value;
    if (*size != value)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "%s is %" PRIu64 " by the shape of %s and %" PRIu64
                         " by the parameter or another operand",
                         name, value, title, *size);
    return GEMMD_OK;
}

/* What the dimensions of Q, K or V are called. */
struct sizes {
    const char *heads_name, *length_name, *width_name;
    uint64_t *heads, *length, *width;
};

static enum gemmd_error settle_shape(struct attention_request *request, const struct tensor *tensor,
                                     const char *title, const struct sizes *sizes,
                                     struct fault *fault)
{
    uint64_t dims[4] = {1, 1, 1, 1};
    if (!is_there(tensor))
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
    /* Without heads there is nothing before or after the sequence. */
    const bool heads_first = request->layout == ATTENTION_BHSD || tensor->rank == 2;
    enum gemmd_error code = settle_size("batch", &request->batch, dims[0], title, fault);
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
    const struct sizes sizes = {"kv_heads",        "skv",
                                is_v ? "dv" : "d", &request->kv_heads,
                                &request->skv,     is_v ? &request->dv : &request->d};
    enum gemmd_error code = settle_dtype(request, tensor, title, fault);
    return code == GEMMD_OK ? settle_shape(request, tensor, title, &sizes, fault) : code;
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
    return code;
}

static enum gemmd_error settle_lens(const struct attention_request *request, struct tensor *lens,
                                    const char *title, struct fault *fault)
{
    if (!is_there(lens))
        return GEMMD_OK;
    if (lens->dtype != GEMMD_I32 || lens->rank != 1 || lens->dims[0] != request->batch)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "%s must be one vector of batch=%" PRIu64 " elements of i32", title,
                         request->batch);
    lens->fortran = false;
    return GEMMD_OK;
}

/* The lengths' values: 0 ... limit. */
static enum gemmd_error check_lens(const struct tensor *lens, uint64_t limit, const char *title,
                                   const char *limit_name, struct fault *fault)
{
    for (uint64_t i = 0; is_there(lens) && i < lens->dims[0]; i++) {
        int32_t value;
        memcpy(&value, (const char *)lens->data + i * sizeof value, sizeof value);
        if (value < 0 || (uint64_t)value > limit)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                             "of %s, number %" PRIu64 " is %" PRId32
                             "; it must be from 0 to %s=%" PRIu64,
                             title, i, value, limit_name, limit);
    }
    return GEMMD_OK;
}

static enum gemmd_error settle_arrays(struct attention_request *request,
                                      struct attention_operands *operands, struct fault *fault)
{
    const struct sizes q = {"heads", "sq", "d", &request->heads, &request->sq, &request->d};
    enum gemmd_error code = settle_dtype(request, &operands->q, "Q", fault);
    if (code == GEMMD_OK)
        code = settle_shape(request, &operands->q, "Q", &q, fault);
    if (code == GEMMD_OK)
        code = settle_kv(request, &operands->k, false, "K", fault);
    if (code == GEMMD_OK)
        code = settle_kv(request, &operands->v, true, "V", fault);
    if (code == GEMMD_OK)
        code = attention_request_settle_sizes(request, fault);
    if (code == GEMMD_OK)
        code = settle_lens(request, &operands->lens_q, titles[0], fault);
    if (code == GEMMD_OK)
        code = settle_lens(request, &operands->lens_kv, titles[1], fault);
    request->rank = operands->q.rank;
    return code;
}

/* ---- npy: arrays one after another ---- */

static enum gemmd_error bind_npy(struct attention_request *request, struct body_front *front,
                                 struct attention_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        attention_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    struct tensor *all[OPERANDS];
    uint64_t at = 0;
    list(operands, all);
    for (int i = 0; i < OPERANDS; i++) {
        struct fault reason = {0};
        if (!is_wanted(request, i))
            continue;
        if (at == front->length)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the body ends before the .npy array of %s", titles[i]);
        enum gemmd_error code = npy_decode_front(front, &at, carrier, all[i], &reason);
        if (code == GEMMD_ERR_CONFLICT)
            return code;
        if (code != GEMMD_OK)
            return fault_set(fault, code, reason.field, "%s: %s", titles[i], reason.detail);
        if (all[i]->rank == 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "%s: the array is a scalar",
                             titles[i]);
    }
    if (at < front->length)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its .npy arrays take %" PRIu64
                         " (lens=1 adds two vectors before Q)",
                         front->length, at);
    return settle_arrays(request, operands, fault);
}

/* ---- safetensors: arrays by name ---- */

static enum gemmd_error claim(const struct safetensors_entry *entry, struct tensor *all[OPERANDS],
                              struct fault *fault)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (strcmp(entry->name, names[i]) != 0)
            continue;
        *all[i] = entry->tensor;
        if (entry->tensor.rank == 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "safetensors: '%s' is a scalar",
                             entry->name);
        return GEMMD_OK;
    }
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "safetensors: there is a tensor '%s'; those of /attention are q, k, v, "
                     "lens_q, lens_kv",
                     entry->name);
}

static enum gemmd_error bind_safetensors(struct attention_request *request,
                                         struct body_front *front,
                                         struct attention_operands *operands, struct fault *fault)
{
    struct safetensors_entry entries[OPERANDS];
    struct tensor *all[OPERANDS];
    uint32_t count = 0;
    list(operands, all);
    enum gemmd_error code = safetensors_decode_front(front, entries, OPERANDS, &count, fault);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = claim(&entries[i], all, fault);
    if (code != GEMMD_OK)
        return code;
    if (!attention_request_given(request, "lens"))
        request->lens = is_there(&operands->lens_q) || is_there(&operands->lens_kv);
    for (int i = 0; i < OPERANDS; i++) {
        if (is_there(all[i]) == is_wanted(request, i))
            continue;
        return fault_set(fault, GEMMD_ERR_MALFORMED, i < 2 ? "lens" : names[i],
                         is_there(all[i])
                             ? "safetensors: there is a tensor '%s', which the parameters leave out"
                             : "safetensors: the tensor '%s' is missing",
                         names[i]);
    }
    return settle_arrays(request, operands, fault);
}

enum gemmd_error attention_request_check_lens(const struct attention_request *request,
                                              const struct attention_operands *operands,
                                              struct fault *fault)
{
    enum gemmd_error code = check_lens(&operands->lens_q, request->sq, titles[0], "sq", fault);
    if (code == GEMMD_OK)
        code = check_lens(&operands->lens_kv, request->skv, titles[1], "skv", fault);
    return code;
}

/* ---- arrays that were found elsewhere ---- */

enum gemmd_error attention_request_bind_tensors(struct attention_request *request,
                                                struct attention_operands *operands,
                                                struct fault *fault)
{
    struct tensor *all[OPERANDS];
    list(operands, all);
    request->lens = is_there(&operands->lens_q) || is_there(&operands->lens_kv);
    for (int i = 0; i < OPERANDS; i++) {
        if (is_there(all[i]) == is_wanted(request, i))
            continue;
        return fault_set(fault, GEMMD_ERR_MALFORMED, i < 2 ? "lens" : names[i],
                         is_there(all[i]) ? "%s: it is resident, and sent too" : "%s: missing%s",
                         titles[i], i < 2 ? "; the lengths are two vectors, or none" : "");
    }
    return settle_arrays(request, operands, fault);
}

enum gemmd_error attention_request_bind_front(struct attention_request *request, enum format format,
                                              struct body_front *front,
                                              struct attention_operands *operands,
                                              struct fault *fault)
{
    *operands = (struct attention_operands){.q = {.rank = 0}};
    if (format == FORMAT_NPY)
        return bind_npy(request, front, operands, fault);
    if (format == FORMAT_SAFETENSORS)
        return bind_safetensors(request, front, operands, fault);
    return bind_raw(request, front->bytes, front->length, operands, fault);
}

enum gemmd_error attention_request_bind(struct attention_request *request, enum format format,
                                        const void *body, uint64_t bytes,
                                        struct attention_operands *operands, struct fault *fault)
{
    struct body_front all = {.bytes = body, .length = bytes, .landed = bytes};
    enum gemmd_error code = attention_request_bind_front(request, format, &all, operands, fault);
    return code == GEMMD_OK ? attention_request_check_lens(request, operands, fault) : code;
}
