#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/freivalds/freivalds.h"
#include "kernels/cuda/grouped/grouped.h"
#include "kernels/cuda/mma/tensor_core.h"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda/packed/packed.h"
#include "kernels/cuda/reduce/reduce.h"
#include "kernels/cuda/simt/register_tiled.h"
#include "kernels/cuda/softmax/softmax.h"

/* The kernels in the order in which "auto" tries them (kernels/operation.h). The order follows from
 * measurements on an H100 (kernels/experiments, tests/bench/results; sm90/gemm/rates.c has
 * those of wgmma's tiles).
 *
 * On an H100 cuBLAS computes the problems for which wgmma is not preferred or which wgmma does not
 * take: f64; tf32 with A stored [k, m]; f32 with n or k below 512. For f32, register_tiled reaches
 * 1.1 of cuBLAS's speed at 256 x 256 x 256 but 0.3 at one row, and the choice must not depend on m.
 *
 * Only wgmma and scaled take problems with scales, and only packed takes packed weights.
 *
 * On other GPUs cuBLAS computes all but small problems. The speed of tensor_core on sm_80 has not
 * been measured. */
static const struct operation_kernel *const kernels[] = {
    &gemm_cuda_wgmma,          &gemm_cuda_cublas,      &gemm_cuda_grouped,
    &gemm_cuda_register_tiled, &gemm_cuda_tensor_core, &gemm_cuda_double_buffered,
    &gemm_cuda_tiled_padded,   &gemm_cuda_tiled,       &gemm_cuda_naive,
    &gemm_cuda_scaled,         &gemm_cuda_packed,      NULL};

const struct operation_kernel *const conv_cuda_kernels[] = {
    &conv_cuda_depthwise_strip,
    &conv_cuda_depthwise,
    &conv_cuda_implicit,
    &conv_cuda_product,
    &conv_cuda_tiled,
    &conv_cuda_naive,
    NULL,
};

static void cuda_destroy(struct gemm_context *base)
{
    struct cuda_context *context = cuda_context_of(base);
    if (context->blas_lt != NULL)
        (void)cublasLtDestroy(context->blas_lt);
    if (context->blas != NULL)
        (void)cublasDestroy(context->blas);
    (void)cudaFree(context->blas_workspace);
    (void)cudaFree(context->attention_next);
    grouped_space_destroy(context->grouped);
    free(context);
}

static enum gemmd_error cuda_fault(cudaError_t error, const char *call, struct fault *fault)
{
    return error == cudaSuccess
               ? GEMMD_OK
               : fault_set(fault, cuda_error_code(error), NULL, "%s: %s (%s)", call,
                           cudaGetErrorString(error), cudaGetErrorName(error));
}

static enum gemmd_error cublas_fault(cublasStatus_t status, const char *call, struct fault *fault)
{
    return status == CUBLAS_STATUS_SUCCESS
               ? GEMMD_OK
               : fault_set(fault, cuda_cublas_code(status), NULL, "%s: %s (%s)", call,
                           cublasGetStatusString(status), cublasGetStatusName(status));
}

static enum gemmd_error create_cublas(struct cuda_context *context, struct fault *fault)
{
    /* No TF32 unless asked for, and partial sums of f16 and bf16 stay in f32. */
    const cublasMath_t math = (cublasMath_t)((int)CUBLAS_DEFAULT_MATH |
                                             (int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    enum gemmd_error code = cuda_fault(cudaMalloc(&context->blas_workspace, CUBLAS_WORKSPACE_BYTES),
                                       "cudaMalloc", fault);
    if (code == GEMMD_OK)
        code = cublas_fault(cublasCreate(&context->blas), "cublasCreate", fault);
    if (code == GEMMD_OK)
        code = cublas_fault(cublasLtCreate(&context->blas_lt), "cublasLtCreate", fault);
    if (code == GEMMD_OK)
        code = cublas_fault(cublasSetMathMode(context->blas, math), "cublasSetMathMode", fault);
    if (code == GEMMD_OK)
        code =
            cublas_fault(cublasSetStream(context->blas, context->stream), "cublasSetStream", fault);
    if (code == GEMMD_OK) /* after cublasSetStream, which resets the workspace */
        code = cublas_fault(
            cublasSetWorkspace(context->blas, context->blas_workspace, CUBLAS_WORKSPACE_BYTES),
            "cublasSetWorkspace", fault);
    return code;
}

static enum gemmd_error create_grouped(struct cuda_context *context, struct fault *fault)
{
    enum gemmd_error code =
        cuda_fault(grouped_space_create(&context->grouped), "lists of products", fault);
    if (code == GEMMD_OK && grouped_prepare() != GEMMD_OK)
        code = cuda_fault(cudaGetLastError(), "cudaFuncSetAttribute", fault);
    return code;
}

static enum gemmd_error prepare_kernels(struct cuda_context *context, struct fault *fault)
{
    int device = 0, multiprocessors = 0, shared_bytes = 0;
    enum gemmd_error code = cuda_fault(cudaGetDevice(&device), "cudaGetDevice", fault);
    if (code == GEMMD_OK)
        code = cuda_fault(
            cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute", fault);
    if (code == GEMMD_OK)
        code = cuda_fault(
            cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "cudaDeviceGetAttribute", fault);
    context->multiprocessors = (uint32_t)multiprocessors;
    context->shared_bytes = (uint32_t)shared_bytes;
    if (code == GEMMD_OK && (register_tiled_prepare() != GEMMD_OK ||
                             tensor_core_prepare() != GEMMD_OK || packed_prepare() != GEMMD_OK))
        code = cuda_fault(cudaGetLastError(), "cudaFuncSetAttribute", fault);
    if (code == GEMMD_OK && attention_cuda_prepare(context) != GEMMD_OK)
        code = cuda_fault(cudaGetLastError(), "preparing the kernels of attention", fault);
    return code;
}

static enum gemmd_error open_sm90(struct cuda_context *context, struct fault *fault)
{
    cudaError_t error = sm90_device_open(&context->sm90);
    if (error == cudaErrorInvalidDevice) /* another architecture */
        return GEMMD_OK;
    if (error == cudaSuccess)
        error = sm90_register_tiled_prepare();
    if (error == cudaSuccess)
        error = grouped_f32_prepare();
    if (error == cudaSuccess)
        error = packed_sm90_prepare();
    if (error == cudaSuccess)
        error = packed_many_prepare();
    if (error == cudaSuccess)
        error = sm90_conv_device_open(&context->sm90_conv);
    return cuda_fault(error, "preparing the kernels of sm_90a", fault);
}

static enum gemmd_error cuda_create(void *stream, uint32_t threads, struct gemm_context **out,
                                    struct fault *fault)
{
    (void)threads;
    struct cuda_context *context = calloc(1, sizeof *context);
    *out = NULL;
    if (context == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a CUDA context");
    context->base.backend = &gemm_backend_cuda;
    context->stream = stream;
    enum gemmd_error code = create_cublas(context, fault);
    if (code == GEMMD_OK)
        code = create_grouped(context, fault);
    if (code == GEMMD_OK)
        code = open_sm90(context, fault);
    if (code == GEMMD_OK)
        code = prepare_kernels(context, fault);
    if (code != GEMMD_OK) {
        cuda_destroy(&context->base);
        return code;
    }
    *out = &context->base;
    return GEMMD_OK;
}

static enum gemmd_error cuda_move_rows(struct gemm_context *context, const struct gemm_moves *moves)
{
    return move_rows_launch(cuda_context_of(context)->stream, moves);
}

static enum gemmd_error cuda_check(struct gemm_context *context, const struct gemm_problem *problem,
                                   uint64_t seed, double *residuals, void *workspace)
{
    return freivalds_launch(cuda_context_of(context)->stream, problem, seed, residuals, workspace);
}

static enum gemmd_error cuda_check_small(struct gemm_context *context,
                                         struct operation_small_check *checks, uint32_t count)
{
    return freivalds_small_launch(cuda_context_of(context)->stream, checks, count);
}

/* The version of the library that was loaded, which need not be the one compiled against. Written
 * once, whoever asks first. */
static char library_name[32];

static void name_library(void)
{
    int major = 0, minor = 0, patch = 0;
    (void)cublasGetProperty(MAJOR_VERSION, &major);
    (void)cublasGetProperty(MINOR_VERSION, &minor);
    (void)cublasGetProperty(PATCH_LEVEL, &patch);
    snprintf(library_name, sizeof library_name, "cuBLAS %d.%d.%d", major, minor, patch);
}

static const char *cuda_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, name_library);
    return library_name;
}

/* Whether wgmma runs on the device: bit i of `without[OPERATION_GEMM]` is entry i of `kernels`. */
static bool has_wgmma(const struct gemm_device *device)
{
    uint32_t entry = 0;
    while (kernels[entry] != &gemm_cuda_wgmma)
        entry++;
    return device->compute_capability == gemm_cuda_wgmma.compute_capability &&
           (device->without[OPERATION_GEMM] & 1u << entry) == 0;
}

/* Whether rows are padded for a type. f8 is not, because wgmma converts it in any case. A resident
 * f32 matrix is not, because cuBLAS may compute with it and would have to pack it each time; nor is
 * a resident matrix of a 16-bit type where there is no wgmma. */
static bool wants_padding(const struct gemm_device *device, enum gemmd_dtype dtype, bool stays)
{
    const bool wgmma = has_wgmma(device);
    switch (dtype) {
    case GEMMD_F16:
    case GEMMD_BF16:
        return wgmma || !stays; /* tensor_core requires aligned rows too */
    case GEMMD_I8:
        return wgmma;
    case GEMMD_F32:
        return wgmma && !stays;
    default:
        return false;
    }
}

static uint64_t cuda_leading(const struct gemm_device *device, enum gemmd_dtype dtype,
                             uint64_t width, bool stays)
{
    const uint64_t width_max = UINT64_C(1) << 28; /* copies of rows want pitches below 2 GiB */
    return width <= width_max && wants_padding(device, dtype, stays) ? sm90_leading(width, dtype)
                                                                     : width;
}

const struct gemm_backend_entry gemm_backend_cuda = {
    .name = "cuda",
    .kernels = {[OPERATION_GEMM] = kernels,
                [OPERATION_ATTENTION] = attention_cuda_kernels,
                [OPERATION_CONV2D] = conv_cuda_kernels,
                [OPERATION_REDUCE] = reduce_cuda_kernels,
                [OPERATION_SOFTMAX] = softmax_cuda_kernels},
    .context_create = cuda_create,
    .context_destroy = cuda_destroy,
    .move_rows = cuda_move_rows,
    .check = cuda_check,
    .check_small = cuda_check_small,
    .library = cuda_library,
    .leading = cuda_leading,
};
