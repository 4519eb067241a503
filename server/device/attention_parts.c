#include "server/device/attention_parts.h"

#include "proto/dtype.h"
#include "proto/size.h"

static bool parts_add(struct attention_parts *parts, uint64_t bytes, struct device_part *part)
{
    uint64_t aligned;
    *part = (struct device_part){parts->total_bytes, bytes};
    return size_align(bytes, DEVICE_LAYOUT_ALIGNMENT, &aligned) &&
           size_add(parts->total_bytes, aligned, &parts->total_bytes);
}

/* The tensor spans from the first element of its first entry to the last element of its last. */
static bool place_tensor(struct attention_parts *parts, const struct attention_problem *problem,
                         const struct attention_strides *strides, uint64_t heads, uint64_t length,
                         uint64_t width, struct device_part *part)
{
    uint64_t entries, within, rows, elements, bytes;
    return problem->batch > 0 && heads > 0 && length > 0 &&
           size_mul(problem->batch - 1, strides->batch, &entries) &&
           size_mul(heads - 1, strides->head, &within) &&
           size_mul(length - 1, strides->row, &rows) && size_add(entries, within, &elements) &&
           size_add(elements, rows, &elements) && size_add(elements, width, &elements) &&
           size_mul(elements, dtype_size(problem->dtype), &bytes) && parts_add(parts, bytes, part);
}

/* Lengths are i32 [batch]. */
static bool place_lengths(struct attention_parts *parts, const struct attention_problem *problem,
                          struct device_part *part)
{
    return size_tensor_bytes(GEMMD_I32, &problem->batch, 1, &part->bytes) &&
           parts_add(parts, part->bytes, part);
}

static bool place_lse(struct attention_parts *parts, const struct attention_problem *problem)
{
    const uint64_t dims[] = {problem->batch, problem->heads, problem->sq};
    uint64_t bytes;
    return size_tensor_bytes(GEMMD_F32, dims, 3, &bytes) && parts_add(parts, bytes, &parts->lse);
}

bool attention_parts_place(const struct attention_problem *problem,
                           const struct attention_kernel *kernel, struct device_span there,
                           struct attention_parts *parts)
{
    const struct attention_problem *p = problem;
    uint64_t workspace_bytes;
    *parts = (struct attention_parts){.total_bytes = 0};
    return (p->lens_q == NULL || (place_lengths(parts, p, &parts->lens_q) &&
                                  place_lengths(parts, p, &parts->lens_kv))) &&
           place_tensor(parts, p, &p->q_strides, p->heads, p->sq, p->d, &parts->q) &&
           (device_span_has(there, p->k) ||
            place_tensor(parts, p, &p->k_strides, p->kv_heads, p->skv, p->d, &parts->k)) &&
           (device_span_has(there, p->v) ||
            place_tensor(parts, p, &p->v_strides, p->kv_heads, p->skv, p->dv, &parts->v)) &&
           place_tensor(parts, p, &p->o_strides, p->heads, p->sq, p->dv, &parts->o) &&
           (p->lse == NULL || place_lse(parts, p)) &&
           kernel->workspace_bytes(p, &workspace_bytes) &&
           parts_add(parts, workspace_bytes, &parts->workspace);
}

struct attention_problem attention_parts_problem(const struct attention_parts *parts,
                                                 const struct attention_problem *problem,
                                                 unsigned char *range)
{
    struct attention_problem moved = *problem;
    if (parts->lens_q.bytes > 0) {
        moved.lens_q = (const int32_t *)(void *)(range + parts->lens_q.offset);
        moved.lens_kv = (const int32_t *)(void *)(range + parts->lens_kv.offset);
    }
    moved.q = range + parts->q.offset;
    if (parts->k.bytes > 0)
        moved.k = range + parts->k.offset;
    if (parts->v.bytes > 0)
        moved.v = range + parts->v.offset;
    moved.o = range + parts->o.offset;
    if (parts->lse.bytes > 0)
        moved.lse = (float *)(void *)(range + parts->lse.offset);
    return moved;
}
