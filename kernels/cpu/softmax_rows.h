/*
 * softmax_rows.h - the kernels of the operation `softmax` on the CPU.
 */
#ifndef KERNELS_CPU_SOFTMAX_ROWS_H
#define KERNELS_CPU_SOFTMAX_ROWS_H

#include "kernels/softmax.h"

extern const struct operation_kernel softmax_cpu_naive, softmax_cpu_vector;

#endif
