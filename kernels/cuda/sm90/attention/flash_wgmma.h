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
#include <stdbool.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/attention/group.h"
#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of a launch. A tile is TILE_M queries of one head of one entry. */
struct attention_wgmma_arguments {
    CUtensorMap q, k, v;
    struct attention_arguments a;
    uint32_t tile_rows;     /* tiles of one head */
    uint32_t first_tile;    /* the first tile of the launch; 0 for a member of a group */
    uint32_t tiles;         /* the number of tiles of the launch or of the member */
    uint32_t sections;      /* of heads whose K and V should be in the L2 at once */
    uint32_t heads_at_once; /* the heads of every section but the last, which has all others */
    uint32_t *next; /* a counter, zero before and after the launch, from which blocks take their
                       next tile. NULL: tiles are assigned statically */
    /* Row blocks of 64 queries in an item. For one_step.cuh only, whose items are the tiles of the
     * fields above. */
    uint32_t item_blocks;
};

/* The most problems that fit in a launch's parameters. */
enum {
    ATTENTION_WGMMA_GROUP = (ATTENTION_GROUP_PARAMETER_BYTES - 128) /
                            (sizeof(struct attention_wgmma_arguments) + sizeof(uint32_t))
};

/* The parameters of a launch of several problems. The tiles of problem i start at first[i]. */
struct attention_wgmma_group {
    uint32_t count, tiles; /* tiles: the number of tiles of all problems */
    uint32_t *next;        /* as in attention_wgmma_arguments */
    uint32_t first[ATTENTION_WGMMA_GROUP];
    struct attention_wgmma_arguments problems[ATTENTION_WGMMA_GROUP];
};

/* One tile configuration of one type. */
struct attention_wgmma_kernel {
    const char *name; /* "bf16_d128_128x128" */
    const void *function;
    const void *group; /* the same for attention_wgmma_group. NULL: a kernel of one_step.cuh */
    uint32_t width;    /* the largest d and dv */
    uint32_t tile_m, tile_n, threads, shared_bytes;
    bool keeps_base; /* in steps over keys without masks (scores.cuh) */
};

/* The tables, in ascending order of width, ended by an entry without a name. Kernels for which
 * attention_wgmma_same_bits is true give the same bits, with one exception. A tile reads the keys
 * that any of its rows sees. If a causal mask or a window hides a value of these that is not finite
 * from a row, the row is computed by exact_row (rows.cuh), whose sums have another order. In a tile
 * of fewer rows that does not read the value, the row is computed as usual. */
extern const struct attention_wgmma_kernel attention_wgmma_bf16[], attention_wgmma_f16[];

/* The most keys that the kernels of one_step.cuh take. With more, the other kernels are faster. */
enum { ATTENTION_ONE_STEP_KEYS = 80 };

/* The tables of the kernels of one_step.cuh, for problems of up to ATTENTION_ONE_STEP_KEYS keys in
 * which neither the lengths of entries nor a window limit the keys of a query. The results have the
 * bits of the kernels of flash_wgmma.cuh that attention_wgmma_choose returns, also where a value in
 * V is NaN: up to that number of keys, the kernels of both files multiply every value, and give a
 * value that a mask hides the weight 0. */
extern const struct attention_wgmma_kernel attention_one_step_bf16[], attention_one_step_f16[];

#ifdef __cplusplus
}
#else

/* Whether any kernel takes the problem. Ignores pointers. */
bool attention_wgmma_takes(const struct attention_problem *problem);

/* The tables of a type. NULL: there is none. */
const struct attention_wgmma_kernel *attention_wgmma_kernels(enum gemmd_dtype dtype);
const struct attention_wgmma_kernel *attention_one_step_kernels(enum gemmd_dtype dtype);

/* Whether two kernels give the same bits: they have the same width and the same steps over keys,
 * and both or none of them keep the base of the softmax. */
bool attention_wgmma_same_bits(const struct attention_wgmma_kernel *one,
                               const struct attention_wgmma_kernel *other);

/* The kernel for a problem that attention_wgmma_takes accepts. If the type and the width have
 * several kernels, the numbers of queries and keys and the masks decide which of them is fastest.
 * The batch and the number of heads do not, because the bits may depend on the kernel. */
const struct attention_wgmma_kernel *
attention_wgmma_choose(const struct attention_problem *problem);

/* The kernel for a problem that has a launch of its own: the kernel of one_step.cuh if it takes the
 * problem and has the width of the kernel that attention_wgmma_choose returns, otherwise that one.
 * The bits are the same. */
const struct attention_wgmma_kernel *
attention_wgmma_choose_alone(const struct attention_problem *problem);

/* Whether a kernel of the tables takes the problem. Ignores pointers. */
bool attention_wgmma_kernel_takes(const struct attention_wgmma_kernel *kernel,
                                  const struct attention_problem *problem);

/* Moves the members of a group that can run with the kernel that is chosen for the first member to
 * the front, in their order, and returns their number. The kernel has the bits of the kernel that
 * is chosen for the member. A member with a causal mask or a window runs with the kernel that is
 * chosen for it itself, because its bits may depend on the tile too. */
uint32_t attention_wgmma_alike(struct attention_member members[], uint32_t count);

/* Encodes the map of a tensor [batch, heads, length, width] for copies of boxes of 128 bytes by
 * `rows`. Fails if `data` is not aligned. */
cudaError_t attention_wgmma_encode(const struct sm90_device *device, enum gemmd_dtype dtype,
                                   const void *data, const struct attention_strides *strides,
                                   uint64_t batch, uint64_t heads, uint64_t length, uint64_t width,
                                   uint32_t rows, CUtensorMap *map);

/* Prepares the kernels for the current device. Called before the first launch. */
cudaError_t attention_wgmma_prepare(void);

/* The number of tiles that a problem has with a kernel. */
uint64_t attention_wgmma_tiles(const struct attention_wgmma_kernel *kernel,
                               const struct attention_problem *problem);

/* Enqueues tiles of the problem with a kernel that is wide enough. `next` is a counter in device
 * memory, zero before and after every launch; each stream has its own. Fails if a pointer is not
 * aligned.
 */
cudaError_t attention_wgmma_enqueue(const struct sm90_device *device,
                                    const struct attention_wgmma_kernel *kernel,
                                    const struct attention_problem *problem,
                                    struct operation_range tiles, uint32_t *next,
                                    cudaStream_t stream);

/* The same for a group of problems for which the kernel is wide enough. The tiles of the members
 * start in the order of the list, in launches of up to ATTENTION_WGMMA_GROUP problems. */
cudaError_t attention_wgmma_enqueue_group(const struct sm90_device *device,
                                          const struct attention_wgmma_kernel *kernel,
                                          const struct attention_member members[], uint32_t count,
                                          uint32_t *next, cudaStream_t stream);

#endif
#endif
