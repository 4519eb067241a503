#include "kernels/cuda/sm90/gemm/split_k.h"

#include "proto/dtype.h"
#include "proto/size.h"

/* Limits of split-k with a join. Bytes of k are those of one row of A or column of B. */
enum {
    COLUMNS_MAX = 256,  /* a product with more is not split */
    COLUMNS_TILE = 64,  /* columns of a tile, by which chunks grow (tiles_that_count) */
    CHUNK_BYTES = 2048, /* a chunk has a multiple of these bytes of k */
    K_BYTES_MIN =
        12288, /* with a shorter k the additional launches take the time that chunks save */
    CHUNKS_MIN = 4,
    CHUNKS_MAX = 128, /* about the number of multiprocessors */
    /* From a longer k on, eight blocks a tile in one launch take longer than a join. */
    K_ONE_LAUNCH_MAX = 16384,
    ALIGNMENT = 256 /* bytes, of the sums in the workspace */
};

/* The factor by which the shortest chunk is longer for more columns: the number of tiles of
 * columns, so that the sums are small compared with the operands. The factor is 1 for i8, whose
 * sums are exact, because a product of i8 with many rows need not be split at all. */
static uint64_t tiles_that_count(enum gemmd_dtype dtype, uint64_t n)
{
    return dtype == GEMMD_I8 ? 1 : size_blocks(n, COLUMNS_TILE);
}

/* The length of a chunk, from n, k and the type. 0: k is not split. */
static uint64_t chunk_of(enum gemmd_dtype dtype, uint64_t n, uint64_t k)
{
    const uint64_t element = dtype_size(dtype), unit = CHUNK_BYTES / element;
    const uint64_t least = tiles_that_count(dtype, n) * unit;
    if (n > COLUMNS_MAX || k * element < K_BYTES_MIN || k < CHUNKS_MIN * least)
        return 0;
    const uint64_t chunk = size_blocks(size_blocks(k, CHUNKS_MAX), unit) * unit;
    return chunk > least ? chunk : least;
}

/* Measured (kernels/experiments/tf32_i8.md): up to 1024 columns adding chunks costs products with
 * many rows nothing. Up to 1664 it costs those with 3000 rows and more 10 to 25 %, and those with
 * up to 128 rows are 1.4 to 1.9 times as fast. */
static uint32_t tf32_chunks(uint64_t n, uint64_t k)
{
    static const struct {
        uint64_t columns_max;
        uint64_t four_from, eight_from; /* the least k that has four chunks, or eight */
    } CUTS[] = {
        {512, 1536, 1536}, {768, 2048, 8192}, {1024, 3072, UINT64_MAX}, {1664, 4096, UINT64_MAX}};
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        if (n > CUTS[i].columns_max)
            continue;
        if (k >= CUTS[i].eight_from)
            return 8;
        return k >= CUTS[i].four_from ? 4 : 1;
    }
    return 1;
}

/* Measured (kernels/experiments/long_k.md): up to NARROW columns four to eight blocks a tile are
 * faster, however many rows there are. Up to WIDE columns adding chunks costs products with many
 * rows nothing, and beyond WIDE up to 15 % of their time. The numbers of chunks are 4 and 8 because
 * clusters of four and of eight blocks leave the fewest multiprocessors of a group of 16 idle. */
uint32_t split_k_chunks(const struct gemm_problem *p)
{
    enum { NARROW = 256, WIDE = 768, NARROW_CHUNK = 1024, WIDE_CHUNK = 2048, FOUR_FROM = 3 };
    const bool is_narrow = p->n <= NARROW;
    if (is_narrow && p->k > K_ONE_LAUNCH_MAX)
        return 1;
    if (p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32)
        return tf32_chunks(p->n, p->k);
    if (p->scales != GEMM_SCALES_NONE || dtype_size(p->dtype) != 2 || dtype_size(p->out) != 2 ||
        p->n > WIDE)
        return 1;
    const uint64_t chunks = p->k / (is_narrow ? NARROW_CHUNK : WIDE_CHUNK);
    if (chunks < FOUR_FROM)
        return 1;
    return chunks < 8 ? 4 : 8;
}

bool split_k_plan(const struct gemm_problem *p, struct split_k *split)
{
    const uint64_t line = 16 / sizeof(float); /* rows of sums begin at multiples of 16 bytes */
    *split = (struct split_k){.chunk = split_k_chunks(p) > 1 ? 0 : chunk_of(p->dtype, p->n, p->k)};
    if (split->chunk == 0)
        return true;
    split->count = size_blocks(p->k, split->chunk);
    split->ld = size_blocks(p->n, line) * line;
    return size_mul(p->m, split->ld, &split->stride) &&
           size_mul(split->stride, split->count, &split->bytes) &&
           size_mul(split->bytes, p->batch, &split->bytes) &&
           size_mul(split->bytes, sizeof(float), &split->bytes) &&
           size_align(split->bytes, ALIGNMENT, &split->bytes);
}

uint64_t split_k_launches(const struct split_k *split, const struct gemm_problem *p)
{
    const uint64_t full = p->k / split->chunk; /* chunks that are not shorter than the others */
    if (p->batch > 1)
        return split->count;
    return full == split->count ? 1 : 2;
}

/* The problem with sums of 32 bits as its results and no epilogue. */
static struct gemm_problem sums_of(const struct split_k *split, const struct gemm_problem *p,
                                   void *sums)
{
    struct gemm_problem q = *p;
    q.out = p->dtype == GEMMD_I8 ? GEMMD_I32 : GEMMD_F32;
    q.act = GEMM_ACT_NONE;
    q.alpha = 1;
    q.beta = 0;
    q.bias = NULL;
    q.c0 = NULL;
    q.c = sums;
    q.ldc = split->ld;
    q.stride_c = split->stride;
    return q;
}

struct gemm_problem split_k_problem(const struct split_k *split, const struct gemm_problem *p,
                                    uint64_t i, void *sums)
{
    const uint64_t full = p->k / split->chunk;
    const bool alone = p->batch == 1;
    const uint64_t first = alone ? i * full : i; /* the first chunk of launch i */
    const uint64_t element = dtype_size(p->dtype);
    const uint64_t step_a = split->chunk * (p->transa ? p->lda : 1);
    const uint64_t step_b = split->chunk * (p->transb ? 1 : p->ldb);
    struct gemm_problem part = sums_of(split, p, (float *)sums + first * p->batch * split->stride);
    part.k = first < full ? split->chunk : p->k - first * split->chunk;
    part.a = (const char *)p->a + first * step_a * element;
    part.b = (const char *)p->b + first * step_b * element;
    if (alone) {
        part.batch = first < full ? full : 1;
        part.stride_a = step_a;
        part.stride_b = step_b;
    }
    return part;
}

struct gemm_problem split_k_one_launch(const struct split_k *split, const struct gemm_problem *p,
                                       void *sums)
{
    return sums_of(split, p, sums);
}

double split_k_join_us(const struct split_k *split, const struct gemm_problem *p, uint64_t count)
{
    const double launch_us = 2, bytes_per_us = 2e6; /* bytes of sums, each written and read once */
    return launch_us + (double)(count * p->batch * split->stride * sizeof(float)) / bytes_per_us;
}
