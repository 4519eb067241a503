#include "client/gemmctl/operands.h"

#include <stddef.h>

#include "proto/dtype.h"

enum { A, B, BIAS, C0, A_SCALE, B_SCALE };

static enum gemmd_dtype gemm_carrier(const void *argument, const struct tensor *before,
                                     uint32_t operand)
{
    const struct gemm_request *request = argument;
    if (operand == A || operand == B)
        return gemm_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    if (operand == A_SCALE || operand == B_SCALE)
        return GEMMD_F32;
    return gemm_request_given(request, "out")
               ? request->out
               : gemm_scales_default_out(request->scales, before[A].dtype);
}

static bool knows_sizes(const void *argument)
{
    return gemm_request_missing_dim(argument) == NULL;
}

/* Fills in the type and shape of an operand in a file of raw bytes. The type of bias and C0 is the
 * result's, which the request may not have yet. */
static bool gemm_raw_operand(const void *argument, const struct tensor *before, uint32_t operand,
                             struct tensor *out)
{
    struct gemm_request request = *(const struct gemm_request *)argument;
    if (operand == BIAS || operand == C0)
        request.out = gemm_carrier(&request, before, operand);
    return gemm_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &gemm_operand_table,
    .of = "a product",
    .sizes = "--m, --n and --k",
    .carrier = gemm_carrier,
    .knows_sizes = knows_sizes,
    .raw = gemm_raw_operand,
};

enum gemmd_error operands_open(struct operands *operands, const struct operand_paths *paths,
                               struct gemm_request *request, struct fault *fault)
{
    const struct tensor_files_wanted wanted = {
        .kind = &kind,
        .request = request,
        .paths = {paths->a, paths->b, paths->bias, paths->c0, paths->a_scale, paths->b_scale},
        .together =
            paths->a != NULL && paths->b == NULL && paths->resident_b == NULL ? A : GEMM_OPERANDS,
        .format = paths->format,
    };
    struct tensor_files *files = &operands->files;
    struct gemm_operands *bound = &operands->bound;
    enum gemmd_error code = tensor_files_open(files, &wanted, fault);
    if (code != GEMMD_OK)
        return code;
    *bound = (struct gemm_operands){
        .a = paths->resident_a != NULL ? *paths->resident_a : files->tensors[A],
        .b = paths->resident_b != NULL ? *paths->resident_b : files->tensors[B],
        .bias = files->tensors[BIAS],
        .c0 = files->tensors[C0],
        .a_scale = files->tensors[A_SCALE],
        .b_scale = files->tensors[B_SCALE],
    };
    /* The daemon knows whether its tensors have scales. */
    if (request->a[0] != '\0' && !operand_is_there(&bound->a_scale))
        request->resident_scales |= GEMM_OPERAND_A_SCALE;
    if (request->b[0] != '\0' && !operand_is_there(&bound->b_scale))
        request->resident_scales |= GEMM_OPERAND_B_SCALE;
    code = gemm_request_bind_tensors(request, bound, fault);
    return code == GEMMD_OK ? tensor_files_make_row_major(files, &kind, bound->all, fault) : code;
}

void operands_close(struct operands *operands)
{
    tensor_files_close(&operands->files);
}
