/* The kernels of i8 with scales of rows and columns: sums in 32-bit integers, exact modulo 2^32,
 * and all that follows in f32. */
#include "kernels/cuda/sm90/gemm/table.cuh"

using namespace sm90;

namespace
{

template <int M, int N, int CONSUMERS, schedule S, int CM, int CN>
sm90_kernel row_i8(const char *name)
{
    using C = config<I8, M, N, CONSUMERS, S, CM, CN, ONE_CHAIN, true, true, GEMM_SCALES_ROWCOL>;
    sm90_kernel kernel = row_of<C>(name);
    kernel.functions[0][1][1] = reinterpret_cast<const void *>(&sm90_gemm<C>);
    return kernel;
}

} // namespace

extern "C" const sm90_kernel sm90_kernels_i8_rowcol[] = {
    row_i8<128, 256, 2, COOPERATIVE, 1, 2>("i8_128x256_1x2"),
    row_i8<128, 128, 2, PINGPONG, 2, 1>("i8_128x128_pp_2x1"),
    row_i8<128, 64, 2, COOPERATIVE, 1, 1>("i8_128x64"),
    row_i8<64, 64, 1, COOPERATIVE, 1, 1>("i8_64x64"),
    sm90_kernel{},
};
