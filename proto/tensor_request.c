#include "proto/tensor_request.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/gemm_scales.h"
#include "proto/npy.h"
#include "proto/number.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"

bool tensor_name_valid(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length <= GEMM_TENSOR_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
               length;
}

void tensor_request_init(struct tensor_request *request)
{
    *request = (struct tensor_request){.dtype = GEMMD_F32};
}

static bool read_replicate(const char *value, void *out)
{
    *(bool *)out = strcmp(value, "all") == 0;
    return *(bool *)out || strcmp(value, "one") == 0;
}

static bool read_bits(const char *value, void *out)
{
    uint64_t bits = 0;
    if (!number_u64(value, &bits) || (bits != 4 && bits != 8))
        return false;
    *(uint32_t *)out = (uint32_t)bits;
    return true;
}

static const struct parameter_values dtype_values = {.dtypes = (1u << GEMMD_DTYPE_COUNT) - 1};
static const struct parameter_values shape_values = {
    .read = array_shape_read,
    .allowed = "1 to 8 whole numbers from 1 to 2147483647 with commas between them"};
static const struct parameter_values replicate_values = {.read = read_replicate,
                                                         .allowed = "one or all"};
static const struct parameter_values format_values = {.choices = packed_format_names};
static const struct parameter_values bits_values = {.read = read_bits, .allowed = "4 or 8"};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(tensor_request, name, values)
    P(dtype, dtype_values),         P(shape, shape_values),        P(evictable, parameter_flag),
    P(replicate, replicate_values), P(contiguous, parameter_flag), P(format, format_values),
    P(bits, bits_values),
#undef P
};

const struct parameter_table tensor_parameter_table = {"a tensor", parameters,
                                                       sizeof parameters / sizeof parameters[0],
                                                       offsetof(struct tensor_request, given)};

static bool has_dtype(const struct tensor_request *request)
{
    return parameter_given(&tensor_parameter_table, request, "dtype");
}

static enum gemmd_error check_format(const struct tensor_request *request, enum format format,
                                     struct fault *fault)
{
    const char *of_plain = request->dtype != GEMMD_F32 ? "dtype"
                           : request->shape.rank != 0  ? "shape"
                           : request->contiguous       ? "contiguous"
                                                       : NULL;
    const char *name = packed_format_names[request->format];
    if (format != FORMAT_SAFETENSORS)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "format",
                         "format=%s needs a safetensors body, with Content-Type: %s", name,
                         format_media_type(FORMAT_SAFETENSORS));
    if (of_plain != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, of_plain, "%s must be left out with format=%s",
                         of_plain, name);
    if (!packed_has_bits(request->format, request->bits))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "bits",
                         "format=%s is offered with bits=%d, not with bits=%" PRIu32, name,
                         request->bits == 4 ? 8 : 4, request->bits);
    return GEMMD_OK;
}

enum gemmd_error tensor_request_check(const struct tensor_request *request, enum format format,
                                      struct fault *fault)
{
    if (request->format != PACKED_NONE)
        return check_format(request, format, fault);
    if (request->bits != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bits",
                         "bits is for packed weights, which need the parameter format");
    if (format == FORMAT_RAW && request->shape.rank == 0)
        return fault_set(
            fault, GEMMD_ERR_MALFORMED, "shape",
            "shape is missing; raw bodies need it, such as shape=512,512" PARAMETER_OR_FORMAT);
    return GEMMD_OK;
}

bool tensor_request_raw_bytes(const struct tensor_request *request, uint64_t *out)
{
    struct tensor tensor;
    if (!tensor_init(&tensor, request->dtype, request->shape.dims, request->shape.rank, NULL))
        return false;
    *out = tensor.bytes;
    return true;
}

struct raw_length {
    const struct tensor_request *request;
    uint64_t bytes;
};

static bool fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    const struct raw_length *length = context;
    struct tensor tensor;
    return tensor_init(&tensor, dtype, length->request->shape.dims, length->request->shape.rank,
                       NULL) &&
           tensor.bytes == length->bytes;
}

static enum gemmd_error find_raw(const struct tensor_request *request, const void *body,
                                 uint64_t total, struct tensor *tensor, struct fault *fault)
{
    char shape[TENSOR_MAX_RANK * 21];
    if (!tensor_init(tensor, request->dtype, request->shape.dims, request->shape.rank, body))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "shape",
                         "the tensor's size does not fit in 64 bits");
    if (tensor->bytes == total)
        return GEMMD_OK;
    tensor_shape_text(tensor, shape, sizeof shape);
    struct raw_length length = {request, total};
    struct operand_guess guess = {.text = ""};
    operand_guess_dtypes(&guess, request->dtype, fits_with_dtype, &length);
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the body is %" PRIu64 " bytes; shape %s in %s takes %" PRIu64 "%s%s%s", total,
                     shape, dtype_name(request->dtype), tensor->bytes,
                     guess.text[0] != '\0' ? "; " : "", guess.text,
                     guess.text[0] != '\0' ? "?" : "");
}

static enum gemmd_error find_npy(const struct tensor_request *request, const void *body,
                                 uint64_t length, uint64_t total, struct tensor *tensor,
                                 struct fault *fault)
{
    const enum gemmd_dtype carrier = has_dtype(request) ? request->dtype : GEMMD_DTYPE_COUNT;
    uint64_t header_bytes = 0;
    if (length == total) {
        enum gemmd_error code = npy_decode(body, length, carrier, tensor, &header_bytes, fault);
        if (code == GEMMD_OK && header_bytes < length)
            code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the body is %" PRIu64 " bytes; its .npy array takes %" PRIu64, total,
                             header_bytes);
        return code;
    }
    enum gemmd_error code = npy_decode_header(body, length, carrier, tensor, &header_bytes, fault);
    if (code != GEMMD_OK)
        return code;
    if (tensor->bytes != total - header_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the body is %" PRIu64 " bytes; its .npy header of %" PRIu64
                         " bytes says that %" PRIu64 " follow it",
                         total, header_bytes, tensor->bytes);
    tensor->data = (const unsigned char *)body + header_bytes;
    return GEMMD_OK;
}

/* Returns whether the first `length` bytes of a safetensors file hold the whole header, or enough
 * of the header to refuse the file. The first 8 bytes of the file are the length of the header. */
static bool has_header(const unsigned char *body, uint64_t length)
{
    uint64_t header_bytes = 0;
    if (length < 8)
        return false;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | body[i];
    return header_bytes > SAFETENSORS_HEADER_LIMIT || header_bytes <= length - 8;
}

static enum gemmd_error find_safetensors(const void *body, uint64_t length, uint64_t total,
                                         struct tensor *tensor, struct tensor *scale,
                                         struct fault *fault)
{
    struct safetensors_entry entries[2];
    uint32_t count = 0;
    if (length < total && !has_header(body, length))
        return GEMMD_ERR_CONFLICT;
    enum gemmd_error code = safetensors_decode(body, total, entries, 2, &count, fault);
    if (code != GEMMD_OK)
        return code;
    if (count == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: there is no tensor in the body");
    const bool scale_first = strcmp(entries[0].name, "scale") == 0;
    const struct safetensors_entry *of_tensor = &entries[count == 2 && scale_first ? 1 : 0];
    const struct safetensors_entry *of_scale = &entries[scale_first ? 0 : 1];
    *tensor = of_tensor->tensor;
    if (count == 1)
        return GEMMD_OK;
    if (strcmp(of_tensor->name, "tensor") != 0 || strcmp(of_scale->name, "scale") != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "safetensors: the body holds '%.32s' and '%.32s'; it may hold one tensor, "
                         "or 'tensor' and 'scale'",
                         entries[0].name, entries[1].name);
    *scale = of_scale->tensor;
    if (scale->rank == 0) /* a scalar is one factor for all: alpha */
        return fault_set(fault, GEMMD_ERR_MALFORMED, "scale",
                         "the scale is a scalar; a factor of the whole product is alpha");
    return GEMMD_OK;
}

/* Checks the type and shape of the body's array, and compares both with the parameters. */
static enum gemmd_error check_array(const struct tensor_request *request,
                                    const struct tensor *tensor, struct fault *fault)
{
    char shape[TENSOR_MAX_RANK * 21];
    const struct array_shape *asked = &request->shape;
    bool same = asked->rank == 0 || asked->rank == tensor->rank;
    if (tensor->rank == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the array is a scalar; a tensor has 1 to 8 dimensions");
    tensor_shape_text(tensor, shape, sizeof shape);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 1 || tensor->dims[i] > GEMM_DIM_MAX)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                             "the array has the shape %s; each of its dimensions must be from 1 to "
                             "%d",
                             shape, GEMM_DIM_MAX);
        same = same && (asked->rank == 0 || asked->dims[i] == tensor->dims[i]);
    }
    if (!same)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "shape",
                         "the array has the shape %s, which is not what shape says; leave it out "
                         "or make them agree",
                         shape);
    if (has_dtype(request) && tensor->dtype != request->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "dtype is %s and the array is of type %s; leave it out or make them agree",
                         dtype_name(request->dtype), dtype_name(tensor->dtype));
    return GEMMD_OK;
}

enum gemmd_error tensor_request_find(const struct tensor_request *request, enum format format,
                                     const void *body, uint64_t length, uint64_t total,
                                     struct tensor *tensor, struct tensor *scale,
                                     struct fault *fault)
{
    *scale = (struct tensor){.rank = 0};
    if (format == FORMAT_RAW)
        return find_raw(request, body, total, tensor, fault);
    enum gemmd_error code = format == FORMAT_NPY
                                ? find_npy(request, body, length, total, tensor, fault)
                                : find_safetensors(body, length, total, tensor, scale, fault);
    if (code == GEMMD_OK)
        code = check_array(request, tensor, fault);
    return code == GEMMD_OK && scale->rank > 0 ? gemm_scales_fit(tensor, scale, fault) : code;
}
