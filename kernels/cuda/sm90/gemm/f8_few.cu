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
    kernel.b_along_k = C::YK;
    kernel.f32_out = C::PROMOTED;
    return kernel;
}

template <int ROWS, int WARP_ROWS, int COLUMNS, bool YK, bool PROMOTED>
few_rows_kernel row_streamed()
{
    using C = streamed_f8<ROWS, WARP_ROWS, COLUMNS, YK, PROMOTED>;
    few_rows_kernel kernel = row_few<C>(reinterpret_cast<const void *>(&sm90_gemm_streamed_f8<C>));
    kernel.stage_k = C::BOXES * C::BOX_K;
    kernel.b_swizzle_bytes = YK ? 128 : COLUMNS;
    kernel.ahead_bytes = YK ? 32768 : 16384;
    return kernel;
}

template <bool YK, bool PROMOTED> few_rows_kernel row_widened()
{
    using C = widened<YK, PROMOTED>;
    few_rows_kernel kernel = row_few<C>(reinterpret_cast<const void *>(&sm90_gemm_widened<C>));
    kernel.stage_k = C::STAGE_K;
    kernel.b_swizzle_bytes = YK ? 128 : 0;
    kernel.ahead_bytes = 32768;
    return kernel;
}

} // namespace

#define STREAMED(ROWS, WARP_ROWS, COLUMNS, YK)                                                     \
    row_streamed<ROWS, WARP_ROWS, COLUMNS, YK, false>(),                                           \
        row_streamed<ROWS, WARP_ROWS, COLUMNS, YK, true>()

extern "C" const few_rows_kernel few_rows_kernels[] = {
    STREAMED(8, 8, 64, true),    STREAMED(8, 8, 64, false),  STREAMED(16, 16, 64, true),
    STREAMED(16, 16, 64, false), STREAMED(32, 16, 32, true), STREAMED(32, 32, 64, true),
    STREAMED(32, 32, 64, false), STREAMED(64, 32, 32, true), STREAMED(64, 32, 32, false),
    row_widened<true, false>(),  row_widened<true, true>(),  row_widened<false, false>(),
    row_widened<false, true>(),  few_rows_kernel{},
};
