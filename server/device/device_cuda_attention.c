#include "server/device/device_cuda_attention.h"

#include "kernels/cuda_error.h"
#include "proto/dtype.h"

static cudaError_t copy_in(const struct cuda_steps *steps, unsigned char *range,
                           struct device_part part, const void *from)
{
    return part.bytes == 0 ? cudaSuccess
                           : cudaMemcpyAsync(range + part.offset, from, part.bytes,
                                             cudaMemcpyDefault, steps->stream);
}

static cudaError_t copy_out(const struct cuda_steps *steps, const unsigned char *range,
                            struct device_part part, void *to)
{
    return part.bytes == 0 ? cudaSuccess
                           : cudaMemcpyAsync(to, range + part.offset, part.bytes, cudaMemcpyDefault,
                                             steps->stream);
}

static cudaError_t copy_all_in(const struct cuda_steps *steps, const struct attention_parts *parts,
                               const struct attention_problem *p, unsigned char *range)
{
    const struct {
        struct device_part part;
        const void *from;
    } copies[] = {{parts->lens_q, p->lens_q},
                  {parts->lens_kv, p->lens_kv},
                  {parts->q, p->q},
                  {parts->k, p->k},
                  {parts->v, p->v}};
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < sizeof copies / sizeof *copies && error == cudaSuccess; i++)
        error = copy_in(steps, range, copies[i].part, copies[i].from);
    return error;
}

static unsigned char *workspace_of(const struct attention_parts *parts, unsigned char *range)
{
    return parts->workspace.bytes > 0 ? range + parts->workspace.offset : NULL;
}

struct cuda_failure cuda_attention_enqueue(const struct cuda_steps *steps,
                                           const struct attention_parts *parts,
                                           const struct work *work, unsigned char *range)
{
    const struct attention_problem *p = &work->attention;
    const struct attention_problem problem = attention_parts_problem(parts, p, range);
    cudaError_t error = cudaEventRecord(steps->begun, steps->stream);
    if (error == cudaSuccess)
        error = copy_all_in(steps, parts, p, range);
    if (error == cudaSuccess)
        error = cudaEventRecord(steps->copied_in, steps->stream);
    if (error != cudaSuccess)
        return (struct cuda_failure){"the copy to the device", GEMMD_OK, error};

    const enum gemmd_error code =
        work->attends->run(steps->context, &problem, workspace_of(parts, range));
    if (code != GEMMD_OK)
        return (struct cuda_failure){work->attends->name, code, cudaGetLastError()};

    error = cudaEventRecord(steps->computed, steps->stream);
    if (error == cudaSuccess)
        error = copy_out(steps, range, parts->o, p->o);
    if (error == cudaSuccess)
        error = copy_out(steps, range, parts->lse, p->lse);
    if (error == cudaSuccess)
        error = cudaEventRecord(steps->ended, steps->stream);
    return (struct cuda_failure){error != cudaSuccess ? "the copy from the device" : NULL, GEMMD_OK,
                                 error};
}

static struct cuda_failure warm_one(const struct cuda_steps *steps,
                                    const struct gemm_device *device,
                                    const struct attention_problem *like, unsigned char *range,
                                    uint64_t bytes)
{
    static const struct device_span nowhere;
    struct attention_problem p = *like;
    struct attention_parts parts;
    const struct attention_kernel *kernel;
    p.q_strides = p.o_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.d);
    p.k_strides = p.v_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d);
    if (attention_select(device, "auto", &p, &kernel, NULL) != GEMMD_OK ||
        !attention_parts_place(&p, kernel, nowhere, &parts) || parts.total_bytes > bytes)
        return (struct cuda_failure){.call = NULL};
    p = attention_parts_problem(&parts, &p, range);
    /* What lies there may be NaN, of which every row would be computed the slow way. */
    const cudaError_t error = cudaMemsetAsync(range, 0, parts.total_bytes, steps->stream);
    if (error != cudaSuccess)
        return (struct cuda_failure){"cudaMemsetAsync", cuda_error_code((int)error), error};
    const enum gemmd_error code = kernel->run(steps->context, &p, workspace_of(&parts, range));
    if (code == GEMMD_OK)
        return (struct cuda_failure){.call = NULL};
    return (struct cuda_failure){kernel->name, code, cudaGetLastError()};
}

struct cuda_failure cuda_attention_warm(const struct cuda_steps *steps,
                                        const struct gemm_device *device, unsigned char *range,
                                        uint64_t bytes)
{
    static const uint64_t widths[] = {64, 96, 128, 192, 256};
    /* One query on many keys, a few, and enough for every multiprocessor. */
    static const struct {
        uint64_t batch, sq, skv;
    } shapes[] = {{1, 1, 4096}, {1, 100, 100}, {64, 256, 256}};
    struct cuda_failure failure = {.call = NULL};
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
        for (uint32_t i = 0; i < 2 * 3 * 5 && failure.call == NULL; i++) {
            const uint64_t width = widths[i / 6];
            const struct attention_problem problem = {.dtype = (enum gemmd_dtype)dtype,
                                                      .batch = shapes[i / 2 % 3].batch,
                                                      .heads = 4,
                                                      .kv_heads = 4,
                                                      .sq = shapes[i / 2 % 3].sq,
                                                      .skv = shapes[i / 2 % 3].skv,
                                                      .d = width,
                                                      .dv = width,
                                                      .causal = i % 2,
                                                      .scale = 0.125f};
            failure = warm_one(steps, device, &problem, range, bytes);
        }
    return failure;
}
