#include "client/gemmctl/random_operands.h"

#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/fill.h"
#include "proto/dtype.h"
#include "proto/number.h"

/* The last step of SplitMix64 (Steele, Lea, Flood 2014), which makes different states of
 * neighbouring seeds. Never 0, which fill_random does not take. */
static uint64_t state_of(uint64_t seed)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    seed ^= seed >> 31;
    return seed != 0 ? seed : 1;
}

uint32_t random_sizes(const char *text, uint64_t sizes[TENSOR_MAX_RANK])
{
    for (uint32_t count = 0; count < TENSOR_MAX_RANK; count++) {
        char number[24];
        const size_t length = strspn(text, "0123456789");
        if (length == 0 || length >= sizeof number || (text[length] != 'x' && text[length] != '\0'))
            return 0;
        memcpy(number, text, length);
        number[length] = '\0';
        if (!number_u64(number, &sizes[count]) || sizes[count] < 1 || sizes[count] > INT32_MAX)
            return 0;
        if (text[length] == '\0')
            return count + 1;
        text += length + 1;
    }
    return 0;
}

enum gemmd_error random_fill(struct tensor *tensor, uint64_t seed, struct fault *fault)
{
    void *data = malloc(tensor->bytes);
    if (data == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "there is no memory for the random operands");
    fill_random(data, tensor->dtype, tensor->bytes / dtype_size(tensor->dtype), state_of(seed));
    tensor->data = data;
    return GEMMD_OK;
}

enum gemmd_error random_seed(const struct arguments *arguments, uint64_t *seed, struct fault *fault)
{
    const char *text = arguments->values[OPTION_RANDOM],
               *seed_text = arguments->values[OPTION_SEED];
    *seed = 1;
    if (seed_text == NULL || (text != NULL && number_u64(seed_text, seed)))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     text == NULL ? "--seed needs --random"
                                  : "--seed is '%.64s'; it must be a whole number",
                     seed_text);
}

static enum gemmd_error make(struct tensor *tensor, const struct gemm_request *request,
                             uint64_t rows, uint64_t columns, bool transposed, uint64_t seed,
                             struct fault *fault)
{
    const uint64_t dims[] = {request->batch, transposed ? columns : rows,
                             transposed ? rows : columns};
    const uint32_t skipped = request->batch == 1;
    if (!tensor_init(tensor, request->dtype, dims + skipped, 3 - skipped, NULL))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "an operand has more than 2^63 bytes");
    return random_fill(tensor, seed, fault);
}

enum gemmd_error random_operands_open(struct random_operands *operands,
                                      const struct arguments *arguments,
                                      struct gemm_request *request, struct fault *fault)
{
    const char *text = arguments->values[OPTION_RANDOM];
    uint64_t sizes[TENSOR_MAX_RANK], seed;
    *operands = (struct random_operands){0};
    enum gemmd_error code = random_seed(arguments, &seed, fault);
    if (code != GEMMD_OK || text == NULL)
        return code;
    if (arguments->operand_count > 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random makes A and B; name no files besides");
    if (request->m != 0 || request->n != 0 || request->k != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets m, n and k; leave out --m, --n and --k");
    if (random_sizes(text, sizes) != 3)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random is '%.64s'; it must be MxNxK, three whole numbers such as "
                         "512x512x64",
                         text);
    request->m = sizes[0];
    request->n = sizes[1];
    request->k = sizes[2];
    code = make(&operands->a, request, request->m, request->k, request->transa, 2 * seed, fault);
    return code == GEMMD_OK ? make(&operands->b, request, request->k, request->n, request->transb,
                                   2 * seed + 1, fault)
                            : code;
}

void random_operands_close(struct random_operands *operands)
{
    free((void *)operands->a.data);
    free((void *)operands->b.data);
}
