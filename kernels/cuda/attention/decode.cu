/* The kernels of decode.cuh, for one attention and for groups, and their launches. */
#include "kernels/cuda/attention/decode_join.cuh"
#include "kernels/cuda/attention/decode_kv_split.cuh"
#include "kernels/cuda/attention/group.cuh"

namespace attention_decode
{

/* Grid: KV splits of all heads of K and V of all entries; tiles of rows. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    kv_split_kernel(const __grid_constant__ arguments p)
{
    compute_kv_split<C>(p, blockIdx.x, blockIdx.y);
}

/* Grid: the blocks of kv_split_kernel for all problems of the group, one after another. */
template <class C>
__global__ void __launch_bounds__(C::THREADS, C::BLOCKS)
    kv_split_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<C::THREADS>(blockIdx.x, p);
    const uint32_t all = p.a.batch * (p.a.heads / p.a.group) * p.kv_splits;
    compute_kv_split<C>(p, number % all, number / all);
}

/* One block for each row. */
template <typename Element, int WIDTH>
__global__ void __launch_bounds__(JOIN_THREADS) join_kernel(const __grid_constant__ arguments p)
{
    join<Element, WIDTH>(p, blockIdx.x);
}

template <typename Element, int WIDTH>
__global__ void __launch_bounds__(JOIN_THREADS)
    join_group_kernel(const __grid_constant__ attention_group::list<arguments> group)
{
    __shared__ arguments p;
    const uint32_t number = group.fetch<JOIN_THREADS>(blockIdx.x, p);
    join<Element, WIDTH>(p, number);
}

template <class C> static cudaError_t prepare_alone()
{
    return cudaFuncSetAttribute(kv_split_kernel<C>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)C::SHARED_BYTES);
}

template <class C> static cudaError_t prepare()
{
    const cudaError_t error = prepare_alone<C>();
    return error == cudaSuccess ? cudaFuncSetAttribute(kv_split_group_kernel<C>,
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       (int)C::SHARED_BYTES)
                                : error;
}

static arguments arguments_of(const struct attention_problem *problem, void *workspace)
{
    arguments p = {};
    attention_arguments_fill(problem, &p.a);
    p.kv_splits = attention_decode_kv_splits(problem);
    p.kv_heads = attention_decode_kv_heads(problem);
    p.rows = p.a.sq * p.a.group;
    p.columns = (p.a.dv + 3) / 4 * 4;
    p.k_pieces = attention_aligned(&problem->k_strides, 8) && (uintptr_t)p.a.k % 16 == 0;
    p.v_pieces = attention_aligned(&problem->v_strides, 8) && (uintptr_t)p.a.v % 16 == 0;
    p.whole_rows = p.k_pieces && p.v_pieces && p.a.d == p.a.dv;
    p.q_pairs = attention_aligned(&problem->q_strides, 2) && (uintptr_t)p.a.q % 4 == 0;
    p.sums = static_cast<float *>(workspace);
    p.states = reinterpret_cast<float2 *>(p.sums + (uint64_t)p.a.batch * p.a.heads * p.a.sq *
                                                       p.kv_splits * p.columns);
    return p;
}

static uint32_t units_of(const arguments &p)
{
    return p.a.batch * (p.a.heads / p.a.group);
}

template <class C> static uint32_t tiles_of(const arguments &p)
{
    return (p.rows + C::QUERIES - 1) / C::QUERIES;
}

template <class C> static enum gemmd_error run(cudaStream_t stream, const arguments &p)
{
    const unsigned units = units_of(p);
    const enum gemmd_error code =
        launch_overlapped(kv_split_kernel<C>, dim3(units * p.kv_splits, tiles_of<C>(p)),
                          dim3(C::THREADS), C::SHARED_BYTES, stream, p);
    return code != GEMMD_OK
               ? code
               : launch_overlapped(join_kernel<typename C::Element, C::WIDTH>, dim3(units * p.rows),
                                   dim3(JOIN_THREADS), 0, stream, p);
}

/* The number of blocks of the first or of the second kernel, whichever is larger. */
static uint64_t parts_of(const struct attention_problem &p)
{
    const uint64_t rows = p.sq * (p.heads / p.kv_heads);
    const uint64_t kv_splits =
        (uint64_t)attention_decode_kv_splits(&p) * ((rows + ROWS_MIN - 1) / ROWS_MIN);
    return p.batch * p.kv_heads * (kv_splits > rows ? kv_splits : rows);
}

/* Numbers the blocks of all problems of a list, by `count` for each problem. */
template <class Count>
static void number_parts(attention_group::list<arguments> &group, const Count &count)
{
    group.blocks = 0;
    for (uint32_t i = 0; i < group.count; i++) {
        group.first[i] = group.blocks;
        group.blocks += count(group.problems[i]);
    }
}

template <class C>
static enum gemmd_error run_list(cudaStream_t stream, attention_group::list<arguments> &group)
{
    number_parts(group,
                 [](const arguments &p) { return units_of(p) * p.kv_splits * tiles_of<C>(p); });
    enum gemmd_error code = launch_overlapped(kv_split_group_kernel<C>, dim3(group.blocks),
                                              dim3(C::THREADS), C::SHARED_BYTES, stream, group);
    if (code != GEMMD_OK)
        return code;
    number_parts(group, [](const arguments &p) { return units_of(p) * p.rows; });
    return launch_overlapped(join_group_kernel<typename C::Element, C::WIDTH>, dim3(group.blocks),
                             dim3(JOIN_THREADS), 0, stream, group);
}

template <class C>
static enum gemmd_error run_group(cudaStream_t stream, const struct attention_member members[],
                                  uint32_t count)
{
    return attention_group::launch_all<arguments>(
        members, count, [](const struct attention_member &m) { return parts_of(*m.problem); },
        [](const struct attention_member &m) { return arguments_of(m.problem, m.workspace); },
        [=](attention_group::list<arguments> &group) { return run_list<C>(stream, group); });
}

/* Calls `act` with the configuration for heads of `width` columns and `rows` rows. All
 * configurations give the same bits. */
template <typename Element, class Act>
static auto with_config(uint64_t width, uint64_t rows, const Act &act)
{
    if (width <= 64)
        return rows <= 8    ? act(config<Element, 64, 8>())
               : rows <= 16 ? act(config<Element, 64, 16>())
                            : act(config<Element, 64, 32>());
    if (width <= 128)
        return rows <= 8    ? act(config<Element, 128, 8>())
               : rows <= 16 ? act(config<Element, 128, 16>())
                            : act(config<Element, 128, 32>());
    return rows <= 8 ? act(config<Element, 256, 8>()) : act(config<Element, 256, 16>());
}

/* A configuration with three blocks on a multiprocessor where with_config has two. What a block
 * does before its first load and after its last is then hidden by two other blocks. That is faster
 * if the launch has many times as many blocks as the device holds at once: the last blocks, which
 * run while multiprocessors fall idle, take longer. */
template <typename Element> using three_blocks = config<Element, 256, 8, 3>;
constexpr uint64_t MANY_BLOCKS = 4096;

template <typename Element>
static enum gemmd_error launch_alone(cudaStream_t stream, const arguments &p)
{
    const uint32_t width = max(p.a.d, p.a.dv);
    if (width > 128 && p.rows <= 8 && (uint64_t)units_of(p) * p.kv_splits >= MANY_BLOCKS)
        return run<three_blocks<Element>>(stream, p);
    return with_config<Element>(width, p.rows,
                                [&](auto config) { return run<decltype(config)>(stream, p); });
}

template <typename Element>
static enum gemmd_error launch_group(cudaStream_t stream, const struct attention_member members[],
                                     uint32_t count)
{
    const struct attention_problem &any = *members[0].problem;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct attention_problem &p = *members[i].problem;
        rows = max(rows, p.sq * (p.heads / p.kv_heads));
    }
    return with_config<Element>(max(any.d, any.dv), rows, [=](auto config) {
        return run_group<decltype(config)>(stream, members, count);
    });
}

template <typename Element> static cudaError_t prepare_type()
{
    cudaError_t error = cudaSuccess;
    for (const uint64_t width : {64, 128, 256})
        for (const uint64_t rows : {8, 16, 32})
            if (error == cudaSuccess)
                error = with_config<Element>(
                    width, rows, [](auto config) { return prepare<decltype(config)>(); });
    if (error == cudaSuccess)
        error = prepare_alone<three_blocks<Element>>();
    return error;
}

} // namespace attention_decode

enum gemmd_error attention_decode_prepare(void)
{
    cudaError_t error = attention_decode::prepare_type<__half>();
    if (error == cudaSuccess)
        error = attention_decode::prepare_type<__nv_bfloat16>();
    return cuda_error_code((int)error);
}

enum gemmd_error attention_decode_launch(cudaStream_t stream,
                                         const struct attention_problem *problem, void *workspace)
{
    using namespace attention_decode;
    const arguments p = arguments_of(problem, workspace);
    return problem->dtype == GEMMD_F16 ? launch_alone<__half>(stream, p)
                                       : launch_alone<__nv_bfloat16>(stream, p);
}

enum gemmd_error attention_decode_launch_group(cudaStream_t stream,
                                               const struct attention_member members[],
                                               uint32_t count)
{
    using namespace attention_decode;
    return members[0].problem->dtype == GEMMD_F16
               ? launch_group<__half>(stream, members, count)
               : launch_group<__nv_bfloat16>(stream, members, count);
}
