/* The kernels of f8_e4m3 with precision full for few rows. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/gemm/gemm_widened.cuh"

using namespace sm90;

namespace
{

template <int ROWS, bool YK, bool PROMOTED, int BLOCKS> few_rows_kernel row_few()
{
    using C = widened<ROWS, YK, PROMOTED, BLOCKS>;
    few_rows_kernel kernel = {};
    kernel.function = reinterpret_cast<const void *>(&sm90_gemm_widened<C>);
    kernel.design = {C::COLUMNS, 0, 1, 1};
    kernel.rows = ROWS;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.b_along_k = YK;
    kernel.f32_out = PROMOTED;
    kernel.blocks = BLOCKS;
    return kernel;
}

} // namespace

#define ROWS_OF(BLOCKS, ROWS)                                                                      \
    row_few<ROWS, true, false, BLOCKS>(), row_few<ROWS, false, false, BLOCKS>(),                   \
        row_few<ROWS, true, true, BLOCKS>(), row_few<ROWS, false, true, BLOCKS>()

extern "C" const few_rows_kernel few_rows_kernels[] = {
    ROWS_OF(1, 16), ROWS_OF(1, 32), ROWS_OF(1, 64),    ROWS_OF(2, 16),
    ROWS_OF(2, 32), ROWS_OF(2, 64), few_rows_kernel{},
};
