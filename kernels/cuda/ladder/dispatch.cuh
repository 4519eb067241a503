/*
 * dispatch.cuh - turns the types and the transposes of a problem, which are known at run time, into
 * template arguments of the ladder's kernels.
 *
 * Each function calls `launch` once and returns its result. The arguments of `launch` are empty
 * objects, whose type says which template argument to use:
 *
 *   with_types(p, [&](auto in, auto out) {
 *       using In = typename decltype(in)::type;
 *       ...
 *   });
 *   with_transposes(p, [&](auto transa, auto transb) { kernel<transa, transb> ... });
 */
#ifndef KERNELS_CUDA_LADDER_DISPATCH_CUH
#define KERNELS_CUDA_LADDER_DISPATCH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

#include "kernels/gemm.h"

namespace ladder
{

template <typename T> struct tag {
    using type = T;
};

/* The type of C for operands of f32. */
template <class Launch>
static enum gemmd_error with_out_of_f32(const struct gemm_problem &p, const Launch &launch)
{
    return p.out == GEMMD_F16    ? launch(tag<__half>())
           : p.out == GEMMD_BF16 ? launch(tag<__nv_bfloat16>())
                                 : launch(tag<float>());
}

/* The type of the operands and the type of C, for f64, f32, f16 and bf16. */
template <class Launch>
static enum gemmd_error with_types(const struct gemm_problem &p, const Launch &launch)
{
    switch (p.dtype) {
    case GEMMD_F64:
        return launch(tag<double>(), tag<double>());
    case GEMMD_F32:
        return with_out_of_f32(p, [&](auto out) { return launch(tag<float>(), out); });
    case GEMMD_F16:
        return p.out == GEMMD_F16 ? launch(tag<__half>(), tag<__half>())
                                  : launch(tag<__half>(), tag<float>());
    case GEMMD_BF16:
        return p.out == GEMMD_BF16 ? launch(tag<__nv_bfloat16>(), tag<__nv_bfloat16>())
                                   : launch(tag<__nv_bfloat16>(), tag<float>());
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

/* Whether A and whether B is transposed. */
template <class Launch>
static enum gemmd_error with_transposes(const struct gemm_problem &p, const Launch &launch)
{
    const std::true_type yes;
    const std::false_type no;
    return p.transa ? (p.transb ? launch(yes, yes) : launch(yes, no))
                    : (p.transb ? launch(no, yes) : launch(no, no));
}

} // namespace ladder

#endif
