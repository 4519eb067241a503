#ifndef GEMMD_KERNELS_CPU_WIDE_VECTORS_H
#define GEMMD_KERNELS_CPU_WIDE_VECTORS_H

/* The attribute of a function whose loops are compiled to vectors of 512 bits. `features` are the
   sets of instructions, such as "avx512f,avx512bw", which the caller has found on the processor.
   Without `prefer-vector-width`, gcc compiles most loops of such a function to vectors of 256 bits.
   clang takes 512 bits, and rejects the name. */
#ifdef __clang__
#define WIDE_VECTORS(features) __attribute__((target(features)))
#else
#define WIDE_VECTORS(features) __attribute__((target(features ",prefer-vector-width=512")))
#endif

#endif
