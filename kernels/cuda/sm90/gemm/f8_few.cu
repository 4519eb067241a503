/* The kernels of f8_e4m3 with precision full for few rows. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/gemm/gemm_streamed_f8.cuh"
#include "kernels/cuda/sm90/gemm/gemm_widened.cuh"

using namespace sm90;

namespace
{

/* What the two kinds of kernels have in common. */
template <class C> few_rows_kernel row_few(const void *function)
{
    few_rows_kernel kernel = {};
    kernel.function = function;
    kernel.rows = C::ROWS;
    kernel.columns = C::COLUMNS;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.row_blocks = 1;
    kernel.b_along_k = C::YK;
    kernel.f32_out = C::PROMOTED;
    return kernel;
}

template <int ROWS, int COLUMNS, bool PAIR, bool YK, bool PROMOTED>
few_rows_kernel row_streamed(uint32_t row_blocks, bool narrow, uint32_t k_min)
{
    constexpr int WARP_ROWS = COLUMNS == 32 ? ROWS / 2 : ROWS;
    using C = streamed_f8<ROWS, WARP_ROWS, COLUMNS, PAIR, YK, PROMOTED>;
    few_rows_kernel kernel = row_few<C>(reinterpret_cast<const void *>(&sm90_gemm_streamed_f8<C>));
    kernel.stage_k = C::BOXES * C::BOX_K;
    kernel.b_swizzle_bytes = YK ? 128 : COLUMNS;
    kernel.row_blocks = row_blocks;
    kernel.narrow = narrow;
    kernel.k_min = k_min;
    kernel.pair = PAIR;
    return kernel;
}

template <bool YK, bool PROMOTED> few_rows_kernel row_widened()
{
    using C = widened<YK, PROMOTED>;
    few_rows_kernel kernel = row_few<C>(reinterpret_cast<const void *>(&sm90_gemm_widened<C>));
    kernel.stage_k = C::STAGE_K;
    kernel.b_swizzle_bytes = YK ? 128 : 0;
    return kernel;
}

} // namespace

/* For any number of columns, and for few. */
#define ANY(ROWS, YK)                                                                              \
    row_streamed<ROWS, 64, false, YK, false>(1, false, 0),                                         \
        row_streamed<ROWS, 64, false, YK, true>(1, false, 0)
#define NARROW(ROWS, COLUMNS, PAIR, YK, ROW_BLOCKS, K_MIN)                                         \
    row_streamed<ROWS, COLUMNS, PAIR, YK, false>(ROW_BLOCKS, true, K_MIN),                         \
        row_streamed<ROWS, COLUMNS, PAIR, YK, true>(ROW_BLOCKS, true, K_MIN)

extern "C" const few_rows_kernel few_rows_kernels[] = {
    ANY(8, true),
    ANY(8, false),
    ANY(16, true),
    ANY(16, false),
    NARROW(32, 32, false, true, 1, 0),
    NARROW(16, 64, true, false, 2, 8192),
    NARROW(16, 64, false, false, 2, 0),
    ANY(32, true),
    ANY(32, false),
    NARROW(32, 64, false, true, 2, 0),
    NARROW(32, 64, false, false, 2, 0),
    row_widened<true, false>(),
    row_widened<true, true>(),
    row_widened<false, false>(),
    row_widened<false, true>(),
    few_rows_kernel{},
};
