/*
 * packed on Hopper: the blocks of a cluster have one slice of k each, and read one another's sums
 * from shared memory.
 */
#include "kernels/cuda/packed/packed.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sm90/wgmma.cuh"

namespace packed
{

/* Multiplies by wgmma, whose 64 rows are the columns of four warps. Each product runs while the
 * weights of the next are unpacked. Sums have the same bits as by mma.m16n8k16. */
struct by_wgmma {
    enum { IN_FLIGHT = 4 }; /* products */

    template <typename T, class W, int MMAS, int SPAN>
    static __device__ __forceinline__ void unit(const packed_layout &layout, unsigned group_steps,
                                                const places<W::BITS, MMAS> &places, unsigned at,
                                                group_values<T, W> &values, sums<MMAS> &sums)
    {
        using S = stage_parts<W::BITS, MMAS>;
        constexpr sm90::element E = std::is_same<T, __half>::value ? sm90::F16 : sm90::BF16;
        constexpr unsigned IN_BLOCK = 256 / W::BITS / PIECE;
        uint32_t words[4], a[IN_FLIGHT][4];
#pragma unroll
        for (unsigned span = 0; span < UNIT / SPAN; span++) {
            const unsigned group = SPAN == UNIT ? 0 : span * SPAN / group_steps;
            values.load(layout, places.scales + at + group * SCALE_PITCH,
                        places.zeros + at + group * ZERO_PITCH);
#pragma unroll
            for (unsigned i = 0; i < SPAN / 16; i++) {
                const unsigned piece = (span * SPAN + i * 16) / PIECE, tile = i % 2;
                if (piece % IN_BLOCK == 0 && tile == 0)
                    load_16(words, places.weights + at + piece / IN_BLOCK * PACKED_BLOCK_BYTES);
                if (i >= IN_FLIGHT)
                    sm90::wgmma_wait<IN_FLIGHT - 1>();
                values.load_of_mma(places.scales + at, piece * 2 + tile);
                unpack(words, piece % IN_BLOCK * 2 + tile, values.of_weights, a[i % IN_FLIGHT]);
                sm90::wgmma_fence();
                sm90::wgmma_registers<E, true>(
                    sums.part, a[i % IN_FLIGHT],
                    sm90::tile_descriptor<true, LINE>(places.rows + at +
                                                      piece / 2 * (S::ROWS * LINE)) +
                        (piece % 2 * 2 + tile) * sm90::descriptor_k_step<true>,
                    i != 0);
                sm90::wgmma_commit();
            }
            sm90::wgmma_wait<0>();
            sm90::pin(sums.part);
            add_scaled(sums, values.scale);
        }
    }

    static __device__ __forceinline__ void copies_arrived()
    {
        ptx::fence_async_proxy();
    }
};

template <int MMAS> struct one_cluster {
    static constexpr int BLOCKS = MMAS <= 2 ? 3 : 2; /* of a multiprocessor */

    static __host__ __device__ __forceinline__ unsigned blocks(unsigned slices)
    {
        return slices;
    }
    static __device__ __forceinline__ unsigned first(unsigned each)
    {
        return ptx::cluster_block_rank() * each;
    }
    static __device__ __forceinline__ unsigned end(unsigned each)
    {
        return (ptx::cluster_block_rank() + 1) * each;
    }

    __device__ __forceinline__ void end_unit(const division &, unsigned, sums<MMAS> &)
    {
    }

    /* Each block adds and stores a part of the elements, four columns a thread. */
    template <typename T>
    __device__ __forceinline__ void finish(const gemm_problem &p, uint64_t row0, unsigned column0,
                                           unsigned slices, float *shared,
                                           const sums<MMAS> &sums) const
    {
        constexpr unsigned IN_ROW = TILE / 4;
        const unsigned rows = (unsigned)min((uint64_t)(MMAS * ROWS_OF_MMA), p.m - row0);
        put_sums<MMAS, SUM_PITCH>(shared + threadIdx.x / 32 * PACKED_COLUMNS, sums.slice);
        ptx::cluster_sync();
        for (unsigned i = ptx::cluster_block_rank() * THREADS + threadIdx.x; i < rows * IN_ROW;
             i += slices * THREADS) {
            const unsigned row = i / IN_ROW, at = i % IN_ROW * 4;
            const uint32_t address = ptx::shared_address(&shared[row * SUM_PITCH + at]);
            uint4 of[PACKED_SLICES_MAX];
#pragma unroll
            for (unsigned s = 0; s < PACKED_SLICES_MAX; s++)
                of[s] = s < slices ? ptx::load_cluster_4(address, s) : make_uint4(0, 0, 0, 0);
            float all[4] = {};
#pragma unroll
            for (unsigned s = 0; s < PACKED_SLICES_MAX; s++) {
                all[0] += __uint_as_float(of[s].x);
                all[1] += __uint_as_float(of[s].y);
                all[2] += __uint_as_float(of[s].z);
                all[3] += __uint_as_float(of[s].w);
            }
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                if (column0 + at + j < p.n)
                    store<T>(p, row0 + row, column0 + at + j, all[j]);
        }
        ptx::cluster_sync(); /* other blocks have read this block's sums */
    }

    static enum gemmd_error launch(void (*kernel)(gemm_problem, division), dim3 grid,
                                   size_t shared_bytes, cudaStream_t stream, const gemm_problem &p,
                                   const division &division)
    {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {division.slices, 1, 1};
        cudaLaunchConfig_t config = {};
        config.gridDim = grid;
        config.blockDim = dim3(THREADS);
        config.dynamicSmemBytes = shared_bytes;
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        return cuda_error_code(cudaLaunchKernelEx(&config, kernel, p, division));
    }
};

using few_rows = kernels<one_cluster, width<1, by_mma>, width<2, by_mma>, width<4, by_wgmma>,
                         width<8, by_wgmma>>;

} // namespace packed

cudaError_t packed_sm90_prepare(void)
{
    return packed::few_rows::prepare();
}

enum gemmd_error packed_sm90_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    return packed::few_rows::launch(stream, *problem, packed_slices(&problem->packed));
}
