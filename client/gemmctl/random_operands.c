#include "client/gemmctl/random_operands.h"

#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double next_real(uint64_t *state)
{
    return (double)(int64_t)next_random(state) / 0x1p63;
}

/* Returns the bits of `value`, whose magnitude is below 2, as a float of `exponent` and `mantissa`
 * bits. The value is rounded towards zero, and a subnormal value becomes zero. */
static uint32_t narrow(double value, uint32_t exponent, uint32_t mantissa)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << (exponent + mantissa);
    int32_t bias = (1 << (exponent - 1)) - 1;
    int32_t power = (int32_t)(bits >> 52 & 0x7ff) - 1023 + bias;
    if (power <= 0)
        return sign;
    uint64_t fraction = (bits & ((UINT64_C(1) << 52) - 1)) >> (52 - mantissa);
    return sign | (uint32_t)power << mantissa | (uint32_t)fraction;
}

void fill_random(void *out, enum gemmd_dtype dtype, uint64_t count, uint64_t seed)
{
    unsigned char *at = out;
    uint32_t size = dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++, at += size) {
        double value = next_real(&seed);
        float single = (float)value;
        uint32_t bits = 0;
        switch (dtype) {
        case GEMMD_F64:
            memcpy(at, &value, sizeof value);
            continue;
        case GEMMD_F32:
            memcpy(at, &single, sizeof single);
            continue;
        case GEMMD_F16:
            bits = narrow(value, 5, 10);
            break;
        case GEMMD_BF16:
            bits = narrow(value, 8, 7);
            break;
        case GEMMD_F8_E4M3:
            bits = narrow(value, 4, 3);
            break;
        default:
            bits = (uint32_t)next_random(&seed);
        }
        for (uint32_t byte = 0; byte < size; byte++)
            at[byte] = (unsigned char)(bits >> (8 * byte));
    }
}

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
