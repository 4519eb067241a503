#include "proto/tensor.h"

#include <string.h>
#include <strings.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/size.h"

static const struct {
    const char *name;
    enum format format;
} media_types[] = {
    [FORMAT_RAW] = {"application/octet-stream", FORMAT_RAW},
    [FORMAT_NPY] = {"application/x-npy", FORMAT_NPY},
    [FORMAT_SAFETENSORS] = {"application/vnd.safetensors", FORMAT_SAFETENSORS},
    {"application/x-www-form-urlencoded", FORMAT_RAW}, /* what curl --data-binary sends */
};

const char *format_media_type(enum format format)
{
    return media_types[format].name;
}

bool format_from_media_type(const char *media_type, enum format *format)
{
    media_type += strspn(media_type, " \t");
    size_t length = strcspn(media_type, "; \t");
    const char *rest = media_type + length + strspn(media_type + length, " \t");
    if (*rest != '\0' && *rest != ';')
        return false;
    for (size_t i = 0; i < sizeof media_types / sizeof media_types[0]; i++) {
        if (strlen(media_types[i].name) == length &&
            strncasecmp(media_types[i].name, media_type, length) == 0) {
            *format = media_types[i].format;
            return true;
        }
    }
    return false;
}

bool tensor_init(struct tensor *tensor, enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank,
                 const void *data)
{
    uint64_t bytes;
    if (rank > TENSOR_MAX_RANK || !size_tensor_bytes(dtype, dims, rank, &bytes))
        return false;
    struct tensor view = {.dtype = dtype, .rank = rank, .data = data, .bytes = bytes};
    for (uint32_t i = 0; i < rank; i++)
        view.dims[i] = dims[i];
    *tensor = view; /* assigned last, because `dims` may be tensor->dims */
    return true;
}

/* Transposes one plane of a column-major tensor: element (i, j) is at i + j * source_step in the
 * source and at i * out_step + j in the result, counted in elements of `size` bytes. The plane is
 * transposed in square tiles, so that the source and the result of one tile stay in the cache. */
static inline void transpose_plane(const unsigned char *source, unsigned char *out, uint64_t rows,
                                   uint64_t cols, uint64_t source_step, uint64_t out_step,
                                   size_t size)
{
    const uint64_t tile = 32;
    for (uint64_t i0 = 0; i0 < rows; i0 += tile) {
        uint64_t i1 = rows - i0 < tile ? rows : i0 + tile;
        for (uint64_t j0 = 0; j0 < cols; j0 += tile) {
            uint64_t j1 = cols - j0 < tile ? cols : j0 + tile;
            for (uint64_t i = i0; i < i1; i++)
                for (uint64_t j = j0; j < j1; j++)
                    memcpy(out + (i * out_step + j) * size, source + (i + j * source_step) * size,
                           size);
        }
    }
}

void tensor_copy_row_major(const struct tensor *tensor, void *out)
{
    if (tensor->bytes == 0)
        return;
    if (!tensor->fortran || tensor->rank < 2) {
        memcpy(out, tensor->data, tensor->bytes);
        return;
    }
    /* The first index is contiguous in the source, and the last index is contiguous in the result.
     * For each value of the indices between the two, the plane of the first and the last index is
     * transposed. */
    const uint32_t last = tensor->rank - 1;
    const size_t size = dtype_size(tensor->dtype);
    const uint64_t rows = tensor->dims[0], cols = tensor->dims[last];
    const uint64_t elements = tensor->bytes / size;
    const uint64_t source_step = elements / cols, out_step = elements / rows;
    const uint64_t planes = elements / rows / cols;
    for (uint64_t plane = 0; plane < planes; plane++) {
        /* `plane` numbers the values of the middle indices in the order of the source. */
        uint64_t out_at = 0, left = plane, stride = out_step;
        for (uint32_t d = 1; d < last; d++) {
            stride /= tensor->dims[d];
            out_at += left % tensor->dims[d] * stride;
            left /= tensor->dims[d];
        }
        const unsigned char *source = (const unsigned char *)tensor->data + plane * rows * size;
        unsigned char *target = (unsigned char *)out + out_at * size;
        switch (size) { /* in each case the size is a constant, so that memcpy becomes one move */
        case 1:
            transpose_plane(source, target, rows, cols, source_step, out_step, 1);
            break;
        case 2:
            transpose_plane(source, target, rows, cols, source_step, out_step, 2);
            break;
        case 4:
            transpose_plane(source, target, rows, cols, source_step, out_step, 4);
            break;
        default:
            transpose_plane(source, target, rows, cols, source_step, out_step, 8);
            break;
        }
    }
}

void tensor_shape_text(const struct tensor *tensor, char *out, uint32_t capacity)
{
    char text[TENSOR_MAX_RANK * (DECIMAL_MAX + 1)], *end = text;
    if (capacity == 0)
        return;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (i > 0)
            *end++ = ',';
        end = decimal_u64(end, tensor->dims[i]);
    }
    size_t length = (size_t)(end - text);
    if (length >= capacity)
        length = capacity - 1;
    memcpy(out, text, length);
    out[length] = '\0';
}
