#include "proto/dtype.h"

#include <string.h>
#include <strings.h>

#include "proto/nearest.h"

/* The entries of <gemmd/dtypes.h>. */
static const struct {
    const char *name, *safetensors, *npy;
    uint32_t size;
} entries[GEMMD_DTYPE_COUNT] = {
#define X(NAME, name, bytes, safetensors, npy) {name, safetensors, npy, bytes},
    GEMMD_DTYPE_MAP(X)
#undef X
};

/* The types of a product's sum and result, for each type of operands. */
static const struct {
    enum gemmd_dtype accumulator, default_out;
    uint32_t outs;
} products[GEMMD_DTYPE_COUNT] = {
    [GEMMD_F64] = {GEMMD_F64, GEMMD_F64, DTYPE_BIT(F64)},
    [GEMMD_F32] = {GEMMD_F32, GEMMD_F32, DTYPE_BIT(F32) | DTYPE_BIT(F16) | DTYPE_BIT(BF16)},
    [GEMMD_F16] = {GEMMD_F32, GEMMD_F16, DTYPE_BIT(F16) | DTYPE_BIT(F32)},
    [GEMMD_BF16] = {GEMMD_F32, GEMMD_BF16, DTYPE_BIT(BF16) | DTYPE_BIT(F32)},
    [GEMMD_F8_E4M3] = {GEMMD_F32, GEMMD_BF16, DTYPE_BIT(BF16) | DTYPE_BIT(F16) | DTYPE_BIT(F32)},
    [GEMMD_I8] = {GEMMD_I32, GEMMD_I32, DTYPE_BIT(I32) | DTYPE_BIT(F32)},
    [GEMMD_I32] = {GEMMD_I32, GEMMD_I32, 0}, /* i32 is a type of results only */
};

uint32_t dtype_size(enum gemmd_dtype dtype)
{
    return entries[dtype].size;
}

const char *dtype_name(enum gemmd_dtype dtype)
{
    return entries[dtype].name;
}

const char *dtype_safetensors(enum gemmd_dtype dtype)
{
    return entries[dtype].safetensors;
}

const char *dtype_npy(enum gemmd_dtype dtype)
{
    return entries[dtype].npy;
}

bool dtype_from_name(const char *name, enum gemmd_dtype *dtype)
{
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            *dtype = (enum gemmd_dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_from_safetensors(const char *name, enum gemmd_dtype *dtype)
{
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++) {
        if (strcmp(entries[i].safetensors, name) == 0) {
            *dtype = (enum gemmd_dtype)i;
            return true;
        }
    }
    return false;
}

enum gemmd_dtype dtype_accumulator(enum gemmd_dtype dtype)
{
    return products[dtype].accumulator;
}

enum gemmd_dtype dtype_default_out(enum gemmd_dtype dtype)
{
    return products[dtype].default_out;
}

bool dtype_offers_out(enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    return (products[dtype].outs & 1u << out) != 0;
}

/* The names that NumPy, PyTorch, C, BLAS and the Open Inference Protocol give to types. */
static const struct {
    const char *name;
    enum gemmd_dtype dtype;
} aliases[] = {
    {"float64", GEMMD_F64},
    {"double", GEMMD_F64},
    {"fp64", GEMMD_F64},
    {"f8", GEMMD_F8_E4M3},
    {"<f8", GEMMD_F64},
    {"float32", GEMMD_F32},
    {"float", GEMMD_F32},
    {"fp32", GEMMD_F32},
    {"single", GEMMD_F32},
    {"<f4", GEMMD_F32},
    {"tf32", GEMMD_F32},
    {"float16", GEMMD_F16},
    {"half", GEMMD_F16},
    {"fp16", GEMMD_F16},
    {"<f2", GEMMD_F16},
    {"bfloat16", GEMMD_BF16},
    {"bfloat", GEMMD_BF16},
    {"float8_e4m3fn", GEMMD_F8_E4M3},
    {"float8_e4m3", GEMMD_F8_E4M3},
    {"e4m3", GEMMD_F8_E4M3},
    {"float8", GEMMD_F8_E4M3},
    {"fp8", GEMMD_F8_E4M3},
    {"int8", GEMMD_I8},
    {"char", GEMMD_I8},
    {"|i1", GEMMD_I8},
    {"int32", GEMMD_I32},
    {"int", GEMMD_I32},
    {"<i4", GEMMD_I32},
};

const char *dtype_suggest(const char *name)
{
    static const char *const modules[] = {"torch.", "np.", "numpy.", "jnp.", "ml_dtypes."};
    struct nearest search;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (strncmp(name, modules[i], strlen(modules[i])) == 0)
            name += strlen(modules[i]);
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcasecmp(aliases[i].name, name) == 0)
            return dtype_name(aliases[i].dtype);
    nearest_start(&search, name, strlen(name));
    for (unsigned i = 0; i < GEMMD_DTYPE_COUNT; i++)
        nearest_offer(&search, entries[i].name);
    return search.best;
}
