/*
 * without.cuh - kernels whose code a build leaves out (GEMMD_CUDA_WITHOUT), to be compiled sooner.
 * Such a build is for tests that run no kernel of CUDA.
 */
#ifndef KERNELS_CUDA_SM90_WITHOUT_CUH
#define KERNELS_CUDA_SM90_WITHOUT_CUH

namespace sm90
{

#ifdef GEMMD_WITHOUT_CODE
constexpr bool WITHOUT_CODE = true;
#else
constexpr bool WITHOUT_CODE = false;
#endif

/* Takes the place of the kernel of configuration C. A launch is an error, so that no result is
 * wrong. */
template <class C> __global__ void without_code()
{
    __trap();
}

} // namespace sm90

#endif
