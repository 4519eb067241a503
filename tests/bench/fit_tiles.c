/*
 * What fit_tiles.py needs of the model of the choice of tiles, which is compiled with this file
 * into a library: the times of many tiles on many shapes by constants that are given.
 */
#include <stddef.h>
#include <string.h>

#include "kernels/cuda/sm90/gemm/model.h"
#include "kernels/cuda/sm90/gemm/split_k.h"
#include "tests/bench/tile_name.h"

/* A tile for a product. */
struct fit_cell {
    struct gemm_problem problem;
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
};

size_t fit_cell_bytes(void);
bool fit_cell_set(struct fit_cell *cell, const char *type, bool epilogue, uint64_t m, uint64_t n,
                  uint64_t k, const char *tile);
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
    const bool swaps = p.dtype == GEMMD_F32 && !p.transb;
    return cell->kernel.swapped == swaps && cell->kernel.chunks == (split_k_chunks(&p) > 1);
}

/* The constants that the daemon has for the product. */
const struct sm90_rates *fit_rates_of(const struct fit_cell *cell)
{
    return sm90_rates_for(&cell->problem);
}

void fit_estimate(const struct fit_cell *cells, size_t count, const struct sm90_rates *rates,
                  double *us)
{
    for (size_t i = 0; i < count; i++) {
        const struct gemm_problem *p = &cells[i].problem;
        us[i] = sm90_model_us(&cells[i].kernel, p, rates, &sm90_h100_sxm,
                              (double)p->k * (double)(p->m + p->n));
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
