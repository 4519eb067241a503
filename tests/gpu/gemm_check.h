/*
 * gemm_check.h - what the parts of gemmd-gpu-check share.
 */
#ifndef TESTS_GPU_GEMM_CHECK_H
#define TESTS_GPU_GEMM_CHECK_H

#include "kernels/operations.h"
#include "tests/gpu/streams.h"

/* One kernel with one pair of types, and how it has done. */
struct trial {
    const struct operation_kernel *kernel;
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    const char *family; /* whose kernels give the same bits, or NULL */
    uint64_t passed, failed;
    double worst;    /* largest |error| / what rounding explains */
    char first[768]; /* what failed first */
};

/* Products of more than 2^31 elements, sampled; needs 25 GB of device memory. */
void gemm_check_large(const struct gemm_device *device, struct gemm_context *context, void *stream,
                      uint64_t *passed, uint64_t *failed);

/* The error of f8_e4m3 with precision f8 against the bounds of proto/PROTOCOL.md. */
void gemm_check_f8_error(const struct gemm_device *device, struct gemm_context *context,
                         void *stream, uint64_t *passed, uint64_t *failed);

/* Products with scales, by every kernel with `kernels` in its name. `quick`: little of everything.
 */
void gemm_check_scales(const struct gemm_device *device, struct test_stream *streams, bool quick,
                       const char *kernels, uint64_t *passed, uint64_t *failed);

/* Products with packed weights, by every kernel with `kernels` in its name. */
void gemm_check_packed(const struct gemm_device *device, struct test_stream *streams,
                       const char *kernels, uint64_t *passed, uint64_t *failed);

#endif
