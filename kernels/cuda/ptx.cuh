/*
 * ptx.cuh - instructions of sm_90a for which CUDA C++ has no function, one wrapper each.
 *
 * References are to the PTX ISA manual: mbarrier (9.7.13.15), bulk tensor copies (9.7.9.25), wgmma
 * (9.7.15), setmaxnreg (9.7.19), griddepcontrol (9.7.13.13). Shared-memory operands are 32-bit
 * addresses of the shared window (shared_address). A "parity" is the low bit of the number of
 * phases that a barrier has completed: waiting on parity p returns once the phase of parity p is
 * over, so waiting on 1 returns at once on a fresh barrier.
 */
#ifndef KERNELS_CUDA_PTX_CUH
#define KERNELS_CUDA_PTX_CUH

#include <cuda.h>
#include <stdint.h>

namespace ptx
{

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* ---- mbarrier ---- */

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/* Makes initialised barriers visible to the cluster and to TMA. */
__device__ __forceinline__ void mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives at the barrier that lies at the same address in another block of the cluster. The arrival
 * orders no memory accesses for the other block: `.release.cluster` would compile to a fence of the
 * whole device each time. */
__device__ __forceinline__ void mbarrier_arrive_remote(uint32_t barrier, uint32_t block_rank)
{
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(barrier),
                 "r"(block_rank)
                 : "memory");
}

/* Arrives and makes the phase wait for `bytes` more bytes from TMA. */
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* Whether the phase of parity `parity` is over. Does not wait. */
__device__ __forceinline__ bool mbarrier_test_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* A wait that lasts this many tries (each sleeps in hardware for a while) can only be a fault of
 * the kernel; the store to address 0 turns a hang of the device into an error of the launch. (A
 * trap would too, but ptxas then no longer gives a warpgroup the registers of setmaxnreg: it
 * spills.) */
constexpr uint32_t WAIT_TRIES_MAX = 1u << 23;

__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t tries = 0;
    while (!mbarrier_try_wait(barrier, parity)) {
        if (++tries == WAIT_TRIES_MAX) {
            asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(tries) : "memory");
        }
    }
}

/* ---- named barriers, 0 ... 15; 0 is __syncthreads ---- */

/* Waits until `threads` threads, of whole warps, have called barrier_sync or barrier_arrive. */
__device__ __forceinline__ void barrier_sync(uint32_t barrier, uint32_t threads)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* Counts the calling threads for barrier_sync, and does not wait. */
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t threads)
{
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* ---- clusters ---- */

__device__ __forceinline__ uint32_t cluster_block_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ uint32_t cluster_blocks()
{
    uint32_t blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}

/* Stores a word at the address that `place` has in another block of the cluster, or in this one,
 * whose barrier at the address of `barrier` counts its 4 bytes. */
__device__ __forceinline__ void cluster_store(uint32_t place, float value, uint32_t barrier,
                                              uint32_t block_rank)
{
    asm volatile("{\n"
                 ".reg .b32 remote, counts;\n"
                 "mapa.shared::cluster.u32 remote, %0, %3;\n"
                 "mapa.shared::cluster.u32 counts, %2, %3;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"
                 " [remote], %1, [counts];\n"
                 "}" ::"r"(place),
                 "r"(__float_as_uint(value)), "r"(barrier), "r"(block_rank)
                 : "memory");
}

/* ---- bulk copies ---- */

/* Copies `bytes` bytes from global to shared memory. The addresses and `bytes` are multiples of 16;
 * the barrier counts the bytes. */
__device__ __forceinline__ void bulk_load(uint32_t destination, const void *source, uint32_t bytes,
                                          uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(destination),
                 "l"(source), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* ---- bulk tensor copies (TMA); boxes of 3 or 4 dimensions, innermost coordinate first ---- */

__device__ __forceinline__ void tensor_map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies a box from global to shared memory. Elements outside the tensor arrive as zeros, whose
 * bytes the barrier counts too. */
__device__ __forceinline__ void tensor_load(uint32_t destination, const CUtensorMap *map,
                                            uint32_t barrier, int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* The same for data that no other block reads, which is evicted from the L2 first. (Copies with an
 * explicit normal policy are slower than copies without a policy.) */
__device__ __forceinline__ void tensor_load_once(uint32_t destination, const CUtensorMap *map,
                                                 uint32_t barrier, int32_t x, int32_t y, int32_t z)
{
    asm volatile("{\n"
                 ".reg .b64 first;\n"
                 "createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n"
                 "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], first;\n"
                 "}" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Prefetches a box into the L2. Nothing waits for the prefetch, and later reads see what is written
 * to the box meanwhile (PTX ISA 9.7.9.27). */
__device__ __forceinline__ void tensor_prefetch(const CUtensorMap *map, int32_t x, int32_t y,
                                                int32_t z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* As tensor_load, for a 4-dimensional tensor. */
__device__ __forceinline__ void tensor_load(uint32_t destination, const CUtensorMap *map,
                                            uint32_t barrier, int32_t x, int32_t y, int32_t z,
                                            int32_t w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* Copies a box into every block of the cluster whose bit is set in `blocks`: to the same address,
 * and counted by the barrier at the same address, in each of them. */
__device__ __forceinline__ void tensor_load_multicast(uint32_t destination, const CUtensorMap *map,
                                                      uint32_t barrier, int32_t x, int32_t y,
                                                      int32_t z, uint16_t blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
                 : "memory");
}

/* The same for data that no other block reads, which is evicted from the L2 first. */
__device__ __forceinline__ void tensor_load_multicast_once(uint32_t destination,
                                                           const CUtensorMap *map, uint32_t barrier,
                                                           int32_t x, int32_t y, int32_t z,
                                                           uint16_t blocks)
{
    asm volatile("{\n"
                 ".reg .b64 first;\n"
                 "createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n"
                 "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, first;\n"
                 "}" ::"r"(destination),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
                 : "memory");
}

/* Copies a box from shared to global memory. Lines outside the tensor are not written. A line that
 * ends within the box is written in whole pieces of 16 bytes, so up to 15 bytes beyond its end.
 * Completion: bulk_commit and bulk_wait_read, by the thread that issued the copy. */
__device__ __forceinline__ void tensor_store(const CUtensorMap *map, uint32_t source, int32_t x,
                                             int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(source), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* tensor_store by those threads whose `issues` is true, without a branch. */
__device__ __forceinline__ void tensor_store_if(bool issues, const CUtensorMap *map,
                                                uint32_t source, int32_t x, int32_t y, int32_t z)
{
    asm volatile("{\n\t"
                 ".reg .pred issues;\n\t"
                 "setp.ne.u32 issues, %5, 0;\n\t"
                 "@issues cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3, %4}], [%1];\n\t"
                 "}" ::"l"(map),
                 "r"(source), "r"(x), "r"(y), "r"(z), "r"((uint32_t)issues)
                 : "memory");
}

__device__ __forceinline__ void bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all but the last PENDING committed groups of this thread have read their source. */
template <int PENDING> __device__ __forceinline__ void bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Orders this thread's ordinary accesses to shared memory before later ones of TMA and
 * of the tensor cores. */
__device__ __forceinline__ void fence_async_proxy()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Prefetches bytes into the L2. The address and the number are multiples of 16. Nothing depends on
 * the prefetch, so the bytes may still be written meanwhile. */
__device__ __forceinline__ void prefetch_bytes(const void *from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/* ---- shared-memory stores of matrices ---- */

/* Stores four 8x8 matrices of 16-bit elements (stmatrix). Lane l holds two neighbouring elements of
 * row l/4 of each matrix in v0 to v3, and gives the address of row l%8 of matrix l/8. */
__device__ __forceinline__ void store_matrices(uint32_t row_address, uint32_t v0, uint32_t v1,
                                               uint32_t v2, uint32_t v3)
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
        "r"(v0), "r"(v1), "r"(v2), "r"(v3)
        : "memory");
}

/* The same, each matrix transposed: lane l holds two neighbouring elements of column l/4. */
__device__ __forceinline__ void store_matrices_transposed(uint32_t row_address, uint32_t v0,
                                                          uint32_t v1, uint32_t v2, uint32_t v3)
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(
            row_address),
        "r"(v0), "r"(v1), "r"(v2), "r"(v3)
        : "memory");
}

__device__ __forceinline__ void store_shared_2(uint32_t address, uint32_t v0, uint32_t v1)
{
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(v0), "r"(v1) : "memory");
}

__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t v0, uint32_t v1,
                                               uint32_t v2, uint32_t v3)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v0), "r"(v1),
                 "r"(v2), "r"(v3)
                 : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t v)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ __forceinline__ uint32_t load_shared(uint32_t address)
{
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ uint2 load_shared_2(uint32_t address)
{
    uint2 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "r"(address)
                 : "memory");
    return v;
}

/* Loads 16 bytes from the same address in the shared memory of block `rank` of the cluster. */
__device__ __forceinline__ uint4 load_cluster_4(uint32_t address, uint32_t rank)
{
    uint4 v;
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %4, %5;\n"
                 "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [remote];\n"
                 "}"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address), "r"(rank)
                 : "memory");
    return v;
}

__device__ __forceinline__ uint4 load_shared_4(uint32_t address)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

/* ---- loads of global memory that nobody writes, issued here and not where the value is used ----
 */

__device__ __forceinline__ uint32_t load_global(const void *from)
{
    uint32_t v;
    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}

/* A pair of neighbouring elements of 16 bits, of which the first `count` exist. An element that
 * does not exist is that of `otherwise` if none exists, and else 0. */
__device__ __forceinline__ uint32_t load_global_pair(const void *from, uint32_t count,
                                                     uint32_t otherwise)
{
    uint32_t v = otherwise;
    asm volatile("{\n\t"
                 ".reg .pred one, two;\n\t"
                 "setp.eq.u32 one, %2, 1;\n\t"
                 "setp.gt.u32 two, %2, 1;\n\t"
                 "@two ld.global.nc.b32 %0, [%1];\n\t"
                 "@one ld.global.nc.u16 %0, [%1];\n\t"
                 "}"
                 : "+r"(v)
                 : "l"(from), "r"(count)
                 : "memory");
    return v;
}

/* ---- between the lanes of a warp ---- */

/* The value `v` of lane first + (this lane's number modulo 4). `first` is a multiple of 4 and the
 * same for all lanes, so that no lane has to compute the number of the lane that it reads. */
__device__ __forceinline__ uint32_t shuffle_from_quad(uint32_t v, uint32_t first)
{
    uint32_t other;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x31f, 0xffffffff;"
                 : "=r"(other)
                 : "r"(v), "r"(first));
    return other;
}

/* ---- kernels one after another ---- */

/* Waits until the kernels before this one in the stream have ended and their writes are seen. */
__device__ __forceinline__ void earlier_kernels_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Makes the compiler load an argument of the kernel into a register here. The first use of a line
 * of arguments takes a read of memory, which a later wait hides. */
__device__ __forceinline__ void argument_fetch(uint32_t value)
{
    asm volatile("" ::"r"(value));
}

/* From here on blocks of the next kernel may start where this one leaves room. */
__device__ __forceinline__ void later_kernels_allow()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* ---- registers ---- */

template <int COUNT> __device__ __forceinline__ void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

} // namespace ptx

#endif
