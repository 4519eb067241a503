/*
 * openblas_core.h - OpenBLAS with code for this CPU, though it does not know its model.
 *
 * OpenBLAS chooses its code by the CPU's model when it is loaded, and takes a newer one than itself
 * for a Prescott of 2004: 0.3.21 on an Emerald Rapids of two cores multiplies f32 at 40 GFLOP/s,
 * with its code for SkylakeX at 190. It can be told otherwise by its environment variable
 * OPENBLAS_CORETYPE only, which it reads before main. Starting again costs what loading does, 0.1 s
 * with CUDA's libraries.
 */
#ifndef KERNELS_CPU_OPENBLAS_CORE_H
#define KERNELS_CPU_OPENBLAS_CORE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The OPENBLAS_CORETYPE for a CPU with these instructions (AVX2 with FMA; AVX-512 as SkylakeX has
 * it) on which OpenBLAS chose `core`; NULL if that choice can stay. Pure. */
const char *openblas_core_wanted(const char *core, bool avx2, bool avx512);

/* Starts the program again, as the same process with the same arguments, with OPENBLAS_CORETYPE
 * set, if OpenBLAS did not know this CPU. Returns if it did, if the variable is set, and if the
 * program cannot be started again. To be called before threads are started and files opened. */
void openblas_core_set(char *const argv[]);

#ifdef __cplusplus
}
#endif
#endif
