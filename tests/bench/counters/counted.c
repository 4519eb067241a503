#include "tests/bench/counters/counted.h"

#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "tests/gpu/tile_kernels.h"

static struct gemm_problem counted_problem(enum gemmd_dtype dtype, bool transb, uint32_t n)
{
    struct gemm_problem p = {.dtype = dtype,
                             .out = dtype,
                             .transb = transb,
                             .m = n,
                             .n = n,
                             .k = n,
                             .batch = 1,
                             .alpha = 1};
    gemm_problem_contiguous(&p);
    return p;
}

static uint32_t list_patterns(struct counted counted[COUNTED_MAX])
{
    uint32_t count = 0;
    for (const struct pattern *p = patterns; p->name != NULL && count < COUNTED_MAX; p++) {
        struct counted *c = &counted[count++];
        *c = (struct counted){.pattern = p};
        snprintf(c->name, sizeof c->name, "%s", p->name);
    }
    return count;
}

static uint32_t list_rungs(uint32_t n, struct counted counted[COUNTED_MAX])
{
    static const char *const rungs[] = {
        "naive",          "tiled",       "tiled_padded", "double_buffered",
        "register_tiled", "tensor_core", "wgmma"};
    static const struct {
        enum gemmd_dtype dtype;
        bool transb;
    } operands[] = {{GEMMD_F32, false}, {GEMMD_F32, true}, {GEMMD_F16, false}};
    uint32_t count = 0;
    for (size_t o = 0; o < sizeof operands / sizeof *operands; o++) {
        const struct gemm_problem p = counted_problem(operands[o].dtype, operands[o].transb, n);
        for (size_t r = 0; r < sizeof rungs / sizeof *rungs; r++) {
            for (const struct operation_kernel *const *k =
                     operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
                 *k != NULL; k++) {
                if (strcmp((*k)->name, rungs[r]) != 0 || !(*k)->takes(&p) || count == COUNTED_MAX)
                    continue;
                struct counted *c = &counted[count++];
                *c = (struct counted){.kernel = *k, .problem = p};
                snprintf(c->name, sizeof c->name, "%s, %s%s", rungs[r], dtype_name(p.dtype),
                         p.transb ? ", B transposed" : "");
            }
        }
    }
    return count;
}

static uint32_t list_tiles(uint32_t n, struct counted counted[COUNTED_MAX])
{
    const struct gemm_problem f32 = counted_problem(GEMMD_F32, false, n);
    const struct gemm_problem f16 = counted_problem(GEMMD_F16, false, n);
    uint32_t count = 0;
    for (const struct tile_side *side = tile_sides; side->name != NULL && count < COUNTED_MAX;
         side++) {
        struct counted *c = &counted[count++];
        *c = (struct counted){.side = side, .problem = f32};
        snprintf(c->name, sizeof c->name, "%s, f32", side->name);
    }
    for (const struct operation_kernel *tile = tile_kernels;
         tile->name != NULL && count < COUNTED_MAX; tile++) {
        const bool takes_f32 = strcmp(tile_kernel_family(tile), "register_tiled") == 0;
        struct counted *c = &counted[count++];
        *c = (struct counted){.kernel = tile, .problem = takes_f32 ? f32 : f16};
        snprintf(c->name, sizeof c->name, "%s, %s", tile->name, takes_f32 ? "f32" : "f16");
    }
    for (const struct sm90_kernel *tile =
             sm90_kernels(GEMMD_F16, GEMM_PRECISION_FULL, GEMM_SCALES_NONE);
         tile->name != NULL && count < COUNTED_MAX; tile++) {
        if (!sm90_takes(tile, &f16))
            continue;
        struct counted *c = &counted[count++];
        *c = (struct counted){.tile = tile, .problem = f16};
        snprintf(c->name, sizeof c->name, "wgmma %s", tile->name);
    }
    return count;
}

uint32_t counted_list(const char *list, uint32_t n, struct counted counted[COUNTED_MAX])
{
    if (strcmp(list, "patterns") == 0)
        return list_patterns(counted);
    if (strcmp(list, "rungs") == 0)
        return list_rungs(n, counted);
    return strcmp(list, "tiles") == 0 ? list_tiles(n, counted) : 0;
}

bool counted_enqueue(const struct counted *counted, const struct counted_space *space)
{
    const struct cuda_context *cuda = cuda_context_of(space->context);
    struct gemm_problem p = counted->problem;
    struct sm90_launch launch;
    p.a = space->a;
    p.b = space->b;
    p.c = space->c;
    if (counted->pattern != NULL)
        return counted->pattern->enqueue(cuda->multiprocessors * PATTERN_BLOCKS_EACH,
                                         PATTERN_REPEATS, space->c, space->stream) == cudaSuccess;
    if (counted->side != NULL)
        return tile_side_enqueue(counted->side, space->a, space->b, space->c, (uint32_t)p.n,
                                 space->stream) == cudaSuccess;
    if (counted->tile != NULL)
        return sm90_prepare(&cuda->sm90, counted->tile, &p, NULL, &launch) == cudaSuccess &&
               sm90_enqueue(&launch, space->stream) == cudaSuccess;
    return operation_run(counted->kernel, space->context, &p, space->workspace) == GEMMD_OK;
}

unsigned long long counted_instructions(const struct counted *counted,
                                        const struct counted_space *space)
{
    const unsigned long long warps = (unsigned long long)PATTERN_BLOCKS_EACH * PATTERN_THREADS /
                                     32 * cuda_context_of(space->context)->multiprocessors;
    return counted->pattern != NULL ? warps * counted->pattern->instructions * PATTERN_REPEATS : 0;
}
