#include "client/gemmctl/attention_operands.h"

#include <stddef.h>
#include <string.h>

enum { Q = 2 }; /* the index of Q in attention_operand_table */

static enum gemmd_dtype attention_carrier(const void *argument, const struct tensor *before,
                                          uint32_t operand)
{
    const struct attention_request *request = argument;
    (void)before;
    (void)operand;
    return attention_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
}

static bool knows_sizes(const void *argument)
{
    const struct attention_request *request = argument;
    return request->heads != 0 && request->sq != 0 && request->d != 0;
}

/* Fills in the type and shape of an operand in a file of raw bytes, from the parameters and their
 * defaults. */
static bool attention_raw_operand(const void *argument, const struct tensor *before,
                                  uint32_t operand, struct tensor *out)
{
    struct attention_request request = *(const struct attention_request *)argument;
    (void)before;
    /* A contradiction between sizes is refused later, when all operands are known. */
    (void)attention_request_settle_sizes(&request, &(struct fault){0});
    return attention_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &attention_operand_table,
    .of = "an attention",
    .sizes = "--heads, --sq and --d",
    .carrier = attention_carrier,
    .knows_sizes = knows_sizes,
    .raw = attention_raw_operand,
};

enum gemmd_error attention_files_open(struct attention_files *operands,
                                      const struct attention_paths *paths,
                                      struct attention_request *request, struct fault *fault)
{
    const bool together = paths->k == NULL && paths->v == NULL && paths->resident_k == NULL &&
                          paths->resident_v == NULL;
    const struct tensor_files_wanted wanted = {
        .kind = &kind,
        .request = request,
        .paths = {paths->lens_q, paths->lens_kv, paths->q, paths->k, paths->v},
        .together = together ? Q : ATTENTION_OPERANDS,
        .format = paths->format,
    };
    struct tensor_files *files = &operands->files;
    struct attention_operands *bound = &operands->bound;
    enum gemmd_error code =
        attention_request_settle_residents(request, paths->resident_k, paths->resident_v, fault);
    if (code == GEMMD_OK)
        code = tensor_files_open(files, &wanted, fault);
    if (code != GEMMD_OK)
        return code;
    memcpy(bound->all, files->tensors, sizeof bound->all);
    code = attention_request_bind_tensors(request, bound, fault);
    if (code == GEMMD_OK)
        code = attention_request_check_lens(request, bound, fault);
    return code == GEMMD_OK ? tensor_files_make_row_major(files, &kind, bound->all, fault) : code;
}

void attention_files_close(struct attention_files *operands)
{
    tensor_files_close(&operands->files);
}
