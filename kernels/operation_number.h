/*
 * operation_number.h - the numbers of the operations, by which tables list them.
 *
 * Products are not among the operations (operation.h).
 */
#ifndef KERNELS_OPERATION_NUMBER_H
#define KERNELS_OPERATION_NUMBER_H

enum operation_number {
    OPERATION_ATTENTION,
    OPERATION_CONV2D,
    OPERATION_REDUCE,
    OPERATION_SOFTMAX,
    OPERATION_COUNT
};

#endif
