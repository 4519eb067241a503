/*
 * grouped.h - the parameters and launches of the grouped kernels, which compute a list of products
 * in one launch. Each product is divided into tiles of 64 x 64 elements of C, and a block computes
 * one tile.
 */
#ifndef KERNELS_CUDA_GROUPED_GROUPED_H
#define KERNELS_CUDA_GROUPED_GROUPED_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

enum {
    GROUPED_TILE = 64,   /* rows and columns of C that one block computes */
    GROUPED_INLINE = 40, /* products that fit in a launch's parameters of 4 KiB */
    GROUPED_MAX = 1024,  /* products of one launch */
    /* Operands are loaded into shared memory in slabs of GROUPED_SLAB_DEPTH bytes of k.
     * GROUPED_SLABS slabs are in flight at once. */
    GROUPED_SLAB_DEPTH = 128,
    GROUPED_SLABS = 3,
    GROUPED_SLAB_BYTES = 2 * GROUPED_TILE * (GROUPED_SLAB_DEPTH + 16),
    /* Shared memory for f32 on Hopper: both parts of the slab of B that is multiplied, and in
     * GROUPED_F32_BYTES also a slab of B and two of A. */
    GROUPED_PARTS_BYTES = 2 * GROUPED_TILE * GROUPED_SLAB_DEPTH,
    GROUPED_F32_BYTES = GROUPED_PARTS_BYTES + 3 * GROUPED_SLAB_BYTES / 2,
};

/* The number of slabs whose shared memory the epilogue of a product needs, for sums of `sum_bytes`
 * bytes each. */
#define GROUPED_SLABS_NEEDED(sum_bytes) ((sum_bytes) / 4u)

/* Of the array `first` of a list in device memory, the parameters of a launch have every
 * GROUPED_INDEX_STEP-th element, 32 at most, so that a block knows in which part of the list its
 * product is. */
#define GROUPED_INDEX_STEP(count) (((count) + 31) / 32)

/* One product. */
struct grouped_entry {
    const void *a, *b, *bias, *c0; /* c0 is NULL if beta is 0 */
    void *c;
    double alpha, beta;
    uint32_t m, n, k, lda, ldb, ldc0, ldc;
    uint8_t dtype, out, act; /* enums of gemm.h */
    uint8_t transposed;      /* bit 0: a, bit 1: b */
};

/* A list of products. Both arrays have `count` elements. first[i] is the number of tiles of the
 * products before product i. */
struct grouped_list {
    const uint32_t *first;
    const struct grouped_entry *entries;
};

struct grouped_parameters {
    /* In device memory. `entries` is NULL if the list is in the parameters. */
    struct grouped_list table;
    uint32_t count;
    uint32_t first[GROUPED_INLINE]; /* for a table, every GROUPED_INDEX_STEP-th entry */
    struct grouped_entry entries[GROUPED_INLINE];
};

/* A list of f32 products, for the kernel of compute capability 9.0. The complete list is in the
 * parameters of the launch, which can have up to 32 KiB. */
enum { GROUPED_F32_MAX = 128 };
struct grouped_f32_parameters {
    uint32_t first[GROUPED_F32_MAX]; /* UINT32_MAX after the last product */
    struct grouped_entry entries[GROUPED_F32_MAX];
};

enum {
    /* Products are sorted into classes by the length of k, in steps of GROUPED_CLASS_BYTES bytes.
     */
    GROUPED_CLASSES = 64,
    GROUPED_CLASS_BYTES = 64,
    GROUPED_TABLES = 2, /* used alternately */
    GROUPED_TABLE_BYTES = GROUPED_MAX * (sizeof(struct grouped_entry) + sizeof(uint32_t)),
};

/* A list that is copied to device memory: the entries, then `first`. */
struct grouped_table {
    unsigned char *pinned, *device; /* GROUPED_TABLE_BYTES each */
    cudaEvent_t copied;
};

/* The buffers for lists. Each stream has its own. Used by one thread at a time. */
struct grouped_space {
    struct grouped_table tables[GROUPED_TABLES];
    uint32_t next;
    /* A second stream, which runs the rest of a long list while the first part runs. */
    cudaStream_t beside;
    cudaEvent_t begun, ended; /* `beside` waits for `begun`; the stream then waits for `ended` */
};

#ifdef __cplusplus
extern "C" {
#endif

/* *out can be passed to grouped_space_destroy even if the creation failed. */
cudaError_t grouped_space_create(struct grouped_space **out);
void grouped_space_destroy(struct grouped_space *space);

/* Prepares the kernel for the current device. Called once before the first launch. */
enum gemmd_error grouped_prepare(void);

/* Enqueues one launch of `tiles` blocks with `bytes` bytes of shared memory, the most that a
 * product of the list needs. */
enum gemmd_error grouped_start(cudaStream_t stream, const struct grouped_parameters *parameters,
                               uint32_t tiles, uint32_t bytes);

/* The same for f32, on compute capability 9.0 only. `overlapped`: the previous launch on the stream
 * is one of these, and need not have ended before this launch starts. */
cudaError_t grouped_f32_prepare(void);
enum gemmd_error grouped_f32_start(cudaStream_t stream,
                                   const struct grouped_f32_parameters *parameters, uint32_t tiles,
                                   bool overlapped);

#ifdef __cplusplus
}
#endif
#endif
