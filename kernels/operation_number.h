/*
 * operation_number.h - the numbers of the operations, by which tables list them.
 */
#ifndef KERNELS_OPERATION_NUMBER_H
#define KERNELS_OPERATION_NUMBER_H

enum operation_number {
    OPERATION_GEMM,
    OPERATION_ATTENTION,
    OPERATION_CONV2D,
    OPERATION_REDUCE,
    OPERATION_SOFTMAX,
    OPERATION_EXPERTS,
    OPERATION_COUNT
};

#endif
