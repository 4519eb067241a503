/*
 * gemm.h - products: the problem, and the devices and contexts that all kernels run on.
 *
 *   C[i] = act(alpha * op(A[i]) * op(B[i]) + beta * C0[i] + bias),  i = 0 ... batch-1
 *
 * op(A) is m x k, op(B) is k x n, C0 and C are m x n, and the bias has n elements (one vector for
 * all rows of all problems). The epilogue, which is everything after the sum over k, is computed in
 * the accumulator's type (dtype_accumulator) and rounded once to `out`. 32-bit integer results wrap
 * modulo 2^32.
 *
 * All pointers of a problem are in the memory of the context's backend: device memory (or mapped
 * host memory) for CUDA, host memory for the CPU. Matrices are row-major; a leading dimension is
 * the distance between the starts of two rows as stored, in elements. A kernel allocates nothing.
 * C must not overlap any operand.
 *
 * Alignment: on CUDA the operands, C and the workspace start at multiples of 256 bytes. On the CPU
 * the operands and C are aligned to their elements, and the workspace to 64 bytes.
 *
 * Reads beyond an operand: a CUDA kernel may read all of an aligned block of 16 bytes that contains
 * a byte of an operand, and all of an aligned block of 128 bytes if the operand's rows start at
 * multiples of 128 bytes. The result does not depend on the other bytes of the block. No memory
 * outside these blocks is accessed.
 */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/operation_number.h"
#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/packed.h"

enum gemm_backend { GEMM_BACKEND_CPU, GEMM_BACKEND_CUDA };

/* The properties of a device that decide which kernels it can run. */
struct gemm_device {
    enum gemm_backend backend;
    uint32_t compute_capability; /* CUDA: 90 for 9.0; CPU: 0 */
    /* Kernels of each operation that are disabled on the device, as bit masks: bit i is entry i of
     * operation_kernels. */
    uint32_t without[OPERATION_COUNT];
};

/* The scales of an operand: positive and finite f32. The factor of line i (a row of op(A) or a
 * column of op(B)) and step p of k is
 *   rowcol   data[i * step], where the step is 1
 *   block    data[i * step + p / 128 * k_step] of A, data[i / 128 * step + p / 128 * k_step] of B
 * Steps and `stride`, from problem to problem, are in elements. */
struct gemm_scale {
    const float *data; /* aligned to its elements */
    uint64_t step, k_step, stride;
};

/* B may be packed weights, in the arrangement of proto/packed.h: batch is 1 and transb is false.
 * The products of a group of k, or of a part of the group, are summed in f32. Each of these sums is
 * multiplied by its group's scale, and they are added in f32, in an order that depends on k and n
 * alone. Weights of e2m1 are multiplied by their scales, which is exact in f32, and their products
 * are summed in f32 over all of k. With A of f16 and groups of 32, a GPU multiplies the sums of the
 * groups by the scales instead. alpha contains the factor of the packed weights.
 *
 * With scales, each sum of products is multiplied by the factors of its row and column in f32
 * before the rest of the epilogue (rowcol), or the sum of each 128 products by the product of their
 * factors before these sums are added in f32 (block). */
struct gemm_problem {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_scales scales;
    enum gemm_act act;
    bool transa, transb;
    uint64_t m, n, k, batch;
    double alpha, beta;
    const void *a;                      /* [m, k], or [k, m] if transa */
    const void *b;                      /* [k, n], or [n, k] if transb */
    const void *bias;                   /* [n] of type out, or NULL */
    const void *c0;                     /* [m, n] of type out; read only if beta != 0 */
    void *c;                            /* [m, n] of type out */
    struct gemm_scale a_scale, b_scale; /* of `scales`, if that is not GEMM_SCALES_NONE */
    struct packed_layout packed;        /* of B; bits is 0: B is a matrix of `dtype` */
    uint64_t lda, ldb, ldc0, ldc;       /* elements */
    uint64_t stride_a, stride_b, stride_c0, stride_c; /* elements from problem to problem */
};

/* Sets leading dimensions and strides for contiguous operands from m, n, k, transa and transb. */
void gemm_problem_contiguous(struct gemm_problem *problem);
/* Sets the steps and strides of scales for contiguous arrays from the problem's sizes: [m] and [n]
 * (rowcol), or (block) [m, k / 128] or, if transa, [k / 128, m], and [k / 128, n / 128] or, if
 * transb, [n / 128, k / 128], each quotient rounded up. `transa` and `transb` are those of the
 * arrays, which need not be those of the operands. */
void gemm_problem_scales_contiguous(struct gemm_problem *problem, bool transa, bool transb);
/* The number of elements from the first factor of an operand's scales to the last. False: the
 * number overflows. */
bool gemm_scale_span(const struct gemm_problem *problem, bool of_b, uint64_t *out);

struct gemm_context;

/* The numbers of a product's parts (operation.parts). */
enum {
    GEMM_PART_A,
    GEMM_PART_B,
    GEMM_PART_BIAS,
    GEMM_PART_C0,
    GEMM_PART_A_SCALE,
    GEMM_PART_B_SCALE,
    GEMM_PART_C
};

/* The leading dimension at which the device's kernels can use a matrix, whose rows have `width`
 * elements, without a copy. Kernels compute with any other leading dimension too. `stays` is true
 * for a matrix that stays on the device, which any request and so any kernel may use, and false for
 * an operand of one request (operation_gemm.arrange). Pure. */
uint64_t gemm_leading(const struct gemm_device *device, enum gemmd_dtype dtype, uint64_t width,
                      bool stays);

/* The version of the rules by which operation_select chooses for "auto"; part of /info. */
const char *gemm_select_version(void);

/* Creates the context that kernels run in. A context is used by one thread at a time. On CUDA
 * `stream` is a cudaStream_t of the current device, and the caller keeps ownership of the stream;
 * the context owns library handles and their workspace. On the CPU `stream` is ignored and
 * `threads` is the number of threads (0: one for each usable core). */
enum gemmd_error gemm_context_create(enum gemm_backend backend, void *stream, uint32_t threads,
                                     struct gemm_context **context, struct fault *fault);
void gemm_context_destroy(struct gemm_context *context);

/* "cpu" or "cuda"; static storage. */
const char *gemm_backend_name(enum gemm_backend backend);
/* "OpenBLAS 0.3.21 ..." or "cuBLAS 13.1"; static storage. For /info and the build_info metric. */
const char *gemm_backend_library(enum gemm_backend backend);

#endif
