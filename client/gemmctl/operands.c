#include "client/gemmctl/operands.h"

#include <stddef.h>

#include "proto/dtype.h"

enum { A, B, BIAS, C0, OPERANDS };

static enum gemmd_dtype carrier(const void *argument, const struct tensor *before, uint32_t operand)
{
    const struct gemm_request *request = argument;
    if (operand == A || operand == B)
        return gemm_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    return gemm_request_given(request, "out") ? request->out : dtype_default_out(before[A].dtype);
}

static bool knows_sizes(const void *argument)
{
    return gemm_request_missing_dim(argument) == NULL;
}

/* The dimensions of a raw operand as the parameters say them. */
static uint32_t raw_dims(const struct gemm_request *request, uint32_t operand, uint64_t dims[3])
{
    const uint64_t m = request->m, n = request->n, k = request->k;
    const bool ta = request->transa, tb = request->transb;
    const uint64_t rows[] = {ta ? k : m, tb ? n : k, 1, m};
    const uint64_t columns[] = {ta ? m : k, tb ? k : n, n, n};
    uint32_t rank = 0;
    if (operand == BIAS) {
        dims[0] = n;
        return 1;
    }
    if (request->batch > 1)
        dims[rank++] = request->batch;
    dims[rank++] = rows[operand];
    dims[rank++] = columns[operand];
    return rank;
}

static bool raw(const void *argument, const struct tensor *before, uint32_t operand,
                struct tensor *out)
{
    const struct gemm_request *request = argument;
    uint64_t dims[3];
    uint32_t rank = raw_dims(request, operand, dims);
    enum gemmd_dtype dtype =
        operand == A || operand == B ? request->dtype : carrier(request, before, operand);
    return tensor_init(out, dtype, dims, rank, NULL);
}

static const struct tensor_files_kind kind = {
    .count = OPERANDS,
    .names = {"a", "b", "bias", "c"},
    .titles = {"A", "B", "bias", "C0"},
    .of = "a product",
    .sizes = "--m, --n and --k",
    .carrier = carrier,
    .knows_sizes = knows_sizes,
    .raw = raw,
};

enum gemmd_error operands_open(struct operands *operands, const struct operand_paths *paths,
                               struct gemm_request *request, struct fault *fault)
{
    const struct tensor_files_wanted wanted = {
        .kind = &kind,
        .request = request,
        .paths = {paths->a, paths->b, paths->bias, paths->c0},
        .together =
            paths->a != NULL && paths->b == NULL && paths->resident_b == NULL ? A : OPERANDS,
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
    };
    struct tensor *const all[OPERANDS] = {&bound->a, &bound->b, &bound->bias, &bound->c0};
    code = gemm_request_bind_tensors(request, bound, fault);
    for (uint32_t i = 0; i < OPERANDS && code == GEMMD_OK; i++)
        code = tensor_files_turn(files, &kind, i, all[i], fault);
    return code;
}

void operands_close(struct operands *operands)
{
    tensor_files_close(&operands->files);
}
