/* Files of packed weights: which tensors a format has, and the checks of their types, shapes and
 * values. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/gemm_request.h"
#include "proto/packed.h"
#include "proto/size.h"

const char *const packed_format_names[] = {
#define X(NAME, name) name,
    PACKED_FORMAT_MAP(X)
#undef X
        NULL};

/* The types that scales have in files of a format. */
enum scale_types { SCALES_WIDE, SCALES_E8M0, SCALES_E4M3 };

static const struct {
    const char *names[PACKED_ENTRIES_MAX]; /* of tensors, by role; NULL: there is no such tensor */
    const char *weights, *zeros;           /* types */
    uint32_t bits, bits_too;               /* width of the weights by default; another one, or 0 */
    uint32_t weight_bytes;                 /* of an element of the weights' tensor */
    bool needs_zeros, by_column;
    enum packed_element element;
    enum scale_types scales;
    uint64_t group; /* 0: the scales tell it */
} formats[] = {
    [PACKED_COMPRESSED_TENSORS] = {{"weight_packed", "weight_scale", "weight_zero_point",
                                    "weight_shape", "weight_g_idx", NULL},
                                   "I32",
                                   "I32",
                                   .bits = 4,
                                   .bits_too = 8,
                                   .weight_bytes = 4,
                                   .by_column = true},
#define GPTQ                                                                                       \
    {                                                                                              \
        {"qweight", "scales", "qzeros", NULL, "g_idx", NULL}, "I32", "I32",                        \
            .bits = 4, .bits_too = 8, .weight_bytes = 4, .needs_zeros = true                       \
    }
    [PACKED_GPTQ] = GPTQ,
    [PACKED_GPTQ_V2] = GPTQ,
    [PACKED_AWQ] = {{"qweight", "scales", "qzeros", NULL, NULL, NULL},
                    "I32",
                    "I32",
                    .bits = 4,
                    .weight_bytes = 4,
                    .needs_zeros = true},
    [PACKED_INT_QUANTIZED] = {{"weight", "weight_scale", "weight_zero_point", NULL, NULL, NULL},
                              "I8",
                              "I8",
                              .bits = 8,
                              .weight_bytes = 1,
                              .by_column = true},
    [PACKED_FLOAT_QUANTIZED] = {{"weight", "weight_scale", NULL, NULL, NULL, NULL},
                                "F8_E4M3",
                                .bits = 8,
                                .weight_bytes = 1,
                                .by_column = true,
                                .element = PACKED_F8_E4M3},
    [PACKED_MXFP4] = {{"weight_packed", "weight_scale", NULL, NULL, NULL, NULL},
                      "U8",
                      .bits = 4,
                      .weight_bytes = 1,
                      .by_column = true,
                      .element = PACKED_F4_E2M1,
                      .scales = SCALES_E8M0,
                      .group = 32},
#define NVFP4(weights_name, factor)                                                                \
    {                                                                                              \
        {weights_name, "weight_scale", NULL, NULL, NULL, factor}, "U8",                            \
            .bits = 4, .weight_bytes = 1, .by_column = true, .element = PACKED_F4_E2M1,            \
            .scales = SCALES_E4M3, .group = 16                                                     \
    }
    [PACKED_NVFP4] = NVFP4("weight_packed", "weight_global_scale"),
    [PACKED_NVFP4_MODELOPT] = NVFP4("weight", "weight_scale_2"),
};

bool packed_is_by_column(enum packed_format format)
{
    return formats[format].by_column;
}

bool packed_has_bits(enum packed_format format, uint32_t bits)
{
    return bits == 0 || bits == formats[format].bits || bits == formats[format].bits_too;
}

double packed_factor(const struct packed_file *file)
{
    return file->format == PACKED_NVFP4 ? 1.0 / (double)file->factor : (double)file->factor;
}

const struct safetensors_entry *packed_entry(const struct packed_file *file, enum packed_role role)
{
    for (uint32_t i = 0; i < file->count; i++)
        if (file->roles[i] == role)
            return &file->entries[i];
    return NULL;
}

uint64_t packed_data_bytes(const struct packed_file *file)
{
    uint64_t bytes = 0; /* no overflow: the tensors are in one file */
    for (uint32_t i = 0; i < file->count; i++)
        bytes += file->entries[i].tensor.bytes;
    return bytes;
}

/* Writes the names of the format's tensors: "qweight, scales, qzeros, g_idx". */
static void list_names(enum packed_format format, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t role = 0; role < PACKED_ENTRIES_MAX && length < capacity; role++)
        if (formats[format].names[role] != NULL)
            length += (size_t)snprintf(text + length, capacity - length, "%s%s",
                                       length > 0 ? ", " : "", formats[format].names[role]);
}

/* Sorts the tensors of a file by their roles. */
static enum gemmd_error sort_entries(const struct safetensors_entry *read, uint32_t count,
                                     struct packed_file *file, struct fault *fault)
{
    const char *const *names = formats[file->format].names;
    const char *format = packed_format_names[file->format];
    char list[96];
    list_names(file->format, list, sizeof list);
    file->count = 0;
    for (uint32_t role = 0; role < PACKED_ENTRIES_MAX; role++) {
        const bool is_needed = role == PACKED_WEIGHTS || role == PACKED_SCALES ||
                               role == PACKED_FACTOR ||
                               (role == PACKED_ZEROS && formats[file->format].needs_zeros);
        uint32_t i = 0;
        while (names[role] != NULL && i < count && strcmp(read[i].name, names[role]) != 0)
            i++;
        if (names[role] != NULL && i < count) {
            file->roles[file->count] = (enum packed_role)role;
            file->entries[file->count++] = read[i];
        } else if (is_needed && names[role] != NULL) {
            return fault_set(fault, GEMMD_ERR_MALFORMED, names[role],
                             "the tensor '%s' is missing; the tensors of %s are %s", names[role],
                             format, list);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t role = 0;
        while (role < PACKED_ENTRIES_MAX &&
               (names[role] == NULL || strcmp(read[i].name, names[role]) != 0))
            role++;
        if (role == PACKED_ENTRIES_MAX)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "'%.32s' is no tensor of %s, whose tensors are %s", read[i].name,
                             format, list);
    }
    return GEMMD_OK;
}

/* Checks that an entry has a type, and the shape `first`, `second`, or `first` if `second` is 0, or
 * that the entry is a scalar if both are 0. */
static enum gemmd_error check_entry(const struct safetensors_entry *entry, const char *type,
                                    uint64_t first, uint64_t second, struct fault *fault)
{
    const struct tensor *tensor = &entry->tensor;
    const uint32_t rank = second != 0 ? 2 : first != 0 ? 1 : 0;
    char got[TENSOR_MAX_RANK * 21], wanted[2 * 21];
    if (strcmp(safetensors_type(entry), type) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, entry->name, "%s is of type %s; it must be %s",
                         entry->name, safetensors_type(entry), type);
    if (tensor->rank == rank && (rank < 1 || tensor->dims[0] == first) &&
        (rank < 2 || tensor->dims[1] == second))
        return GEMMD_OK;
    tensor_shape_text(tensor, got, sizeof got);
    if (rank == 2)
        snprintf(wanted, sizeof wanted, "%" PRIu64 ",%" PRIu64, first, second);
    else
        snprintf(wanted, sizeof wanted, "%" PRIu64, first);
    return fault_set(fault, GEMMD_ERR_MALFORMED, entry->name,
                     "%s has the shape %s; beside the other tensors it must be %s", entry->name,
                     got, wanted);
}

/* Derives k and n from the weights' tensor. */
static enum gemmd_error find_sizes(struct packed_file *file, struct fault *fault)
{
    struct packed_layout *layout = &file->layout;
    const struct safetensors_entry *weights = &file->entries[PACKED_WEIGHTS];
    const uint64_t *dims = weights->tensor.dims;
    const uint64_t in_word = 8 * formats[file->format].weight_bytes / layout->bits;
    const char *type = formats[file->format].weights;
    if (strcmp(safetensors_type(weights), type) != 0 || weights->tensor.rank != 2)
        return fault_set(fault, GEMMD_ERR_MALFORMED, weights->name,
                         "%s is a tensor of %s with %" PRIu32
                         " dimensions; it must be of %s with 2 dimensions",
                         weights->name, safetensors_type(weights), weights->tensor.rank, type);
    uint64_t sizes[2] = {dims[0], dims[1]}; /* as the format orders k and n */
    const uint32_t words = file->format == PACKED_GPTQ || file->format == PACKED_GPTQ_V2 ? 0 : 1;
    const bool fits = size_mul(sizes[words], in_word, &sizes[words]);
    layout->k = sizes[packed_is_by_column(file->format) ? 1 : 0];
    layout->n = sizes[packed_is_by_column(file->format) ? 0 : 1];
    if (!fits || layout->k == 0 || layout->k > GEMM_DIM_MAX || layout->n == 0 ||
        layout->n > GEMM_DIM_MAX)
        return fault_set(fault, GEMMD_ERR_MALFORMED, weights->name,
                         "%s holds a matrix with k=%" PRIu64 " and n=%" PRIu64
                         "; both must be from 1 to %d",
                         weights->name, layout->k, layout->n, GEMM_DIM_MAX);
    if (layout->k % PACKED_K_MULTIPLE != 0 || layout->n % 8 != 0)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, weights->name,
                         "%s holds a matrix with k=%" PRIu64 " and n=%" PRIu64
                         "; k must be a multiple of %d and n of 8",
                         weights->name, layout->k, layout->n, PACKED_K_MULTIPLE);
    return GEMMD_OK;
}

/* Finds the type of the scales in the arrangement. */
static enum gemmd_error find_scale_type(struct packed_file *file, struct fault *fault)
{
    static const char *const allowed[] = {"F16, BF16 or F32", "U8 or F8_E8M0", "F8_E4M3"};
    const struct safetensors_entry *scales = &file->entries[PACKED_SCALES];
    const enum scale_types types = formats[file->format].scales;
    const enum gemmd_dtype dtype = scales->tensor.dtype;
    const bool is_wide = scales->other_type == NULL &&
                         (dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16);
    const bool is_right = types == SCALES_WIDE   ? is_wide
                          : types == SCALES_E8M0 ? scales->other_type != NULL && dtype == GEMMD_I8
                                                 : dtype == GEMMD_F8_E4M3;
    if (!is_right)
        return fault_set(fault, GEMMD_ERR_MALFORMED, scales->name,
                         "%s is of type %s; it must be %s", scales->name, safetensors_type(scales),
                         allowed[types]);
    file->layout.scale_dtype = is_wide ? dtype : GEMMD_BF16;
    return GEMMD_OK;
}

/* Whether a format offers groups of so many steps of k. */
static bool is_group(enum packed_format format, uint64_t group, uint64_t k)
{
    const uint64_t only = formats[format].group;
    return only != 0 ? group == only : group == 32 || group == 64 || group == 128 || group == k;
}

/* Derives the group and the type of the scales from their tensor. */
static enum gemmd_error find_groups(struct packed_file *file, struct fault *fault)
{
    struct packed_layout *layout = &file->layout;
    const struct safetensors_entry *scales = &file->entries[PACKED_SCALES];
    const struct tensor *tensor = &scales->tensor;
    const uint32_t of_groups = packed_is_by_column(file->format) ? 1 : 0;
    char got[TENSOR_MAX_RANK * 21], groups[32] = "32, 64, 128 or all";
    const enum gemmd_error code = find_scale_type(file, fault);
    if (code != GEMMD_OK)
        return code;
    tensor_shape_text(tensor, got, sizeof got);
    if (tensor->rank != 2 || tensor->dims[1 - of_groups] != layout->n ||
        tensor->dims[of_groups] == 0 || layout->k % tensor->dims[of_groups] != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, scales->name,
                         "%s has the shape %s; it must have the n=%" PRIu64
                         " columns and as many groups as divide k=%" PRIu64,
                         scales->name, got, layout->n, layout->k);
    layout->group = layout->k / tensor->dims[of_groups];
    if (formats[file->format].group != 0)
        snprintf(groups, sizeof groups, "%" PRIu64, formats[file->format].group);
    if (!is_group(file->format, layout->group, layout->k))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, scales->name,
                         "%s has %" PRIu64 " groups of %" PRIu64
                         " steps of k; groups must have %s steps",
                         scales->name, tensor->dims[of_groups], layout->group, groups);
    return GEMMD_OK;
}

static enum gemmd_error check_others(const struct packed_file *file, struct fault *fault)
{
    const struct packed_layout *layout = &file->layout;
    const char *zeros = formats[file->format].zeros;
    const uint64_t groups = layout->k / layout->group;
    const uint64_t words =
        layout->n * layout->bits / (8 * (uint64_t)formats[file->format].weight_bytes);
    const bool by_column = packed_is_by_column(file->format);
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = PACKED_ZEROS; i < file->count && code == GEMMD_OK; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        if (file->roles[i] == PACKED_ZEROS)
            code = check_entry(entry, zeros, by_column ? words : groups, by_column ? groups : words,
                               fault);
        else if (file->roles[i] == PACKED_FACTOR && entry->tensor.rank == 0)
            code = check_entry(entry, "F32", 0, 0, fault); /* a scalar */
        else if (file->roles[i] == PACKED_FACTOR)
            code = check_entry(entry, "F32", 1, 0, fault);
        else if (file->roles[i] == PACKED_SHAPE)
            code = check_entry(entry, "I64", 2, 0, fault);
        else
            code = check_entry(entry, "I32", layout->k, 0, fault);
    }
    return code;
}

/* Computes the offsets and the zero point. False: a size overflows. */
static bool lay_out(struct packed_file *file)
{
    struct packed_layout *layout = &file->layout;
    const int32_t half = 1 << (layout->bits - 1);
    const uint64_t columns = packed_columns(layout), groups = layout->k / layout->group;
    uint64_t blocks, scales, zeros;
    layout->has_zeros = packed_entry(file, PACKED_ZEROS) != NULL;
    layout->zero = layout->element != PACKED_INTEGER ? 0
                   : !layout->has_zeros              ? half
                   : file->format == PACKED_GPTQ     ? 1
                                                     : 0;
    return size_mul(columns / PACKED_COLUMNS, size_blocks(layout->k, packed_block_steps(layout)),
                    &blocks) &&
           size_mul(blocks, PACKED_BLOCK_BYTES, &layout->scale_offset) &&
           size_mul(groups, columns, &zeros) &&
           size_mul(zeros, dtype_size(layout->scale_dtype), &scales) &&
           size_add(layout->scale_offset, scales, &layout->zero_offset) &&
           size_align(layout->zero_offset, 256, &layout->zero_offset) &&
           size_add(layout->zero_offset, layout->has_zeros ? zeros : 0, &layout->bytes) &&
           layout->bytes <= INT64_MAX;
}

enum gemmd_error packed_find(enum packed_format format, uint32_t bits, const void *body,
                             uint64_t length, uint64_t total, struct packed_file *file,
                             struct fault *fault)
{
    struct body_front front = {.bytes = body, .length = total, .received = length};
    struct safetensors_entry entries[PACKED_ENTRIES_MAX];
    uint32_t count = 0;
    *file = (struct packed_file){.format = format,
                                 .layout = {.bits = bits != 0 ? bits : formats[format].bits,
                                            .element = formats[format].element},
                                 .factor = 1};
    enum gemmd_error code =
        safetensors_decode_weights(&front, entries, PACKED_ENTRIES_MAX, &count, fault);
    if (code == GEMMD_OK)
        code = sort_entries(entries, count, file, fault);
    if (code == GEMMD_OK)
        code = find_sizes(file, fault);
    if (code == GEMMD_OK)
        code = find_groups(file, fault);
    if (code == GEMMD_OK)
        code = check_others(file, fault);
    if (code == GEMMD_OK && !lay_out(file))
        code = fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the size of the packed weights does not fit in 64 bits");
    return code;
}

/* ---- values ---- */

/* Whether the element of the scales is finite and not negative. A scale of e8m0 has no sign. */
static bool is_scale(enum gemmd_dtype dtype, const unsigned char *at)
{
    uint32_t bits = 0, infinity = 0x7f800000u, sign = 0x80000000u;
    memcpy(&bits, at, dtype_size(dtype)); /* little-endian */
    if (dtype == GEMMD_I8)
        return bits != 0xff; /* NaN */
    if (dtype == GEMMD_F8_E4M3) {
        infinity = 0x7f; /* NaN; e4m3 has no infinity */
        sign = 0x80;
    } else if (dtype != GEMMD_F32) {
        infinity = dtype == GEMMD_F16 ? 0x7c00 : 0x7f80;
        sign = 0x8000;
    }
    return bits < infinity || bits == sign; /* the negative zero is a zero */
}

static enum gemmd_error check_scales(const struct packed_file *file, struct fault *fault)
{
    const struct safetensors_entry *scales = &file->entries[PACKED_SCALES];
    const uint64_t size = dtype_size(scales->tensor.dtype);
    const unsigned char *data = scales->tensor.data;
    for (uint64_t i = 0; i < scales->tensor.bytes / size; i++)
        if (!is_scale(scales->tensor.dtype, data + i * size))
            return fault_set(fault, GEMMD_ERR_MALFORMED, scales->name,
                             "element %" PRIu64 " of %s is negative, infinite or NaN; scales must "
                             "be finite and not negative",
                             i, scales->name);
    return GEMMD_OK;
}

/* GPTQ stores zero points less one, so that the largest stored integer stands for one that weights
 * cannot have. */
static enum gemmd_error check_zeros(const struct packed_file *file, struct fault *fault)
{
    const struct safetensors_entry *zeros = packed_entry(file, PACKED_ZEROS);
    const uint32_t bits = file->layout.bits, most = (1u << bits) - 1;
    if (zeros == NULL || file->format != PACKED_GPTQ)
        return GEMMD_OK;
    const unsigned char *data = zeros->tensor.data;
    for (uint64_t i = 0; i < zeros->tensor.bytes * 8 / bits; i++)
        if (((uint32_t)data[i * bits / 8] >> (i * bits % 8) & most) == most)
            return fault_set(fault, GEMMD_ERR_MALFORMED, zeros->name,
                             "integer %" PRIu64 " of %s is %" PRIu32
                             ", which with format=gptq is the zero point %" PRIu32
                             "; the largest is %" PRIu32,
                             i, zeros->name, most, most + 1, most);
    return GEMMD_OK;
}

static enum gemmd_error check_shape(const struct packed_file *file, struct fault *fault)
{
    const struct safetensors_entry *entry = packed_entry(file, PACKED_SHAPE);
    int64_t shape[2];
    if (entry == NULL)
        return GEMMD_OK;
    memcpy(shape, entry->tensor.data, sizeof shape);
    if (shape[0] == (int64_t)file->layout.n && shape[1] == (int64_t)file->layout.k)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, entry->name,
                     "%s is %" PRId64 ",%" PRId64 "; with bits=%" PRIu32
                     " the other tensors hold %" PRIu64 ",%" PRIu64,
                     entry->name, shape[0], shape[1], file->layout.bits, file->layout.n,
                     file->layout.k);
}

static enum gemmd_error check_order(const struct packed_file *file, struct fault *fault)
{
    const struct safetensors_entry *entry = packed_entry(file, PACKED_ORDER);
    if (entry == NULL)
        return GEMMD_OK;
    const unsigned char *data = entry->tensor.data;
    for (uint64_t p = 0; p < file->layout.k; p++) {
        const uint64_t wanted = p / file->layout.group;
        int32_t group;
        memcpy(&group, data + p * sizeof group, sizeof group);
        if (group < 0 || (uint64_t)group != wanted)
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED, entry->name,
                             "element %" PRIu64 " of %s is %" PRId32 "; groups must follow each "
                             "other, which makes it %" PRIu64,
                             p, entry->name, group, wanted);
    }
    return GEMMD_OK;
}

static enum gemmd_error find_factor(struct packed_file *file, struct fault *fault)
{
    const struct safetensors_entry *entry = packed_entry(file, PACKED_FACTOR);
    if (entry == NULL)
        return GEMMD_OK;
    memcpy(&file->factor, entry->tensor.data, sizeof file->factor);
    if (file->factor > 0 && file->factor <= FLT_MAX)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, entry->name,
                     "%s is %g; it must be positive and finite", entry->name, (double)file->factor);
}

enum gemmd_error packed_check(struct packed_file *file, struct fault *fault)
{
    enum gemmd_error code = check_scales(file, fault);
    if (code == GEMMD_OK)
        code = find_factor(file, fault);
    if (code == GEMMD_OK)
        code = check_zeros(file, fault);
    if (code == GEMMD_OK)
        code = check_shape(file, fault);
    if (code == GEMMD_OK)
        code = check_order(file, fault);
    return code;
}
