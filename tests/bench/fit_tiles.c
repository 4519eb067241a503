/*
 * What fit_tiles.py needs of the model of the choice of tiles, which is compiled with this file
 * into a library: the times of many tiles on many shapes by constants that are given.
 */
#include <stddef.h>
#include <string.h>

#include "kernels/cuda/sm90/conv/estimate.h"
#include "kernels/cuda/sm90/gemm/split_k.h"
#include "proto/dtype.h"
#include "tests/bench/tile_name.h"

/* A tile for a product, or for a convolution. */
struct fit_cell {
    struct gemm_problem problem;
    struct sm90_conv conv; /* images == 0: none */
    struct sm90_kernel kernel;
};

/* As bench_type of kernels.c has the types that tables name. */
static const struct {
    const char *name;
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool transb;
} TYPES[] = {
    {"bf16", GEMMD_BF16, GEMMD_BF16, GEMM_PRECISION_FULL, false},
    {"f16", GEMMD_F16, GEMMD_F16, GEMM_PRECISION_FULL, false},
    {"i8", GEMMD_I8, GEMMD_I32, GEMM_PRECISION_FULL, true},
    {"f8_e4m3", GEMMD_F8_E4M3, GEMMD_BF16, GEMM_PRECISION_F8, true},
    {"tf32", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, false},
    {"tf32t", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_TF32, true},
    {"f32", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, false},
    {"f32t", GEMMD_F32, GEMMD_F32, GEMM_PRECISION_FULL, true},
    {"bf16_f32", GEMMD_BF16, GEMMD_F32, GEMM_PRECISION_FULL, false},
};

size_t fit_cell_bytes(void);
bool fit_cell_set(struct fit_cell *cell, const char *type, bool epilogue, uint64_t m, uint64_t n,
                  uint64_t k, const char *tile);
bool fit_cell_set_conv(struct fit_cell *cell, const char *type, const uint64_t layer[7],
                       const char *tile);
const struct sm90_rates *fit_rates_of(const struct fit_cell *cell);
void fit_estimate(const struct fit_cell *cells, size_t count, const struct sm90_rates *rates,
                  double *us);

size_t fit_cell_bytes(void)
{
    return sizeof(struct fit_cell);
}

/* False: the tile has another type, or cannot compute the product. */
bool fit_cell_set(struct fit_cell *cell, const char *type, bool epilogue, uint64_t m, uint64_t n,
                  uint64_t k, const char *tile)
{
    static const char bias; /* an address only */
    size_t i = 0;
    while (i < sizeof TYPES / sizeof *TYPES && strcmp(TYPES[i].name, type) != 0)
        i++;
    if (i == sizeof TYPES / sizeof *TYPES || !bench_tile_of(tile, TYPES[i].dtype, &cell->kernel))
        return false;
    cell->kernel.name = NULL; /* the caller's memory */
    cell->conv = (struct sm90_conv){0};
    struct gemm_problem p = {.dtype = TYPES[i].dtype,
                             .out = TYPES[i].out,
                             .precision = TYPES[i].precision,
                             .transb = TYPES[i].transb,
                             .m = m,
                             .n = n,
                             .k = k,
                             .batch = 1,
                             .alpha = 1};
    p.lda = sm90_leading(p.k, p.dtype);
    p.ldb = sm90_leading(p.transb ? p.k : p.n, p.dtype);
    p.ldc = sm90_leading(p.n, p.out);
    p.bias = epilogue ? &bias : NULL;
    cell->problem = p;
    const bool swaps = p.dtype == GEMMD_F32 && p.precision == GEMM_PRECISION_TF32 && !p.transb;
    return cell->kernel.swapped == swaps && cell->kernel.chunks == (split_k_chunks(&p) > 1);
}

bool fit_cell_set_conv(struct fit_cell *cell, const char *type, const uint64_t layer[7],
                       const char *tile)
{
    const uint64_t images = layer[0], channels = layer[1], side = layer[2], filters = layer[3];
    const uint64_t taps = layer[4], stride = layer[5], padding = layer[6];
    const uint64_t out = (side + 2 * padding - taps) / stride + 1;
    enum gemmd_dtype dtype;
    if (!dtype_from_name(type, &dtype) || !bench_tile_of(tile, dtype, &cell->kernel))
        return false;
    /* Convolutions have neither half tiles nor half boxes. */
    cell->kernel.name = NULL;
    cell->kernel.halves = cell->kernel.half_box = false;
    cell->conv = (struct sm90_conv){
        .dtype = dtype,
        .out = dtype_default_out(dtype),
        .alpha = 1,
        .images = images,
        .height = side,
        .width = side,
        .channels = channels,
        .x_image = side * side * channels,
        .x_row = side * channels,
        .x_pixel = channels,
        .filters = filters,
        .w_filter = taps * taps * channels,
        .w_tap = channels,
        .taps_h = taps,
        .taps_w = taps,
        .dilation_h = 1,
        .dilation_w = 1,
        .stride_h = stride,
        .stride_w = stride,
        .pad_top = padding,
        .pad_left = padding,
        .out_height = out,
        .out_width = out,
        .ldy = filters,
    };
    return true;
}

/* The constants that the daemon has for the product or the convolution. */
const struct sm90_rates *fit_rates_of(const struct fit_cell *cell)
{
    return cell->conv.images > 0 ? sm90_conv_rates(cell->conv.dtype)
                                 : sm90_rates_for(&cell->problem);
}

/* The times of the kernels alone: tables have no time to decompose operands of f32. */
void fit_estimate(const struct fit_cell *cells, size_t count, const struct sm90_rates *rates,
                  double *us)
{
    for (size_t i = 0; i < count; i++) {
        const struct fit_cell *cell = &cells[i];
        const struct gemm_problem *p = &cell->problem;
        const double operands = (double)p->k * (double)(p->m + p->n);
        us[i] = cell->conv.images > 0
                    ? sm90_conv_estimate_us(&cell->kernel, &cell->conv, rates, &sm90_h100_sxm)
                    : sm90_model_us(&cell->kernel, p, rates, &sm90_h100_sxm, operands) -
                          sm90_decompose_us(p, operands);
    }
}

/* grid.c launches kernels too. Here it does not, so no library of CUDA is needed. */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments)
{
    (void)config;
    (void)function;
    (void)arguments;
    return cudaErrorNotSupported;
}
