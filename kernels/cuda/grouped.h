/*
 * grouped.h - what the host tells the grouped kernel: a list of products, cut into tiles.
 */
#ifndef KERNELS_CUDA_GROUPED_H
#define KERNELS_CUDA_GROUPED_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

enum {
    GROUPED_TILE = 64,   /* rows and columns of C that one block of threads computes */
    GROUPED_INLINE = 40, /* products that fit in a launch's parameters, which are 4 KiB */
    GROUPED_MAX = 1024,  /* products of one launch */
    /* Operands come to the multiprocessor in slabs of so many bytes of k, so many of which are on
     * their way at once. */
    GROUPED_SLAB_DEPTH = 128,
    GROUPED_SLABS = 4,
};

/* Slabs whose memory a product needs when its sums, of so many bytes each, are done. */
#define GROUPED_SLABS_NEEDED(sum_bytes) ((sum_bytes) / 4u)

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
    uint32_t first[GROUPED_INLINE];
    struct grouped_entry entries[GROUPED_INLINE];
};

/* What lists are made in, by one thread at a time; a stream's own. */
struct grouped_space {
    struct grouped_entry entries[GROUPED_MAX];
    /* As it will lie in `device`: entries, then `first`. */
    unsigned char packed[GROUPED_MAX * (sizeof(struct grouped_entry) + sizeof(uint32_t))];
    unsigned char *device; /* device memory of as many bytes as `packed` */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Once for each device, which is the current one, before the first launch. */
enum gemmd_error grouped_prepare(void);

/* One launch with shared memory for `slabs`, GROUPED_SLABS or as many as the longest k has. */
enum gemmd_error grouped_start(cudaStream_t stream, const struct grouped_parameters *parameters,
                               uint32_t tiles, uint32_t slabs);

#ifdef __cplusplus
}
#endif
#endif
