#include "client/gemmctl/attention_operands.h"

#include <stddef.h>

enum { LENS_Q, LENS_KV, Q, K, V, OPERANDS };
_Static_assert((int)OPERANDS <= (int)TENSOR_FILES_MAX, "all have a place");

static enum gemmd_dtype carrier(const void *argument, const struct tensor *before, uint32_t operand)
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

/* As the parameters say it, with their defaults where they say nothing. */
static bool raw(const void *argument, const struct tensor *before, uint32_t operand,
                struct tensor *out)
{
    struct attention_request r = *(const struct attention_request *)argument;
    (void)before;
    /* What does not agree is refused when all are there. */
    (void)attention_request_settle_sizes(&r, &(struct fault){0});
    switch (operand) {
    case LENS_Q:
    case LENS_KV:
        return tensor_init(out, GEMMD_I32, &r.batch, 1, NULL);
    case Q:
        return attention_request_tensor(&r, r.heads, r.sq, r.d, out);
    case K:
        return attention_request_tensor(&r, r.kv_heads, r.skv, r.d, out);
    default:
        return attention_request_tensor(&r, r.kv_heads, r.skv, r.dv, out);
    }
}

static const struct tensor_files_kind kind = {
    .count = OPERANDS,
    .names = {"lens_q", "lens_kv", "q", "k", "v"},
    .titles = {"the lengths of Q", "the lengths of K and V", "Q", "K", "V"},
    .of = "an attention",
    .sizes = "--heads, --sq and --d",
    .carrier = carrier,
    .knows_sizes = knows_sizes,
    .raw = raw,
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
        .together = together ? Q : OPERANDS,
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
    *bound = (struct attention_operands){
        .lens_q = files->tensors[LENS_Q],
        .lens_kv = files->tensors[LENS_KV],
        .q = files->tensors[Q],
        .k = files->tensors[K],
        .v = files->tensors[V],
    };
    struct tensor *const all[OPERANDS] = {&bound->lens_q, &bound->lens_kv, &bound->q, &bound->k,
                                          &bound->v};
    code = attention_request_bind_tensors(request, bound, fault);
    if (code == GEMMD_OK)
        code = attention_request_check_lens(request, bound, fault);
    for (uint32_t i = 0; i < OPERANDS && code == GEMMD_OK; i++)
        code = tensor_files_turn(files, &kind, i, all[i], fault);
    return code;
}

void attention_files_close(struct attention_files *operands)
{
    tensor_files_close(&operands->files);
}
