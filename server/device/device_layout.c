#include "server/device/device_layout.h"

#include "proto/dtype.h"
#include "proto/size.h"

struct matrix {
    enum gemmd_dtype dtype;
    uint64_t rows, columns, leading, stride; /* as stored: not transposed */
};

/* Bytes from the first element of the batch's first matrix to the last element of its last. */
static bool span_bytes(const struct matrix *matrix, uint64_t batch, uint64_t *out)
{
    uint64_t rows, problems, elements;
    return matrix->rows > 0 && batch > 0 && size_mul(matrix->rows - 1, matrix->leading, &rows) &&
           size_mul(batch - 1, matrix->stride, &problems) && size_add(rows, problems, &elements) &&
           size_add(elements, matrix->columns, &elements) &&
           size_mul(elements, dtype_size(matrix->dtype), out);
}

static bool layout_add(struct device_layout *layout, uint64_t bytes, struct device_part *part)
{
    uint64_t aligned;
    *part = (struct device_part){layout->total_bytes, bytes};
    return size_align(bytes, DEVICE_LAYOUT_ALIGNMENT, &aligned) &&
           size_add(layout->total_bytes, aligned, &layout->total_bytes);
}

static bool place_matrix(struct device_layout *layout, const struct matrix *matrix, uint64_t batch,
                         struct device_part *part)
{
    uint64_t bytes;
    return span_bytes(matrix, batch, &bytes) && layout_add(layout, bytes, part);
}

bool device_span_has(struct device_span span, const void *address)
{
    return span.start != NULL && (uintptr_t)address >= (uintptr_t)span.start &&
           (uintptr_t)address - (uintptr_t)span.start < span.bytes;
}

/* Adds A, B or C, which may be in the span `there` already. */
static bool place_movable(struct device_layout *layout, const struct matrix *matrix,
                          const void *data, bool any_leading, struct device_span there,
                          struct device_part *part, uint64_t *leading, uint64_t *stride)
{
    struct matrix packed = *matrix;
    if (!device_span_has(there, data))
        return place_matrix(layout, matrix, layout->problem.batch, part);
    packed.leading = matrix->columns;
    if (!size_mul(matrix->rows, matrix->columns, &packed.stride))
        return false;
    if (any_leading || (matrix->leading == packed.leading && matrix->stride == packed.stride))
        return true;
    *leading = packed.leading;
    *stride = packed.stride;
    return place_matrix(layout, &packed, layout->problem.batch, part);
}

/* Adds the scales of A or B, unless they are in the span `there`. */
static bool place_scale(struct device_layout *layout, const struct gemm_problem *p, bool of_b,
                        struct device_span there, struct device_part *part)
{
    const float *data = of_b ? p->b_scale.data : p->a_scale.data;
    uint64_t elements, bytes;
    if (data == NULL || device_span_has(there, data))
        return true;
    return gemm_scale_span(p, of_b, &elements) && size_mul(elements, sizeof *data, &bytes) &&
           layout_add(layout, bytes, part);
}

bool device_layout(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                   struct device_span there, struct device_layout *layout)
{
    const struct gemm_problem *p = problem;
    struct matrix a = {p->dtype, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->lda,
                       p->stride_a};
    struct matrix b = {p->dtype, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->ldb,
                       p->stride_b};
    struct matrix bias = {p->out, 1, p->n, 0, 0};
    struct matrix c0 = {p->out, p->m, p->n, p->ldc0, p->stride_c0};
    struct matrix c = {p->out, p->m, p->n, p->ldc, p->stride_c};
    uint64_t workspace_bytes;

    const bool any = kernel->any_leading;
    *layout = (struct device_layout){.problem = *problem};
    struct gemm_problem *q = &layout->problem;
    return place_movable(layout, &a, p->a, any, there, &layout->a, &q->lda, &q->stride_a) &&
           place_movable(layout, &b, p->b, any, there, &layout->b, &q->ldb, &q->stride_b) &&
           (p->bias == NULL || place_matrix(layout, &bias, 1, &layout->bias)) &&
           (p->c0 == NULL || place_matrix(layout, &c0, p->batch, &layout->c0)) &&
           place_scale(layout, p, false, there, &layout->a_scale) &&
           place_scale(layout, p, true, there, &layout->b_scale) &&
           place_movable(layout, &c, p->c, any, there, &layout->c, &q->ldc, &q->stride_c) &&
           kernel->workspace_bytes(q, &workspace_bytes) &&
           layout_add(layout, workspace_bytes, &layout->workspace);
}

/* Sets the leading dimension of a matrix of `padded` to `wanted` elements, and its stride to match,
 * if that makes the kernel's workspace smaller. The matrix has `rows` by `columns` elements;
 * `leading` and `stride` point into `padded`. Returns whether they were changed. */
static bool pad_matrix(struct gemm_problem *padded, const struct gemm_kernel *kernel, uint64_t rows,
                       uint64_t columns, uint64_t wanted, uint64_t *leading, uint64_t *stride)
{
    const uint64_t leading_before = *leading, stride_before = *stride;
    uint64_t packed, apart, before, after;
    if (wanted <= columns || *leading != columns || !size_mul(rows, columns, &packed) ||
        *stride != packed || !size_mul(rows, wanted, &apart) ||
        !kernel->workspace_bytes(padded, &before))
        return false;
    *leading = wanted;
    *stride = apart;
    if (kernel->workspace_bytes(padded, &after) && after < before)
        return true;
    *leading = leading_before;
    *stride = stride_before;
    return false;
}

/* Adds a staging part for all rows of a batch, without gaps. */
static bool place_staging(struct device_layout *layout, uint64_t stride, struct device_part *part)
{
    uint64_t bytes;
    return size_mul(stride, layout->problem.batch, &bytes) &&
           size_mul(bytes, dtype_size(layout->problem.dtype), &bytes) &&
           layout_add(layout, bytes, part);
}

bool device_layout_padded(const struct gemm_problem *problem, const struct gemm_kernel *kernel,
                          struct device_leading wanted, struct device_span there,
                          struct device_layout *layout)
{
    const struct gemm_problem *p = problem;
    struct gemm_problem padded = *problem;
    bool a_padded = false, b_padded = false;
    if (kernel->any_leading && !device_span_has(there, p->a))
        a_padded = pad_matrix(&padded, kernel, p->transa ? p->k : p->m, p->transa ? p->m : p->k,
                              wanted.a, &padded.lda, &padded.stride_a);
    if (kernel->any_leading && !device_span_has(there, p->b))
        b_padded = pad_matrix(&padded, kernel, p->transb ? p->n : p->k, p->transb ? p->k : p->n,
                              wanted.b, &padded.ldb, &padded.stride_b);
    return device_layout(&padded, kernel, there, layout) &&
           (!a_padded || place_staging(layout, p->stride_a, &layout->a_staging)) &&
           (!b_padded || place_staging(layout, p->stride_b, &layout->b_staging));
}

struct gemm_problem device_layout_problem(const struct device_layout *layout, unsigned char *range)
{
    struct gemm_problem moved = layout->problem;
    if (layout->a.bytes > 0)
        moved.a = range + layout->a.offset;
    if (layout->b.bytes > 0)
        moved.b = range + layout->b.offset;
    if (layout->bias.bytes > 0)
        moved.bias = range + layout->bias.offset;
    if (layout->c0.bytes > 0)
        moved.c0 = range + layout->c0.offset;
    if (layout->a_scale.bytes > 0)
        moved.a_scale.data = (const float *)(const void *)(range + layout->a_scale.offset);
    if (layout->b_scale.bytes > 0)
        moved.b_scale.data = (const float *)(const void *)(range + layout->b_scale.offset);
    if (layout->c.bytes > 0)
        moved.c = range + layout->c.offset;
    return moved;
}
