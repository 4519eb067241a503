/*
 * The host code of the GEMM kernels of sm_90a: from a problem to tensor maps, arguments and a grid.
 */
#include "kernels/cuda/sm90/sm90.h"

#include <string.h>

#include "kernels/cuda/sm90/gemm/split_k.h"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "proto/size.h"

/* The values of enum sm90::element in wgmma.cuh. */
enum { BF16, F16, I8, TF32, F32, F8 };

static const struct {
    enum gemmd_dtype dtype;
    CUtensorMapDataType map_type;
} ELEMENTS[] = {
    [BF16] = {GEMMD_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
    [F16] = {GEMMD_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
    [I8] = {GEMMD_I8, CU_TENSOR_MAP_DATA_TYPE_UINT8},
    /* Rounds f32 to the nearest tf32 on the way in; the tensor core alone would truncate. */
    [TF32] = {GEMMD_F32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32},
    [F32] = {GEMMD_F32, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16}, /* its parts */
    [F8] = {GEMMD_F8_E4M3, CU_TENSOR_MAP_DATA_TYPE_UINT8},
};

enum { PARTS = 3 }; /* of an f32 number */

/* A batch of matrices as TMA sees them, and the box that one copy takes. A matrix has `lines` lines
 * of `width` contiguous elements. */
struct view {
    const void *data;
    CUtensorMapDataType type;
    uint32_t element_bytes;
    uint64_t width, lines, batch, leading, stride; /* elements */
    uint32_t box_width, box_lines;
    CUtensorMapSwizzle swizzle;
};

static cudaError_t sm90_encode(const struct sm90_device *device, const struct view *view,
                               CUtensorMap *map)
{
    const uint64_t stride = view->batch > 1 ? view->stride : view->leading;
    const struct tensor_map_view tensor = {
        .data = view->data,
        .type = view->type,
        .dimensions = 3,
        .dims = {view->width, view->lines, view->batch},
        .stride_bytes = {view->leading * view->element_bytes, stride * view->element_bytes},
        .box = {view->box_width, view->box_lines, 1},
        .swizzle = view->swizzle,
    };
    return tensor_map_encode(device, &tensor, map);
}

/* The table for operands with scales. NULL: there is none. */
static const struct sm90_kernel *sm90_scaled(enum gemmd_dtype dtype, enum gemm_precision precision,
                                             enum gemm_scales scales)
{
    const bool by_rowcol = scales == GEMM_SCALES_ROWCOL;
    if (dtype == GEMMD_F8_E4M3 && precision == GEMM_PRECISION_F8)
        return by_rowcol ? sm90_kernels_f8_rowcol : sm90_kernels_f8_block;
    if (dtype == GEMMD_I8 && by_rowcol)
        return sm90_kernels_i8_rowcol;
    if (dtype == GEMMD_F16 && !by_rowcol)
        return sm90_kernels_f16_block;
    return NULL;
}

const struct sm90_kernel *sm90_kernels(enum gemmd_dtype dtype, enum gemm_precision precision,
                                       enum gemm_scales scales)
{
    if (scales != GEMM_SCALES_NONE) {
        return sm90_scaled(dtype, precision, scales);
    }
    switch (dtype) {
    case GEMMD_BF16:
        return sm90_kernels_bf16;
    case GEMMD_F16:
        return sm90_kernels_f16;
    case GEMMD_I8:
        return sm90_kernels_i8;
    case GEMMD_F32:
        return precision == GEMM_PRECISION_TF32 ? sm90_kernels_tf32 : sm90_kernels_f32;
    case GEMMD_F8_E4M3:
        return precision == GEMM_PRECISION_F8 ? sm90_kernels_f8 : NULL;
    default:
        return NULL;
    }
}

/* The function of a configuration for the layouts and the result type of a problem; NULL if it has
 * none. */
static const void *function_for(const struct sm90_kernel *kernel,
                                const struct gemm_problem *problem)
{
    const bool a_along_k = !problem->transa, b_along_k = problem->transb;
    const bool promoted = problem->out == GEMMD_F32 && dtype_size(problem->dtype) == 2 &&
                          problem->scales == GEMM_SCALES_NONE;
    return kernel->functions[promoted][a_along_k][b_along_k];
}

/* The rows and columns of tiles of a problem, counted in tiles of a complete cluster. */
static void count_tiles(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint64_t *rows, uint64_t *columns)
{
    *rows = size_blocks(problem->m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    *columns = size_blocks(problem->n, (uint64_t)kernel->tile_n * kernel->cluster_n);
}

static bool sm90_aligned(uint64_t elements, enum gemmd_dtype dtype)
{
    return elements * dtype_size(dtype) % 16 == 0;
}

/* Whether the kernel's results can have the problem's type. */
static bool sm90_offers_out(const struct sm90_kernel *kernel, const struct gemm_problem *p)
{
    if (kernel->scales != GEMM_SCALES_NONE) {
        return p->out == GEMMD_F32 || p->out == GEMMD_F16 || p->out == GEMMD_BF16;
    }
    return dtype_offers_out(p->dtype, p->out) || (p->dtype == GEMMD_F16 && p->out == GEMMD_BF16);
}

/* Whether a streamed kernel can copy the operands. */
static bool sm90_streams(const struct sm90_kernel *kernel, const struct gemm_problem *p)
{
    return !p->transa && p->m <= kernel->tile_m && ((uintptr_t)p->a | (uintptr_t)p->b) % 16 == 0 &&
           sm90_aligned(p->lda, p->dtype) && sm90_aligned(p->ldb, p->dtype) &&
           (p->batch == 1 || (sm90_aligned(p->stride_a, p->dtype) && p->stride_a > 0 &&
                              sm90_aligned(p->stride_b, p->dtype) && p->stride_b > 0));
}

bool sm90_takes(const struct sm90_kernel *kernel, const struct gemm_problem *problem)
{
    const uint64_t dim_max = INT32_MAX;
    const struct gemm_problem *p = problem;
    const bool in_parts = kernel->element == F32;
    if (ELEMENTS[kernel->element].dtype != p->dtype || kernel->scales != (int)p->scales ||
        !sm90_offers_out(kernel, p) ||
        (p->dtype == GEMMD_F32 && (p->precision == GEMM_PRECISION_TF32) == in_parts) ||
        !function_for(kernel, p) || (p->beta != 0 && !kernel->takes_c0) ||
        kernel->chunks != (split_k_chunks(p) > 1)) {
        return false;
    }
    if (p->m > dim_max || p->n > dim_max || p->k > dim_max || p->batch > dim_max / PARTS) {
        return false;
    }
    if (!sm90_aligned(p->ldc, p->out) || (p->batch > 1 && !sm90_aligned(p->stride_c, p->out))) {
        return false;
    }
    if (!in_parts && (!sm90_aligned(p->lda, p->dtype) || !sm90_aligned(p->ldb, p->dtype))) {
        return false;
    }
    if (!in_parts && p->batch > 1 &&
        (!sm90_aligned(p->stride_a, p->dtype) || !sm90_aligned(p->stride_b, p->dtype))) {
        return false;
    }
    if (kernel->fused && kernel->consumers == 0 && !sm90_streams(kernel, p)) {
        return false;
    }
    uint64_t rows, columns;
    count_tiles(kernel, p, &rows, &columns);
    return rows * columns <= (uint64_t)INT32_MAX / p->batch;
}

/* An operand and how tiles are made of it. */
struct tiled_operand {
    struct sm90_operand stored;
    CUtensorMapDataType type;
    uint32_t element_bytes;
    uint32_t parts;    /* of each element: 3 for f32 with precision full, else 1 */
    bool along_k;      /* whether the lines as stored run along k */
    uint64_t extent;   /* rows of op(A), or columns of op(B) */
    uint64_t k, batch; /* a part counts as a problem of the batch */
    uint32_t tile;     /* rows or columns in a tile */
    uint32_t shares;   /* blocks of a cluster that load the same tile, a share each */
    uint32_t tile_k;   /* steps of k in a stage */
    bool in_cluster;   /* whether blocks run in clusters, also if they share the other operand */
};

/* The elements that TMA sees in a line that runs across k. If lines start at multiples of 128
 * bytes, a line is rounded up to 128 bytes: the additional elements only affect rows or columns of
 * C that do not exist, and TMA copies them faster than it fills their place with zeros. A line of
 * f32 is not rounded up, because the kernel looks at all sums of a tile before it stores the tile
 * (sum_parts of gemm.cuh). */
static uint64_t across_width(const struct tiled_operand *o)
{
    const uint64_t line = 128, bytes = o->element_bytes;
    const uint64_t starts = (uintptr_t)o->stored.data | o->stored.leading * bytes |
                            (o->batch > 1 ? o->stored.stride * bytes : 0);
    return starts % line == 0 && o->parts == 1 ? size_blocks(o->extent * bytes, line) * line / bytes
                                               : o->extent;
}

/* The view of an operand in boxes for the stages of the kernel. If lines run along k, a box is a
 * tile of which `there` lines exist, or a block's share of a tile. If lines run across k, a box has
 * 128 bytes for each k of the tile. Lines that do not exist are left out of a box that is a whole
 * tile, because TMA fills them with zeros more slowly than it copies. */
static struct view operand_view(const struct tiled_operand *o, uint64_t there)
{
    const uint32_t line_bytes = o->tile_k * o->element_bytes;
    uint32_t lines = o->tile / o->shares;
    if (o->shares == 1 && there < lines) {
        lines = (uint32_t)size_blocks(there, 8) * 8;
    }
    return (struct view){
        .data = o->stored.data,
        .type = o->type,
        .element_bytes = o->element_bytes,
        .width = o->along_k ? o->k : across_width(o),
        .lines = o->along_k ? o->extent : o->k,
        .batch = o->batch,
        .leading = o->stored.leading,
        .stride = o->stored.stride,
        .box_width = o->along_k ? o->tile_k : 128 / o->element_bytes,
        .box_lines = o->along_k ? lines : o->tile_k,
        .swizzle =
            o->along_k && line_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
    };
}

/* The rows or columns of a tile that arrive for each k if lines run across k: those of the boxes
 * that have any of the `there` rows or columns that exist. In clusters, and if the operand is in
 * parts, all of the tile. */
static uint32_t lines_across(const struct tiled_operand *o, uint64_t there)
{
    const uint32_t box = 128 / o->element_bytes;
    return !o->in_cluster && o->parts == 1 && there < o->tile
               ? (uint32_t)size_blocks(there, box) * box
               : o->tile;
}

/* Encodes the boxes of tiles of which `there` rows or columns exist. *bytes is the number of bytes
 * of the operand that arrive for a stage. */
static cudaError_t encode_operand(const struct sm90_device *device, const struct tiled_operand *o,
                                  uint64_t there, CUtensorMap *map, uint32_t *bytes)
{
    const struct view view = operand_view(o, there);
    const uint32_t box_bytes = view.box_lines * view.box_width * view.element_bytes;
    *bytes = o->parts * (o->along_k ? box_bytes * o->shares
                                    : lines_across(o, there) * view.box_lines * view.element_bytes);
    return sm90_encode(device, &view, map);
}

/* The operand in tiles of half as many lines. */
static struct tiled_operand in_halves(const struct tiled_operand *o)
{
    struct tiled_operand halves = *o;
    halves.tile /= 2;
    return halves;
}

/* The rows or columns that exist in the last tile. For f32 the whole extent, so that the last tile
 * is copied completely and with zeros, for the reason that across_width gives. */
static uint64_t lines_left(const struct tiled_operand *o)
{
    return o->parts == 1 ? (o->extent - 1) % o->tile + 1 : o->extent;
}

static cudaError_t encode_operands(const struct sm90_device *device, const struct tiled_operand *x,
                                   const struct tiled_operand *y, struct sm90_arguments *arguments)
{
    cudaError_t error = encode_operand(device, x, x->extent, &arguments->x, &arguments->x_bytes);
    const bool halves = arguments->half_rows > 0;
    const struct tiled_operand half = in_halves(x), *last = halves ? &half : x;
    if (error == cudaSuccess && halves) {
        error = encode_operand(device, &half, half.extent, &arguments->x_half,
                               &arguments->x_half_bytes);
    }
    if (error == cudaSuccess) {
        error = encode_operand(device, last, lines_left(last), &arguments->x_end,
                               &arguments->x_end_bytes);
    }
    if (error == cudaSuccess) {
        error = encode_operand(device, y, y->extent, &arguments->y, &arguments->y_bytes);
    }
    if (error == cudaSuccess) {
        error =
            encode_operand(device, y, lines_left(y), &arguments->y_end, &arguments->y_end_bytes);
    }
    return error;
}

/* Sets what is different for a Y whose tiles end with columns that are left over (LEFT_OVER of
 * gemm.cuh): y_end is the map of the boxes of these columns, if the kernel has such boxes, and
 * y_end_bytes are the bytes of the boxes that load_columns loads for the last tile. */
static cudaError_t encode_left_over(const struct sm90_device *device, const struct tiled_operand *y,
                                    bool half_box, struct sm90_arguments *arguments)
{
    const uint32_t line = y->tile_k * y->element_bytes; /* bytes of a column in a stage */
    const uint32_t box = 128 / y->element_bytes, full_boxes = y->tile / box;
    const uint64_t there = lines_left(y), shift = (y->extent - there) % box;
    const uint64_t in_full = there > shift ? there - shift : 0;
    const uint64_t full = size_blocks(in_full, box);
    const bool left_over = shift > 0 || full > full_boxes;
    const uint32_t left_columns = half_box ? box / 2 : box;
    arguments->y_bytes = (full_boxes * box + left_columns) * line;
    arguments->y_end_bytes = (uint32_t)(full < full_boxes ? full : full_boxes) * box * line +
                             (left_over ? left_columns * line : 0);
    if (!half_box)
        return cudaSuccess;
    struct view view = operand_view(y, y->extent);
    view.box_width = box / 2;
    view.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    return sm90_encode(device, &view, &arguments->y_end);
}

/* The bytes of an operand that a launch prefetches: those of its first stages. If lines run along k
 * these bytes are at the start of every line, so the operand is prefetched completely or not at
 * all. */
static uint32_t ahead_bytes(const struct tiled_operand *o, uint64_t limit)
{
    const uint64_t lines = o->along_k ? o->extent : o->k, width = o->along_k ? o->k : o->extent;
    const uint64_t elements = (lines - 1) * o->stored.leading + width;
    const uint64_t bytes = elements * o->element_bytes / 16 * 16;
    if (bytes <= limit)
        return (uint32_t)bytes;
    return o->along_k ? 0 : (uint32_t)limit;
}

/* Decides which bytes of the operands the launch prefetches into the L2 while the previous kernel
 * runs. Measured (kernels/experiments/wgmma.md): to prefetch more than `limit` delays what the
 * previous kernel still reads, except where one row of large tiles reads B once. A launch that
 * leaves half of the multiprocessors idle prefetches nothing: in a stream of such launches, blocks
 * start early on idle multiprocessors, and would take bandwidth from the previous kernel. */
static void plan_ahead(const struct sm90_kernel *kernel, const struct tiled_operand *x,
                       const struct tiled_operand *y, uint32_t multiprocessors,
                       struct sm90_arguments *arguments)
{
    const uint64_t limit = 2 << 20, limit_once = 6 << 20;
    const bool large = kernel->tile_m * kernel->tile_n >= 128 * 128;
    if (arguments->tiles > multiprocessors / 2 && x->batch == 1) {
        arguments->x_data = x->stored.data;
        arguments->y_data = y->stored.data;
        arguments->x_ahead_bytes = ahead_bytes(x, limit);
        arguments->y_ahead_bytes = ahead_bytes(y, arguments->y_once && large ? limit_once : limit);
    }
}

/* Sets the arguments about X and Y, for a kernel that is not fused. */
static cudaError_t place_operands(const struct sm90_device *device,
                                  const struct sm90_kernel *kernel, const struct gemm_problem *p,
                                  const struct sm90_parts *parts, struct sm90_arguments *arguments)
{
    const bool in_parts = kernel->element == F32;
    struct tiled_operand a = {
        .stored = {p->a, p->lda, p->stride_a},
        .type = ELEMENTS[kernel->element].map_type,
        .element_bytes = in_parts ? 2 : dtype_size(p->dtype),
        .parts = in_parts ? PARTS : 1,
        .along_k = !p->transa,
        .extent = p->m,
        .k = p->k,
        .batch = in_parts ? PARTS * p->batch : p->batch,
        .tile = kernel->tile_m,
        .shares = kernel->cluster_n,
        .tile_k = kernel->tile_k,
        .in_cluster = kernel->cluster_m * kernel->cluster_n > 1,
    };
    struct tiled_operand b = a;
    b.stored = (struct sm90_operand){p->b, p->ldb, p->stride_b};
    b.along_k = p->transb;
    b.extent = p->n;
    b.tile = kernel->tile_n;
    b.shares = kernel->cluster_m;
    if (in_parts) {
        a.stored = parts->a;
        b.stored = parts->b;
    }
    plan_ahead(kernel, &a, &b, device->card.multiprocessors, arguments);
    cudaError_t error = encode_operands(device, &a, &b, arguments);
    if (error == cudaSuccess && !b.along_k && b.tile % (128 / b.element_bytes) != 0) {
        error = encode_left_over(device, &b, kernel->half_box, arguments);
    }
    return error;
}

/* Sets the arguments about X and Y for a streamed kernel, which copies f32 as it is: in boxes of 32
 * steps of k, or, for one row (gemm_one_row.cuh), of 64 steps of k of A, and of 16 columns of a B
 * whose lines run along columns. */
static cudaError_t place_streams(const struct sm90_device *device, const struct sm90_kernel *kernel,
                                 const struct gemm_problem *p, struct sm90_arguments *arguments)
{
    const bool one_row = kernel->tile_m == 1;
    struct view view = {
        .data = p->b,
        .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        .element_bytes = sizeof(float),
        .width = p->transb ? p->k : p->n,
        .lines = p->transb ? p->n : p->k,
        .batch = p->batch,
        .leading = p->ldb,
        .stride = p->stride_b,
        .box_width = 32,
        .box_lines = one_row ? kernel->tile_n : 32,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    if (one_row && !p->transb) {
        view.box_width = 16;
        view.box_lines = 64;
        view.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    }
    const cudaError_t error = sm90_encode(device, &view, &arguments->y);
    if (error != cudaSuccess)
        return error;
    view.data = p->a;
    view.width = p->k;
    view.lines = p->m;
    view.leading = p->lda;
    view.stride = p->stride_a;
    view.box_lines = (uint32_t)p->m;
    view.box_width = one_row ? 64 : 32;
    view.swizzle = one_row ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B;
    arguments->x_bytes = view.box_lines * view.box_width * view.element_bytes;
    return sm90_encode(device, &view, &arguments->x);
}

static struct sm90_f32_operand f32_operand(const void *data, uint64_t leading, uint64_t stride,
                                           bool along_k)
{
    return (struct sm90_f32_operand){.data = data,
                                     .line_step = along_k ? (int64_t)leading : 1,
                                     .k_step = along_k ? 1 : (int64_t)leading,
                                     .batch_step = (int64_t)stride};
}

static struct sm90_scale sm90_scale_of(const struct gemm_scale *scale)
{
    return (struct sm90_scale){scale->data, (int64_t)scale->step, (int64_t)scale->k_step,
                               (int64_t)scale->stride};
}

void sm90_set_epilogue(const struct gemm_problem *problem, struct sm90_arguments *arguments)
{
    const struct gemm_problem *p = problem;
    arguments->plain = p->beta == 0 && !p->bias && p->act == GEMM_ACT_NONE;
    arguments->in_place = p->beta == 0 && dtype_size(p->out) == 2;
    arguments->m = (uint32_t)p->m;
    arguments->n = (uint32_t)p->n;
    arguments->bias = p->bias;
    arguments->c0 = p->beta != 0 ? p->c0 : NULL;
    arguments->c0_aligned = (uintptr_t)p->c0 % 16 == 0 && sm90_aligned(p->ldc0, p->out) &&
                            (p->batch == 1 || sm90_aligned(p->stride_c0, p->out));
    arguments->c_data = p->c;
    arguments->ldc = (int64_t)p->ldc;
    arguments->ldc0 = (int64_t)p->ldc0;
    arguments->stride_c = (int64_t)p->stride_c;
    arguments->stride_c0 = (int64_t)p->stride_c0;
    arguments->alpha = (float)p->alpha;
    arguments->beta = (float)p->beta;
    if (p->out == GEMMD_I32) { /* modulo 2^32, as the sum */
        arguments->alpha_int = (int32_t)(uint32_t)(int64_t)p->alpha;
        arguments->beta_int = (int32_t)(uint32_t)(int64_t)p->beta;
    }
    arguments->act = (uint32_t)p->act;
    arguments->a_scale = sm90_scale_of(&p->a_scale);
    arguments->b_scale = sm90_scale_of(&p->b_scale);
    arguments->out = sm90_out(p->out);
}

/* Whether blocks are launched in pairs, as clusters of two, although they do not share operands.
 * The GPU places a pair on two neighbouring multiprocessors. Data that both read at the same time,
 * the columns of B of two rows of tiles, then crosses from the L2 once. Measured
 * (kernels/experiments/long_k.md): a launch in pairs takes 0.1 us more, which a short k does not
 * save. */
static bool in_pairs(const struct sm90_kernel *kernel, const struct sm90_arguments *arguments,
                     uint32_t multiprocessors)
{
    return kernel->cluster_m * kernel->cluster_n == 1 && !kernel->fused &&
           multiprocessors % 2 == 0 && arguments->tile_rows > 1 && arguments->k_tiles >= 32;
}

cudaError_t sm90_prepare(const struct sm90_device *device, const struct sm90_kernel *kernel,
                         const struct gemm_problem *problem, const struct sm90_parts *parts,
                         struct sm90_launch *launch)
{
    const struct gemm_problem *p = problem;
    const bool in_parts = kernel->element == F32;
    const bool a_along_k = !p->transa, b_along_k = p->transb;
    memset(launch, 0, sizeof *launch);
    if (in_parts && !kernel->fused && parts == NULL) {
        return cudaErrorInvalidValue;
    }

    struct sm90_arguments *arguments = &launch->arguments;
    uint64_t rows, columns;
    count_tiles(kernel, p, &rows, &columns);
    const uint32_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint32_t clusters = device->card.multiprocessors / cluster;
    const struct sm90_tile_rows tile_rows = sm90_tile_rows(kernel, p, &device->card);
    rows = tile_rows.whole;
    arguments->tile_rows = (uint32_t)rows;
    arguments->half_rows = (uint32_t)tile_rows.half;
    arguments->y_once = rows == 1 && tile_rows.half == 0;
    arguments->tile_columns = (uint32_t)columns;
    arguments->whole_tiles = (uint32_t)(rows * columns * p->batch);
    arguments->tiles = arguments->whole_tiles + (uint32_t)(tile_rows.half * columns);
    /* Products that are computed in chunks have few columns. Blocks that run at the same time
     * should then share rows of A, because A has more bytes than B
     * (kernels/experiments/long_k.md). */
    arguments->band = kernel->chunks && !kernel->split ? 1 : sm90_band_rows(kernel, clusters, rows);
    cudaError_t error = cudaSuccess;
    if (!kernel->fused) {
        error = place_operands(device, kernel, p, parts, arguments);
    } else if (kernel->consumers == 0) {
        error = place_streams(device, kernel, p, arguments);
    }
    if (error != cudaSuccess) {
        return error;
    }
    if (in_parts) {
        arguments->a = f32_operand(p->a, p->lda, p->stride_a, a_along_k);
        arguments->b = f32_operand(p->b, p->ldb, p->stride_b, b_along_k);
    }
    sm90_set_epilogue(p, arguments);
    if (!kernel->fused && (arguments->plain || arguments->in_place)) {
        const uint32_t out_bytes = dtype_size(p->out);
        const bool halves = kernel->tile_n % 64 != 0; /* chunk_columns of epilogue.cuh */
        const struct view c = {
            .data = p->c,
            .type = tensor_map_type(p->out),
            .element_bytes = out_bytes,
            .width = p->n,
            .lines = p->m,
            .batch = p->batch,
            .leading = p->ldc,
            .stride = p->stride_c,
            /* The box that a warp stores at once. */
            .box_width = (halves ? 64 : 128) / out_bytes,
            .box_lines = 16,
            .swizzle = halves ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
        };
        error = sm90_encode(device, &c, &arguments->c);
        if (error != cudaSuccess) {
            return error;
        }
    }

    arguments->k = (uint32_t)p->k;
    arguments->k_tiles = (uint32_t)size_blocks(p->k, kernel->tile_k);
    if (p->scales == GEMM_SCALES_BLOCK) { /* k is rounded up to whole blocks of scales */
        const uint32_t stages = GEMM_SCALE_BLOCK / kernel->tile_k;
        arguments->k_tiles = (uint32_t)size_blocks(arguments->k_tiles, stages) * stages;
    }
    const uint32_t chunks = kernel->chunks ? split_k_chunks(p) : 1;
    arguments->chunk_tiles = (uint32_t)size_blocks(arguments->k_tiles, chunks);
    launch->function = function_for(kernel, p);
    launch->blocks =
        cluster * (arguments->tiles < clusters || kernel->fused ? arguments->tiles : clusters);
    launch->cluster = cluster;
    if (kernel->split) {
        launch->cluster = (uint32_t)size_blocks(arguments->k_tiles, arguments->chunk_tiles);
        launch->blocks = arguments->tiles * launch->cluster;
    } else if (in_pairs(kernel, arguments, device->card.multiprocessors)) {
        launch->blocks += launch->blocks % 2; /* an additional block finds no tile */
        launch->cluster = 2;
    }
    /* Two producers gain where few blocks share the bandwidth, and lose some where many do. */
    arguments->two_producers = launch->blocks <= device->card.multiprocessors / 2;
    launch->threads = kernel->threads;
    launch->shared_bytes = kernel->shared_bytes;
    return cudaSuccess;
}

cudaError_t sm90_enqueue(const struct sm90_launch *launch, cudaStream_t stream)
{
    const struct sm90_grid grid = {.function = launch->function,
                                   .blocks = launch->blocks,
                                   .cluster = launch->cluster,
                                   .threads = launch->threads,
                                   .shared_bytes = launch->shared_bytes};
    return sm90_grid_enqueue(&grid, &launch->arguments, stream);
}
