/*
 * flash_wgmma.h - attention on sm_90a: the kernels of flash_wgmma.cuh, the choice of one for a
 * problem, and its launch.
 *
 * The kernels take f16 and bf16, d and dv up to 256, and strides of Q, K and V that are multiples
 * of 16 bytes. The pointers of Q, K and V must be multiples of 16 bytes too. O may have any stride
 * and alignment. A kernel computes heads up to its own width; narrower heads are padded with zeros
 * on chip.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_FLASH_WGMMA_H
#define KERNELS_CUDA_SM90_ATTENTION_FLASH_WGMMA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/attention/group.h"
#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a launch gets. Tiles are TILE_M queries of one head of one entry. */
struct attention_wgmma_arguments {
    CUtensorMap q, k, v;
    struct attention_arguments a;
    uint32_t tile_rows;     /* of a head */
    uint32_t tiles;         /* of all heads of all entries */
    uint32_t heads_at_once; /* whose K and V should stay in the L2 together */
    uint32_t *next;         /* a zero: blocks take tiles as they get ready, and leave it as it was;
                               NULL: in turn */
};

/* So many fit in a launch's parameters. */
enum {
    ATTENTION_WGMMA_GROUP = (ATTENTION_GROUP_PARAMETER_BYTES - 128) /
                            (sizeof(struct attention_wgmma_arguments) + sizeof(uint32_t))
};

/* What a launch of several gets: tiles of problem i begin at first[i]. */
struct attention_wgmma_group {
    uint32_t count, tiles; /* tiles: of all problems */
    uint32_t *next;        /* as above */
    uint32_t first[ATTENTION_WGMMA_GROUP];
    struct attention_wgmma_arguments problems[ATTENTION_WGMMA_GROUP];
};

/* One tile configuration of one type. */
struct attention_wgmma_kernel {
    const char *name; /* "bf16_d128_128x128" */
    const void *function;
    const void *group; /* the same for attention_wgmma_group */
    uint32_t width;    /* of d and dv, at most */
    uint32_t tile_m, tile_n, threads, shared_bytes;
};

/* Ended by a NULL name; the narrow ones first. Those of one width give the same bits. */
extern const struct attention_wgmma_kernel attention_wgmma_bf16[], attention_wgmma_f16[];

#ifdef __cplusplus
}
#else

/* Whether any kernel takes the problem; pointers are not looked at. */
bool attention_wgmma_takes(const struct attention_problem *problem);

/* The table of a type, or NULL. */
const struct attention_wgmma_kernel *attention_wgmma_kernels(enum gemmd_dtype dtype);

/* The kernel of a problem that is taken. What a row gets is the same from all that may be chosen
 * for its type and widths, so in any company; which is faster is a matter of the number of queries
 * and the masks. */
const struct attention_wgmma_kernel *
attention_wgmma_choose(const struct attention_problem *problem);

/* For the current device, before the first launch on it. */
cudaError_t attention_wgmma_prepare(void);

/* Enqueues the problem on a kernel that is wide enough for it. `next` lies on the device, is zero
 * before and after every launch, and belongs to those of one stream. Fails if a pointer is not
 * aligned. */
cudaError_t attention_wgmma_enqueue(const struct sm90_device *device,
                                    const struct attention_wgmma_kernel *kernel,
                                    const struct attention_problem *problem, uint32_t *next,
                                    cudaStream_t stream);

/* The same for problems of which the kernel may be chosen for one, in this order, in launches of up
 * to ATTENTION_WGMMA_GROUP. */
cudaError_t attention_wgmma_enqueue_group(const struct sm90_device *device,
                                          const struct attention_wgmma_kernel *kernel,
                                          const struct attention_member members[], uint32_t count,
                                          uint32_t *next, cudaStream_t stream);

#endif
#endif
