/* The kernels of f8_e4m3 with precision f8. */
#include "kernels/cuda/sm90/gemm/gemm_f8.cuh"
#include "kernels/cuda/sm90/gemm/table.cuh"

using namespace sm90;

namespace
{

template <int M, int N, int CONSUMERS, int CM, int CN> sm90_kernel row_f8(const char *name)
{
    using C = config<F8, M, N, CONSUMERS, COOPERATIVE, CM, CN, STAGE_CHAINS, true, true>;
    sm90_kernel kernel = row_of<C>(name);
    kernel.functions[0][1][1] = reinterpret_cast<const void *>(&sm90_gemm_f8<C>);
    return kernel;
}

} // namespace

extern "C" const sm90_kernel sm90_kernels_f8[] = {
    row_f8<192, 128, 3, 1, 1>("f8_192x128"),
    row_f8<192, 128, 3, 1, 2>("f8_192x128_1x2"),
    row_f8<128, 128, 2, 1, 1>("f8_128x128"),
    row_f8<128, 128, 2, 1, 2>("f8_128x128_1x2"),
    row_f8<128, 64, 2, 1, 1>("f8_128x64"),
    row_f8<64, 64, 1, 1, 1>("f8_64x64"),
    sm90_kernel{},
};
