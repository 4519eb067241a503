/*
 * device.h - the benchmark's own kernels: operands, references, comparisons. All run on the default
 * stream and return the launch's error; results arrive with the next synchronisation.
 */
#ifndef TESTS_BENCH_DEVICE_H
#define TESTS_BENCH_DEVICE_H

#include <cuda_runtime_api.h>
#include <gemmd/dtypes.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Uniform in [-1, 1]; i8 in [-127, 127]. */
cudaError_t bench_fill(void *data, uint64_t elements, enum gemmd_dtype dtype, uint32_t seed);

/* One product and what follows it, as struct gemm_problem has it. */
struct bench_product {
    enum gemmd_dtype dtype, out;
    int act; /* enum gemm_act */
    int transa, transb;
    uint64_t m, n, k, batch, lda, ldb, ldc0;
    uint64_t stride_a, stride_b, stride_c0;
    double alpha, beta;
    const void *a, *b, *bias, *c0;
};

/* Into [batch, m, n] contiguous doubles, one plain sum in f64 an element. */
cudaError_t bench_reference(const struct bench_product *product, double *reference);

struct bench_difference {
    double squares, reference_squares, largest; /* of the difference, of the reference */
    unsigned long long bad, first_bad; /* elements over the bound; index in [batch, m, n] */
    double first_got, first_wanted;
};

/* c against reference: an element is bad if |c - r| > atol + rtol * |r|, or if it is no number and
 * r is. `reference` is either doubles (contiguous) or, if `other` is not NULL, that matrix of c's
 * type and layout. */
cudaError_t bench_compare(const void *c, enum gemmd_dtype out, uint64_t batch, uint64_t m,
                          uint64_t n, uint64_t ldc, uint64_t stride, const double *reference,
                          const void *other, double atol, double rtol,
                          struct bench_difference *difference);

/* Bytes of `bytes` bytes at c that lie outside the matrix and are not `poison`. */
cudaError_t bench_outside(const void *c, uint64_t bytes, uint32_t element_bytes, uint64_t batch,
                          uint64_t m, uint64_t n, uint64_t ldc, uint64_t stride, uint8_t poison,
                          unsigned long long *touched);

/* A sum over the matrix's bits and their places. */
cudaError_t bench_hash(const void *c, uint32_t element_bytes, uint64_t m, uint64_t n, uint64_t ldc,
                       unsigned long long *hash);

#ifdef __cplusplus
}
#endif
#endif
