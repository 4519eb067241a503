/* The kernels of f8_e4m3. Half of a consumer's registers hold the sums of one stage, the other half
 * the sums they are added to, so tiles are narrower than those of the other types. */
#include "kernels/cuda/sm90/table.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_f8[] = {
    row<F8_E4M3, 128, 128, 2, COOPERATIVE, 1, 1, false>("f8_128x128"),
    row<F8_E4M3, 128, 128, 2, COOPERATIVE, 2, 1, false>("f8_128x128_2x1"),
    row<F8_E4M3, 128, 192, 2, COOPERATIVE, 1, 1, false>("f8_128x192"),
    row<F8_E4M3, 128, 192, 2, COOPERATIVE, 2, 1, false>("f8_128x192_2x1"),
    row<F8_E4M3, 64, 128, 2, PINGPONG, 2, 1, false>("f8_64x128_pp_2x1"),
    row<F8_E4M3, 64, 16, 1, COOPERATIVE, 1, 1, true>("f8_s64x16"),
    row<F8_E4M3, 64, 64, 1, COOPERATIVE, 1, 1, true>("f8_s64x64"),
    sm90_kernel{},
};
