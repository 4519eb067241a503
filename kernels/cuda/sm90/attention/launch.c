/* The host code of attention on sm_90a: from a problem to tensor maps, arguments and a grid. */
#include "kernels/cuda/sm90/attention/flash_wgmma.h"

#include <string.h>

#include "kernels/backend.h"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "proto/size.h"

enum {
    /* Keys and values in use at once, of heads of many keys and of few keys, and the bytes for each
     * key between the two limits (heads_at_once). */
    SECTION_BYTES_MAX = 24 << 20,
    SECTION_BYTES_MIN = 8 << 20,
    SECTION_KEY_BYTES = 16 << 10,
    SECTION_HEADS_MIN = 4, /* of K and V: their tiles occupy the device more than once */
    CONSUMER_ROWS = 64,
    MULTIPROCESSORS = 132,  /* of the cards that items are made for */
    ALIGNMENT_ELEMENTS = 8, /* 16 bytes, as TMA requires */
    BOX_WIDTH = 64          /* elements: 128 bytes, as the tensor core requires */
};

const struct attention_wgmma_kernel *attention_wgmma_kernels(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_BF16:
        return attention_wgmma_bf16;
    case GEMMD_F16:
        return attention_wgmma_f16;
    default:
        return NULL;
    }
}

const struct attention_wgmma_kernel *attention_one_step_kernels(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_BF16:
        return attention_one_step_bf16;
    case GEMMD_F16:
        return attention_one_step_f16;
    default:
        return NULL;
    }
}

/* Whether rows start at multiples of 16 bytes. Strides of dimensions of length 1 are ignored. */
static bool attention_wgmma_aligned(const struct attention_strides *strides, uint64_t batch,
                                    uint64_t heads, uint64_t length)
{
    const uint64_t stride_max = UINT64_C(1) << 38; /* elements; TMA's is 2^40 bytes */
    const struct attention_strides taken = {.batch = batch > 1 ? strides->batch : 0,
                                            .head = heads > 1 ? strides->head : 0,
                                            .row = length > 1 ? strides->row : 0};
    return attention_aligned(&taken, ALIGNMENT_ELEMENTS) && taken.batch < stride_max &&
           taken.head < stride_max && taken.row < stride_max && (batch == 1 || taken.batch > 0) &&
           (heads == 1 || taken.head > 0) && (length == 1 || taken.row > 0);
}

bool attention_wgmma_takes(const struct attention_problem *p)
{
    return attention_problem_is_plain(p) && attention_wgmma_kernels(p->dtype) != NULL &&
           attention_arguments_fit(p) &&
           attention_wgmma_aligned(&p->q_strides, p->batch, p->heads, p->sq) &&
           attention_wgmma_aligned(&p->k_strides, p->batch, p->kv_heads, p->skv) &&
           attention_wgmma_aligned(&p->v_strides, p->batch, p->kv_heads, p->skv) && p->sq > 0 &&
           p->batch * p->heads <= INT32_MAX / size_blocks(p->sq, CONSUMER_ROWS);
}

static bool is_one_step(const struct attention_wgmma_kernel *kernel)
{
    return kernel->group == NULL;
}

bool attention_wgmma_same_bits(const struct attention_wgmma_kernel *one,
                               const struct attention_wgmma_kernel *other)
{
    return one->width == other->width && one->tile_n == other->tile_n &&
           one->keeps_base == other->keeps_base;
}

/* Whether tiles may take different times, so that blocks take them from the counter `next`. */
static bool is_uneven(const struct attention_problem *p)
{
    return p->causal || p->windowed || p->lens_q != NULL;
}

/* The estimated cost of a head with a kernel of a width that has several: the rows that the kernel
 * computes, including those beyond the last query, times the cost of a row, in fortieths of the
 * cost with the three consumers of 192x128 (kernels/experiments/attention.md has the times).
 * UINT64_MAX: the kernel is not for the problem.
 *   - Two consumers take a quarter longer for a row, except for causal attention with few keys.
 *   - Steps of 64 keys take a tenth longer. With four consumers they are for few keys without
 *     masks, where a tile has so few steps that its beginning and its end matter most.
 *   - Kept bases are faster with many keys. */
static uint64_t queries_cost(const struct attention_wgmma_kernel *kernel,
                             const struct attention_problem *p)
{
    const uint64_t rows = size_blocks(p->sq, kernel->tile_m) * kernel->tile_m;
    const uint64_t causal_few = 1536, few_min = 129, few_max = 512, many = 1024;
    if (kernel->tile_n == 64)
        return is_uneven(p) || p->skv < few_min || p->skv > few_max ? UINT64_MAX : rows * 44;
    if (kernel->keeps_base)
        return p->skv < many || (is_uneven(p) && p->skv <= causal_few) ? UINT64_MAX : rows * 37;
    return rows * (kernel->tile_m == 128 && !(p->causal && p->skv <= causal_few) ? 50 : 40);
}

const struct attention_wgmma_kernel *attention_wgmma_choose(const struct attention_problem *p)
{
    const struct attention_wgmma_kernel *kernel = attention_wgmma_kernels(p->dtype);
    while (kernel->name != NULL && (kernel->width < p->d || kernel->width < p->dv))
        kernel++;
    if (kernel->name == NULL)
        return NULL;
    const struct attention_wgmma_kernel *best = kernel;
    for (kernel++; kernel->name != NULL && kernel->width == best->width; kernel++)
        if (queries_cost(kernel, p) <= queries_cost(best, p))
            best = kernel;
    return best;
}

bool attention_wgmma_kernel_takes(const struct attention_wgmma_kernel *kernel,
                                  const struct attention_problem *p)
{
    return attention_wgmma_takes(p) && p->d <= kernel->width && p->dv <= kernel->width &&
           (!is_one_step(kernel) ||
            (p->skv <= ATTENTION_ONE_STEP_KEYS && !p->windowed && p->lens_q == NULL));
}

const struct attention_wgmma_kernel *attention_wgmma_choose_alone(const struct attention_problem *p)
{
    const struct attention_wgmma_kernel *chosen = attention_wgmma_choose(p);
    for (const struct attention_wgmma_kernel *kernel = attention_one_step_kernels(p->dtype);
         chosen != NULL && kernel->name != NULL; kernel++)
        if (kernel->width == chosen->width && attention_wgmma_kernel_takes(kernel, p))
            return kernel;
    return chosen;
}

/* The number of row blocks of an item of a kernel of one_step.cuh: that with which the busiest
 * multiprocessor has the least to do, where copying K and V takes as long as a few row blocks. The
 * bits do not depend on the number. */
static uint32_t one_step_item_blocks(const struct attention_wgmma_kernel *kernel,
                                     const struct attention_problem *p)
{
    const uint64_t consumers = kernel->tile_m / CONSUMER_ROWS, copy_blocks = 2;
    const uint64_t blocks = size_blocks(p->sq, CONSUMER_ROWS);
    uint64_t best = blocks, least = UINT64_MAX;
    for (uint64_t each = consumers; each < 2 * blocks; each += (each + 15) / 16 * 4) {
        const uint64_t taken = each < blocks ? each : blocks;
        const uint64_t items = p->batch * p->heads * size_blocks(blocks, taken);
        const uint64_t cost = size_blocks(items, MULTIPROCESSORS) * (taken + copy_blocks);
        if (cost <= least) {
            least = cost;
            best = taken;
        }
    }
    return (uint32_t)best;
}

/* The queries of a tile; for a kernel of one_step.cuh, those of an item. */
static uint64_t tile_queries(const struct attention_wgmma_kernel *kernel,
                             const struct attention_problem *p)
{
    return is_one_step(kernel) ? (uint64_t)one_step_item_blocks(kernel, p) * CONSUMER_ROWS
                               : kernel->tile_m;
}

/* Whether the bits of a problem may depend on the tile of the kernel (flash_wgmma.h, tables). */
static bool attention_wgmma_tile_matters(const struct attention_problem *p)
{
    return p->causal || p->windowed;
}

uint32_t attention_wgmma_alike(struct attention_member members[], uint32_t count)
{
    const struct attention_wgmma_kernel *kernel = attention_wgmma_choose(members[0].problem);
    uint32_t alike = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct attention_member member = members[i];
        const struct attention_wgmma_kernel *own = attention_wgmma_choose(member.problem);
        if (!attention_wgmma_same_bits(own, kernel) ||
            (attention_wgmma_tile_matters(member.problem) && own != kernel))
            continue;
        memmove(&members[alike + 1], &members[alike], (i - alike) * sizeof *members);
        members[alike++] = member;
    }
    return alike;
}

static cudaError_t attention_wgmma_allow(const struct attention_wgmma_kernel *kernel,
                                         const void *function)
{
    return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)kernel->shared_bytes);
}

cudaError_t attention_wgmma_prepare(void)
{
    const struct attention_wgmma_kernel *const tables[] = {
        attention_wgmma_bf16, attention_wgmma_f16, attention_one_step_bf16, attention_one_step_f16};
    cudaError_t error = cudaSuccess;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct attention_wgmma_kernel *kernel = tables[t];
             kernel->name != NULL && error == cudaSuccess; kernel++) {
            error = attention_wgmma_allow(kernel, kernel->function);
            if (error == cudaSuccess && kernel->group != NULL)
                error = attention_wgmma_allow(kernel, kernel->group);
        }
    return error;
}

cudaError_t attention_wgmma_encode(const struct sm90_device *device, enum gemmd_dtype dtype,
                                   const void *data, const struct attention_strides *strides,
                                   uint64_t batch, uint64_t heads, uint64_t length, uint64_t width,
                                   uint32_t rows, CUtensorMap *map)
{
    /* The stride of a dimension of length 1 must be valid, but is not used. */
    const uint64_t any = 2 * BOX_WIDTH * ALIGNMENT_ELEMENTS, bytes = 2;
    const struct tensor_map_view view = {
        .data = data,
        .type = dtype == GEMMD_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        .dimensions = 4,
        .dims = {width, length, heads, batch},
        .stride_bytes = {length > 1 ? strides->row * bytes : any,
                         heads > 1 ? strides->head * bytes : any,
                         batch > 1 ? strides->batch * bytes : any},
        .box = {BOX_WIDTH, rows, 1, 1},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return tensor_map_encode(device, &view, map);
}

/* The number of heads whose tiles are processed together. Without a causal mask each head is
 * processed by itself, because its tiles all take the same time. With a causal mask as many heads
 * as fit in the L2 (50 MiB, but each half of the device may keep a copy) are processed together, so
 * that the longest tiles come first, but at least those of a few heads of K and V, since a section
 * with fewer tiles than multiprocessors would end with a long tile. Only the longest tiles of a
 * section read device memory. With few keys, sections are so short that some blocks read device
 * memory while others compute. */
static uint32_t heads_at_once(const struct attention_problem *p)
{
    const uint64_t heads = p->batch * p->heads, group = p->heads / p->kv_heads;
    const uint64_t head_bytes = p->skv * (p->d + p->dv) * 2;
    uint64_t section_bytes = p->skv * SECTION_KEY_BYTES;
    section_bytes = section_bytes < SECTION_BYTES_MIN ? SECTION_BYTES_MIN : section_bytes;
    section_bytes = section_bytes > SECTION_BYTES_MAX ? SECTION_BYTES_MAX : section_bytes;
    uint64_t count = section_bytes / head_bytes;
    count = p->causal ? (count < SECTION_HEADS_MIN ? SECTION_HEADS_MIN : count) * group : group;
    return (uint32_t)(count < heads ? count : heads);
}

/* Fills in the parameters of a launch of the whole problem. */
static cudaError_t attention_wgmma_fill(const struct sm90_device *device,
                                        const struct attention_wgmma_kernel *kernel,
                                        const struct attention_problem *p,
                                        struct attention_wgmma_arguments *arguments)
{
    const uint64_t queries = tile_queries(kernel, p);
    memset(arguments, 0, sizeof *arguments);
    attention_arguments_fill(p, &arguments->a);
    arguments->item_blocks = (uint32_t)(queries / CONSUMER_ROWS);
    arguments->tile_rows = (uint32_t)size_blocks(p->sq, queries);
    arguments->tiles = arguments->tile_rows * arguments->a.batch * arguments->a.heads;
    arguments->heads_at_once = heads_at_once(p);
    arguments->sections = arguments->a.batch * arguments->a.heads / arguments->heads_at_once;
    cudaError_t error = attention_wgmma_encode(device, p->dtype, p->q, &p->q_strides, p->batch,
                                               p->heads, p->sq, p->d, CONSUMER_ROWS, &arguments->q);
    if (error == cudaSuccess)
        error = attention_wgmma_encode(device, p->dtype, p->k, &p->k_strides, p->batch, p->kv_heads,
                                       p->skv, p->d, kernel->tile_n, &arguments->k);
    if (error == cudaSuccess)
        error = attention_wgmma_encode(device, p->dtype, p->v, &p->v_strides, p->batch, p->kv_heads,
                                       p->skv, p->dv, kernel->tile_n, &arguments->v);
    return error;
}

static uint32_t blocks_for(const struct sm90_device *device, uint32_t tiles)
{
    return tiles < device->card.multiprocessors ? tiles : device->card.multiprocessors;
}

static cudaError_t attention_wgmma_launch(const struct attention_wgmma_kernel *kernel,
                                          const void *function, uint32_t blocks,
                                          const void *arguments, cudaStream_t stream)
{
    const struct sm90_grid grid = {.function = function,
                                   .blocks = blocks,
                                   .cluster = 1,
                                   .threads = kernel->threads,
                                   .shared_bytes = kernel->shared_bytes};
    return sm90_grid_enqueue(&grid, arguments, stream);
}

uint64_t attention_wgmma_tiles(const struct attention_wgmma_kernel *kernel,
                               const struct attention_problem *p)
{
    return size_blocks(p->sq, tile_queries(kernel, p)) * p->batch * p->heads;
}

cudaError_t attention_wgmma_enqueue(const struct sm90_device *device,
                                    const struct attention_wgmma_kernel *kernel,
                                    const struct attention_problem *p, struct operation_range tiles,
                                    uint32_t *next, cudaStream_t stream)
{
    struct attention_wgmma_arguments arguments;
    cudaError_t error = attention_wgmma_fill(device, kernel, p, &arguments);
    arguments.first_tile = (uint32_t)tiles.first;
    arguments.tiles = (uint32_t)tiles.count;
    const uint32_t blocks = blocks_for(device, arguments.tiles);
    if (!is_one_step(kernel) && is_uneven(p) && arguments.tiles > blocks)
        arguments.next = next;
    return error == cudaSuccess
               ? attention_wgmma_launch(kernel, kernel->function, blocks, &arguments, stream)
               : error;
}

cudaError_t attention_wgmma_enqueue_group(const struct sm90_device *device,
                                          const struct attention_wgmma_kernel *kernel,
                                          const struct attention_member members[], uint32_t count,
                                          uint32_t *next, cudaStream_t stream)
{
    struct attention_wgmma_group group;
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < count && error == cudaSuccess;) {
        bool uneven = false;
        group.count = group.tiles = 0;
        for (; i < count && group.count < ATTENTION_WGMMA_GROUP && error == cudaSuccess; i++) {
            const struct attention_problem *p = members[i].problem;
            struct attention_wgmma_arguments *arguments = &group.problems[group.count];
            error = attention_wgmma_fill(device, kernel, p, arguments);
            if (group.count > 0 && arguments->tiles > (uint32_t)INT32_MAX - group.tiles)
                break;
            uneven = uneven || is_uneven(p) || p->skv != members[i - group.count].problem->skv;
            group.first[group.count++] = group.tiles;
            group.tiles += arguments->tiles;
        }
        const uint32_t blocks = blocks_for(device, group.tiles);
        group.next = uneven && group.tiles > blocks ? next : NULL;
        if (error == cudaSuccess)
            error = attention_wgmma_launch(kernel, kernel->group, blocks, &group, stream);
    }
    return error;
}
