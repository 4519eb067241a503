/* The kernels of f8_e4m3 with precision full for few rows. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/gemm/gemm_widened.cuh"

using namespace sm90;

namespace
{

template <int ROWS, int COLUMNS, bool YK, bool PROMOTED> few_rows_kernel row_few()
{
    /* Longer stages are faster for these only (kernels/experiments/scales.md). */
    constexpr int BOXES = ROWS == 16 && COLUMNS == 32 && YK ? 2 : 1;
    using C = widened<ROWS, COLUMNS, YK, PROMOTED, BOXES>;
    few_rows_kernel kernel = {};
    kernel.function = reinterpret_cast<const void *>(&sm90_gemm_widened<C>);
    kernel.rows = ROWS;
    kernel.columns = COLUMNS;
    kernel.stage_k = BOXES * C::BOX_K;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.b_along_k = YK;
    kernel.f32_out = PROMOTED;
    return kernel;
}

} // namespace

#define ROWS_OF(ROWS, COLUMNS)                                                                     \
    row_few<ROWS, COLUMNS, true, false>(), row_few<ROWS, COLUMNS, false, false>(),                 \
        row_few<ROWS, COLUMNS, true, true>(), row_few<ROWS, COLUMNS, false, true>()

extern "C" const few_rows_kernel few_rows_kernels[] = {
    ROWS_OF(16, 32), ROWS_OF(32, 32), ROWS_OF(64, 32),   ROWS_OF(16, 64),
    ROWS_OF(32, 64), ROWS_OF(64, 64), few_rows_kernel{},
};
