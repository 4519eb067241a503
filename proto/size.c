#include "proto/size.h"

#include "proto/dtype.h"

bool size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

bool size_align(uint64_t value, uint64_t alignment, uint64_t *out)
{
    uint64_t raised;
    if (!size_add(value, alignment - 1, &raised))
        return false;
    *out = raised & ~(alignment - 1);
    return true;
}

bool size_product(const uint64_t *dims, uint32_t count, uint64_t *out)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(product, dims[i], &product))
            return false;
    *out = product;
    return true;
}

bool size_tensor_bytes(enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank, uint64_t *out)
{
    uint64_t elements, bytes;
    if (!size_product(dims, rank, &elements) ||
        __builtin_mul_overflow(elements, dtype_size(dtype), &bytes) || bytes > INT64_MAX)
        return false;
    *out = bytes;
    return true;
}

bool size_to_i32(uint64_t value, int32_t *out)
{
    if (value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}
