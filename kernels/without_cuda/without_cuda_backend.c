#include "kernels/backend.h"

/* The CUDA backend of a build without the CUDA toolkit: it has no kernels and creates no context.
 */

static enum gemmd_error no_cuda_create(void *stream, uint32_t threads,
                                       struct gemm_context **context, struct fault *fault)
{
    (void)stream, (void)threads;
    *context = NULL;
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                     "this gemmd was built without CUDA; --backend cpu is what it has");
}

static void no_cuda_destroy(struct gemm_context *context)
{
    (void)context;
}

static enum gemmd_error no_cuda_move_rows(struct gemm_context *context,
                                          const struct gemm_moves *moves)
{
    (void)context, (void)moves;
    return GEMMD_ERR_UNSUPPORTED;
}

static enum gemmd_error no_cuda_check(struct gemm_context *context,
                                      const struct gemm_problem *problem, uint64_t seed,
                                      double *residuals, void *workspace)
{
    (void)context, (void)problem, (void)seed, (void)residuals, (void)workspace;
    return GEMMD_ERR_UNSUPPORTED;
}

static const char *no_cuda_library(void)
{
    return "none";
}

const struct gemm_backend_entry gemm_backend_cuda = {
    .name = "cuda",
    .context_create = no_cuda_create,
    .context_destroy = no_cuda_destroy,
    .move_rows = no_cuda_move_rows,
    .check = no_cuda_check,
    .library = no_cuda_library,
};
