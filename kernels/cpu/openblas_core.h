/*
 * openblas_core.h - selects OpenBLAS's code for CPUs whose model OpenBLAS does not know.
 *
 * OpenBLAS chooses its code by the CPU's model when it is loaded. It takes a CPU that is newer than
 * the library for a Prescott of 2004: version 0.3.21 on two cores of an Emerald Rapids multiplies
 * f32 at 40 GFLOP/s, and at 190 with its code for SkylakeX. The choice can only be changed by the
 * environment variable OPENBLAS_CORETYPE, which OpenBLAS reads before main. The program therefore
 * has to be started again, which takes as long as loading it: 0.1 s with CUDA's libraries.
 */
#ifndef KERNELS_CPU_OPENBLAS_CORE_H
#define KERNELS_CPU_OPENBLAS_CORE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of OPENBLAS_CORETYPE for a CPU on which OpenBLAS chose `core`. `avx2`: the CPU has AVX2
 * and FMA. `avx512`: the CPU has the AVX-512 instructions of SkylakeX. NULL: the choice of OpenBLAS
 * is good. Pure. */
const char *openblas_core_wanted(const char *core, bool avx2, bool avx512);

/* Starts the program again, as the same process with the same arguments and with OPENBLAS_CORETYPE
 * set, if OpenBLAS does not know this CPU. Returns if OpenBLAS knows the CPU, if the variable is
 * already set, or if the program cannot be started again. Must be called before the program starts
 * threads or opens files. */
void openblas_core_set(char *const argv[]);

#ifdef __cplusplus
}
#endif
#endif
