/*
 * grouped.h - the parameters of the grouped kernels: a list of products, divided into tiles.
 */
#ifndef KERNELS_CUDA_GROUPED_GROUPED_H
#define KERNELS_CUDA_GROUPED_GROUPED_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

enum {
    GROUPED_TILE = 64,   /* rows and columns of C that one block of threads computes */
    GROUPED_INLINE = 40, /* products that fit in a launch's parameters, which are 4 KiB */
    GROUPED_MAX = 1024,  /* products of one launch */
    /* Operands come to the multiprocessor in slabs of so many bytes of k, so many of which are on
     * their way at once. */
    GROUPED_SLAB_DEPTH = 128,
    GROUPED_SLABS = 3,
    GROUPED_SLAB_BYTES = 2 * GROUPED_TILE * (GROUPED_SLAB_DEPTH + 16),
    /* f32 on Hopper: both parts of the slab of B that is multiplied; these, a slab of B and two of
     * A. */
    GROUPED_PARTS_BYTES = 2 * GROUPED_TILE * GROUPED_SLAB_DEPTH,
    GROUPED_F32_BYTES = GROUPED_PARTS_BYTES + 3 * GROUPED_SLAB_BYTES / 2,
};

/* Slabs whose memory a product needs when its sums, of so many bytes each, are done. */
#define GROUPED_SLABS_NEEDED(sum_bytes) ((sum_bytes) / 4u)

/* A launch's parameters have 32 at most of a table's numbers of tiles. */
#define GROUPED_INDEX_STEP(count) (((count) + 31) / 32)

/* One product. */
struct grouped_entry {
    const void *a, *b, *bias, *c0; /* c0 is NULL if beta is 0 */
    void *c;
    double alpha, beta;
    uint32_t m, n, k, lda, ldb, ldc0, ldc;
    uint8_t dtype, out, act; /* the enums of gemm.h */
    uint8_t transposed;      /* 1: a, 2: b */
};

/* [count] both; first[i] is the number of tiles before product i. */
struct grouped_list {
    const uint32_t *first;
    const struct grouped_entry *entries;
};

struct grouped_parameters {
    struct grouped_list table; /* in device memory; entries is NULL if the list is here */
    uint32_t count;
    uint32_t first[GROUPED_INLINE]; /* of a table, every GROUPED_INDEX_STEP-th */
    struct grouped_entry entries[GROUPED_INLINE];
};

/* A list of f32 alone, for the kernel that devices of compute capability 9.0 have for those. All of
 * it travels as the launch's parameters, which are up to 32 KiB. */
enum { GROUPED_F32_MAX = 128 };
struct grouped_f32_parameters {
    uint32_t first[GROUPED_F32_MAX]; /* UINT32_MAX behind the last */
    struct grouped_entry entries[GROUPED_F32_MAX];
};

enum {
    GROUPED_CLASSES = 64, /* of k's length, in steps of so many bytes */
    GROUPED_CLASS_BYTES = 64,
    GROUPED_TABLES = 2, /* in turn */
    GROUPED_TABLE_BYTES = GROUPED_MAX * (sizeof(struct grouped_entry) + sizeof(uint32_t)),
};

/* A list on its way to device memory: entries, then `first`. */
struct grouped_table {
    unsigned char *pinned, *device; /* GROUPED_TABLE_BYTES each */
    cudaEvent_t copied;
};

/* What lists are made in, by one thread at a time; a stream's own. */
struct grouped_space {
    struct grouped_table tables[GROUPED_TABLES];
    uint32_t next;
    cudaStream_t beside;      /* runs most of a long list while its beginning runs */
    cudaEvent_t begun, ended; /* what `beside` waits for, and what is waited for then */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Destroying takes what a failed creation left in *out. */
cudaError_t grouped_space_create(struct grouped_space **out);
void grouped_space_destroy(struct grouped_space *space);

/* Once for each device, which is the current one, before the first launch. */
enum gemmd_error grouped_prepare(void);

/* One launch with so many bytes of shared memory, of which a product uses no more than grouped.c
 * says. */
enum gemmd_error grouped_start(cudaStream_t stream, const struct grouped_parameters *parameters,
                               uint32_t tiles, uint32_t bytes);

/* The same of f32, in kernels/cuda/sm90. `overlapped`: the launch before is one of these, and need
 * not end before this one begins. */
cudaError_t grouped_f32_prepare(void);
enum gemmd_error grouped_f32_start(cudaStream_t stream,
                                   const struct grouped_f32_parameters *parameters, uint32_t tiles,
                                   bool overlapped);

#ifdef __cplusplus
}
#endif
#endif
