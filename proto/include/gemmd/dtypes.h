/*
 * dtypes.h - the element types of tensors in requests and responses, as one list.
 *
 * GEMMD_DTYPE_MAP(X) expands to X(NAME, name, bytes, safetensors, npy) for each type:
 *   NAME         the type's constant is GEMMD_NAME
 *   name         the type's name in the parameters `dtype` and `out` and in the header Gemmd-Dtype
 *   bytes        the size of one element in bytes
 *   safetensors  the type's name in a safetensors header
 *   npy          the type's `descr` in the header of an .npy file. NumPy has no bf16 and no f8.
 *                Arrays of bf16 and f8 have a void type of the same size, as ml_dtypes writes them
 */
#ifndef GEMMD_DTYPES_H
#define GEMMD_DTYPES_H

#ifdef __cplusplus
extern "C" {
#endif

#define GEMMD_DTYPE_MAP(X)                                                                         \
    X(F64, "f64", 8, "F64", "<f8")                                                                 \
    X(F32, "f32", 4, "F32", "<f4")                                                                 \
    X(F16, "f16", 2, "F16", "<f2")                                                                 \
    X(BF16, "bf16", 2, "BF16", "<V2")                                                              \
    X(F8_E4M3, "f8_e4m3", 1, "F8_E4M3", "|V1")                                                     \
    X(I8, "i8", 1, "I8", "|i1")                                                                    \
    X(I32, "i32", 4, "I32", "<i4")

enum gemmd_dtype {
#define X(NAME, name, bytes, safetensors, npy) GEMMD_##NAME,
    GEMMD_DTYPE_MAP(X)
#undef X
        GEMMD_DTYPE_COUNT
};

#ifdef __cplusplus
}
#endif
#endif
