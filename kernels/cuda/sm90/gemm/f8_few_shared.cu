/* The kernels of f8_e4m3 with precision full for few rows that widen B in shared memory. */
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/gemm/gemm_widened_shared.cuh"

using namespace sm90;

namespace
{

template <int ROWS, int COLUMNS, bool YK, bool PROMOTED, int TEAMS, int BOXES, int CLUSTER>
few_rows_kernel row_shared()
{
    constexpr int BLOCKS = 2;
    using C = widened_shared<ROWS, COLUMNS, YK, PROMOTED, TEAMS, BOXES, CLUSTER, BLOCKS>;
    few_rows_kernel kernel = {};
    kernel.function = reinterpret_cast<const void *>(&sm90_gemm_widened_shared<C>);
    kernel.design = {COLUMNS, TEAMS, BOXES, CLUSTER};
    kernel.rows = ROWS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.threads = C::THREADS;
    kernel.b_along_k = YK;
    kernel.f32_out = PROMOTED;
    return kernel;
}

} // namespace

#define LAYOUTS_OF(ROWS, COLUMNS, PROMOTED, ...)                                                   \
    row_shared<ROWS, COLUMNS, true, PROMOTED, __VA_ARGS__>(),                                      \
        row_shared<ROWS, COLUMNS, false, PROMOTED, __VA_ARGS__>()
/* The other arguments: teams, boxes and blocks of a cluster. */
#define ROWS_OF(COLUMNS, PROMOTED, ...)                                                            \
    LAYOUTS_OF(16, COLUMNS, PROMOTED, __VA_ARGS__),                                                \
        LAYOUTS_OF(32, COLUMNS, PROMOTED, __VA_ARGS__),                                            \
        LAYOUTS_OF(64, COLUMNS, PROMOTED, __VA_ARGS__)

/* With one team, two sums of 64 columns do not fit in the registers. */
extern "C" const few_rows_kernel few_rows_shared_kernels[] = {
    ROWS_OF(32, false, 1, 1, 1),
    ROWS_OF(64, false, 1, 1, 1),
    ROWS_OF(32, false, 2, 1, 1),
    ROWS_OF(64, false, 2, 1, 1),
    ROWS_OF(32, false, 2, 2, 1),
    ROWS_OF(32, true, 2, 1, 1),
    ROWS_OF(64, true, 2, 1, 1),
    ROWS_OF(32, true, 2, 2, 1),
    ROWS_OF(32, false, 2, 1, 2),
    ROWS_OF(64, false, 2, 1, 2),
    ROWS_OF(32, false, 2, 2, 2),
    LAYOUTS_OF(64, 32, false, 2, 1, 4),
    few_rows_kernel{},
};
