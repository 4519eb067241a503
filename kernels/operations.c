#include "kernels/operations.h"

const struct operation *const operation_table[OPERATION_COUNT] = {
    [OPERATION_GEMM] = &operation_gemm,       [OPERATION_ATTENTION] = &operation_attention,
    [OPERATION_CONV2D] = &operation_conv2d,   [OPERATION_REDUCE] = &operation_reduce,
    [OPERATION_SOFTMAX] = &operation_softmax, [OPERATION_EXPERTS] = &operation_experts,
};
