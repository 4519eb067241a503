/*
 * tiled_launch.cuh - the host code of tiled.cuh: the shape for a number of rows and a width, and
 * the launches. Included by tiled_*.cu, one file for each type, and one for the groups of f32.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILED_LAUNCH_CUH
#define KERNELS_CUDA_ATTENTION_TILED_LAUNCH_CUH

#include "kernels/cuda/attention/tiled.cuh"

namespace attention_tiled
{

template <typename T>
static bool is_wide(const void *data, const struct attention_strides &strides, uint64_t width)
{
    return (uintptr_t)data % (4 * sizeof(T)) == 0 && width % 4 == 0 && strides.row % 4 == 0 &&
           strides.head % 4 == 0 && strides.batch % 4 == 0;
}

template <class S> static uint64_t parts_of(const struct attention_problem &p)
{
    return attention_tiled_tiles_of_head(S::TILE, &p) * p.batch * p.kv_heads;
}

template <class S, typename T>
static struct arguments arguments_of(const struct attention_problem &p)
{
    struct arguments a;
    a.problem = p;
    a.tiles = attention_tiled_tiles_of_head(S::TILE, &p);
    a.wide_q = is_wide<T>(p.q, p.q_strides, p.d);
    a.wide_k = is_wide<T>(p.k, p.k_strides, p.d);
    a.wide_v = is_wide<T>(p.v, p.v_strides, p.dv);
    a.wide_o = is_wide<T>(p.o, p.o_strides, p.dv);
    return a;
}

template <class S, typename T, bool GENERAL>
static enum gemmd_error run(cudaStream_t stream, enum attention_tiled_rows rows,
                            const struct attention_problem &p, struct operation_range tiles)
{
    const struct arguments a = arguments_of<S, T>(p);
    const dim3 grid((unsigned)(tiles.count < INT32_MAX ? tiles.count : INT32_MAX));
    return launch_with_memory(attention_tiled_kernel<S, T, GENERAL>, grid, dim3(S::THREADS),
                              attention_tiled_bytes(rows, p.d, p.dv), stream, a, tiles);
}

template <class S, typename T>
static enum gemmd_error run_group(cudaStream_t stream, enum attention_tiled_rows rows,
                                  const struct attention_member members[], uint32_t count)
{
    const struct attention_problem &any = *members[0].problem;
    const uint64_t shared_bytes = attention_tiled_bytes(rows, any.d, any.dv);
    return attention_group::launch_all<struct arguments>(
        members, count, [](const struct attention_member &m) { return parts_of<S>(*m.problem); },
        [](const struct attention_member &m) { return arguments_of<S, T>(*m.problem); },
        [=](const attention_group::list<struct arguments> &group) {
            return launch_with_memory(attention_tiled_group_kernel<S, T>, dim3(group.blocks),
                                      dim3(S::THREADS), shared_bytes, stream, group);
        });
}

using few_64 = shape<2, 4, 8, 6, true>;
using few_128 = shape<2, 4, 16, 4, true>;
using few_256 = shape<2, 4, 32, 3, true>;
using many_64 = shape<4, 8, 8, 3>;
using many_96 = shape<4, 8, 12, 2>;
using many_128 = shape<4, 8, 16, 2>;
using many_192 = shape<8, 4, 24, 1>;
using many_256 = shape<8, 4, 32, 1>;

/* Calls `act` with the shape for tiles of few rows and values of width `dv`. */
template <class Act> static enum gemmd_error with_few(uint64_t dv, const Act &act)
{
    return dv <= 64 ? act(few_64()) : dv <= 128 ? act(few_128()) : act(few_256());
}

/* Calls `act` with the shape for tiles of `rows` and values of width `dv`. */
template <class Act>
static enum gemmd_error with_shape(enum attention_tiled_rows rows, uint64_t dv, const Act &act)
{
    if (rows == ATTENTION_TILED_FEW)
        return with_few(dv, act);
    return dv <= 64    ? act(many_64())
           : dv <= 96  ? act(many_96())
           : dv <= 128 ? act(many_128())
           : dv <= 192 ? act(many_192())
                       : act(many_256());
}

template <typename T>
static enum gemmd_error run_any(cudaStream_t stream, enum attention_tiled_rows rows,
                                const struct attention_problem &p, struct operation_range tiles)
{
    if (attention_tiled_is_general(&p))
        return with_few(p.dv, [&](auto shape) {
            return run<decltype(shape), T, true>(stream, rows, p, tiles);
        });
    return with_shape(rows, p.dv, [&](auto shape) {
        return run<decltype(shape), T, false>(stream, rows, p, tiles);
    });
}

template <typename T>
static enum gemmd_error run_any_group(cudaStream_t stream, enum attention_tiled_rows rows,
                                      const struct attention_member members[], uint32_t count)
{
    return with_shape(rows, members[0].problem->dv, [=](auto shape) {
        return run_group<decltype(shape), T>(stream, rows, members, count);
    });
}

template <unsigned COUNT>
static enum gemmd_error allow(const void *const (&kernels)[COUNT], uint64_t shared_bytes)
{
    cudaError_t error = cudaSuccess;
    for (unsigned i = 0; i < COUNT && error == cudaSuccess; i++)
        error = cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)shared_bytes);
    return cuda_error_code((int)error);
}

template <typename T> static enum gemmd_error prepare(uint64_t shared_bytes)
{
    return allow({(const void *)attention_tiled_kernel<few_64, T, false>,
                  (const void *)attention_tiled_kernel<few_128, T, false>,
                  (const void *)attention_tiled_kernel<few_256, T, false>,
                  (const void *)attention_tiled_kernel<many_64, T, false>,
                  (const void *)attention_tiled_kernel<many_96, T, false>,
                  (const void *)attention_tiled_kernel<many_128, T, false>,
                  (const void *)attention_tiled_kernel<many_192, T, false>,
                  (const void *)attention_tiled_kernel<many_256, T, false>,
                  (const void *)attention_tiled_kernel<few_64, T, true>,
                  (const void *)attention_tiled_kernel<few_128, T, true>,
                  (const void *)attention_tiled_kernel<few_256, T, true>},
                 shared_bytes);
}

template <typename T> static enum gemmd_error prepare_group(uint64_t shared_bytes)
{
    return allow({(const void *)attention_tiled_group_kernel<few_64, T>,
                  (const void *)attention_tiled_group_kernel<few_128, T>,
                  (const void *)attention_tiled_group_kernel<few_256, T>,
                  (const void *)attention_tiled_group_kernel<many_64, T>,
                  (const void *)attention_tiled_group_kernel<many_96, T>,
                  (const void *)attention_tiled_group_kernel<many_128, T>,
                  (const void *)attention_tiled_group_kernel<many_192, T>,
                  (const void *)attention_tiled_group_kernel<many_256, T>},
                 shared_bytes);
}

} // namespace attention_tiled

#endif
