/*
 * softmax_online - the serving kernel of the softmax, in one launch.
 *
 * Rows of up to 16,384 elements (8192 of f64) are kept in registers (rows.cuh), 32 elements (16 of
 * f64) in a thread at most: each element is read and written once. The loads of 1024 threads are
 * 128 KiB (16 bits: 64 KiB) in flight on a multiprocessor. Longer rows are read twice: the first
 * pass keeps a base and a sum for each thread, and multiplies the sum whenever the base grows
 * (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018). The sum is
 * compensated, so that its error does not grow with the length of the row (W. Kahan, "Further
 * remarks on reducing truncation errors", 1965).
 *
 * A launch takes up to PROBLEMS problems of one kind, so that many small problems share one.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/softmax/rows.cuh"
#include "kernels/cuda/softmax/softmax.h"

namespace softmax_online
{

using namespace softmax;

constexpr unsigned PROBLEMS = 32, LONG = 512;

/* A thread has 1 / SHARE as many elements of f64 as of f32, so that both take as many registers. */
template <typename T> constexpr unsigned SHARE = sizeof(T) == 8 ? 2 : 1;
/* The threads that fit on a multiprocessor: more would leave too few registers for each. With 768
 * threads, a multiprocessor would have one block of 512. */
template <typename T, unsigned EACH>
constexpr unsigned RESIDENT = sizeof(T) == 2   ? (EACH < 256 ? 768 : 1024)
                              : sizeof(T) == 4 ? 640
                                               : 512;

struct problems {
    uint32_t count;
    uint32_t first_block[PROBLEMS];
    bool aligned_x[PROBLEMS], aligned_y[PROBLEMS]; /* every row begins at a multiple of a vector */
    struct softmax_problem list[PROBLEMS];
    /* Of all problems, in the type of their scores. */
    scaling<float> narrow;
    scaling<double> wide;
};

template <typename W>
static __device__ __forceinline__ const scaling<W> &scaling_of(const struct problems &all)
{
    if constexpr (sizeof(W) == sizeof(double))
        return all.wide;
    else
        return all.narrow;
}

static __device__ __forceinline__ uint32_t problem_of_block(const struct problems &all,
                                                            uint32_t *block)
{
    uint32_t number = all.count - 1;
    while (number > 0 && all.first_block[number] > blockIdx.x)
        number--;
    *block = blockIdx.x - all.first_block[number];
    return number;
}

template <typename T, typename Out, unsigned EACH, unsigned ELEMENTS>
__global__ void __launch_bounds__(EACH < 128 ? 128 : EACH,
                                  (RESIDENT<T, EACH>) / (EACH < 128 ? 128 : EACH))
    softmax_online_rows(const __grid_constant__ struct problems all)
{
    constexpr unsigned ROWS = EACH < 128 ? 128 / EACH : 1;
    constexpr unsigned VECTORS = ELEMENTS / SHARE<T> / vector<T>::WIDTH;
    using W = typename wide_of<T>::type;
    __shared__ W shared[EACH < 128 ? 128 / 32 : EACH / 32];
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct softmax_problem &p = all.list[number];
    const uint64_t r = (uint64_t)block * ROWS + threadIdx.x / EACH;
    const bool there = r < p.rows;
    const scaling<W> &scale = scaling_of<W>(all);
    struct row<T, EACH, VECTORS> row;
    row.first = 0;
    row.length = there ? length_of(p, r) : 0;
    row.end = there ? (uint32_t)p.length : 0;
    row.load((const T *)p.x + r * p.x_leading, all.aligned_x[number]);
    const W top = join_threads<larger, EACH>(row.most(scale.unit), shared);
    Out *y = (Out *)p.y + r * p.y_leading;
    /* The branches share nothing, so that registers hold either X or its exponentials. */
    if (p.log) {
        const W sum = join_threads<added, EACH>(row.total_of_exponentials(scale, top), shared);
        row.store_log_softmax(y, all.aligned_y[number], scale, top, sum);
    } else {
        W e[VECTORS][vector<T>::WIDTH];
        row.exponentials(scale, top, e);
        const W sum = join_threads<added, EACH>(row.total(e), shared);
        row.store_softmax(y, all.aligned_y[number], e, 1 / sum);
    }
}

template <typename T, typename Out>
__global__ void __launch_bounds__(LONG)
    softmax_online_long(const __grid_constant__ struct problems all)
{
    constexpr unsigned VECTORS = 16 / vector<T>::WIDTH, STEP = LONG * 16;
    using W = typename wide_of<T>::type;
    __shared__ W shared[LONG / 32];
    uint32_t block;
    const uint32_t number = problem_of_block(all, &block);
    const struct softmax_problem &p = all.list[number];
    const T *x = (const T *)p.x + (uint64_t)block * p.x_leading;
    const scaling<W> &scale = scaling_of<W>(all);
    const uint32_t length = length_of(p, block);
    struct row<T, LONG, VECTORS> row;
    row.length = length;
    row.end = (uint32_t)p.length;
    W top = W(-CUDART_INF), sum = 0, lost = 0, e[VECTORS][vector<T>::WIDTH];
    for (uint64_t first = 0; first < length; first += STEP) {
        row.first = (uint32_t)first;
        row.load(x, all.aligned_x[number]);
        /* A base that is a little less than the greatest score stays as it is. Each new base then
         * divides the sum so far by e or more, so that the errors of many factors do not add up. */
        const W most = row.most(scale.unit);
        const W higher = (most - top) * scale.factor <= 1 ? top : fmax(top, most);
        /* While there is only minus infinity any base is right; a NaN makes the sum NaN. */
        row.exponentials(scale, higher == W(-CUDART_INF) ? 0 : higher, e);
        const W factor = top == higher ? 1 : exp((top - higher) * scale.factor);
        const W before = sum * factor, term = row.total(e) - lost * factor;
        sum = before + term;
        lost = (sum - before) - term;
        top = higher;
    }
    const W all_top = join_threads<larger, LONG>(top, shared);
    /* A thread that has seen only minus infinity adds nothing. If all have, the row is NaN. */
    const W part = sum * exp((top - all_top) * scale.factor);
    const W total = join_threads<added, LONG>(part, shared);
    Out *y = (Out *)p.y + (uint64_t)block * p.y_leading;
    for (uint64_t first = 0; first < p.length; first += STEP) {
        row.first = (uint32_t)first;
        row.load(x, all.aligned_x[number]);
        if (p.log) {
            row.store_log_softmax(y, all.aligned_y[number], scale, all_top, total);
        } else {
            row.exponentials(scale, all_top, e);
            row.store_softmax(y, all.aligned_y[number], e, 1 / total);
        }
    }
}

/* The bytes of an element. */
static uint64_t bytes_of(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F64 ? 8 : dtype == GEMMD_F32 ? 4 : 2;
}

/* What the problems of a launch have in common: the types, the scale, and the first shape of
 * threads and elements in each that holds a row. */
struct kind {
    enum gemmd_dtype dtype, out;
    double scale;
    int shape;
};
static const struct {
    unsigned each, elements;
} shapes[] = {{8, 8},   {8, 16},   {16, 16},  {32, 16}, {32, 32},
              {64, 32}, {128, 32}, {256, 32}, {512, 32}};
constexpr int SHAPES = sizeof shapes / sizeof *shapes;

static struct kind kind_of(const struct softmax_problem &p)
{
    const uint64_t share = p.dtype == GEMMD_F64 ? SHARE<double> : 1;
    int shape = 0;
    while (shape < SHAPES && shapes[shape].each * shapes[shape].elements < p.length * share)
        shape++;
    return {p.dtype, p.out, p.scale, shape};
}

static uint64_t blocks_of(const struct softmax_problem &p, int shape)
{
    const unsigned rows = shape < SHAPES && shapes[shape].each < 128 ? 128 / shapes[shape].each : 1;
    return (p.rows + rows - 1) / rows;
}

template <typename T, typename Out>
static enum gemmd_error start(cudaStream_t stream, int shape, unsigned blocks,
                              const struct problems &all)
{
    const dim3 grid(blocks), small(128);
    switch (shape) {
    case 0:
        return launch(softmax_online_rows<T, Out, 8, 8>, grid, small, stream, all);
    case 1:
        return launch(softmax_online_rows<T, Out, 8, 16>, grid, small, stream, all);
    case 2:
        return launch(softmax_online_rows<T, Out, 16, 16>, grid, small, stream, all);
    case 3:
        return launch(softmax_online_rows<T, Out, 32, 16>, grid, small, stream, all);
    case 4:
        return launch(softmax_online_rows<T, Out, 32, 32>, grid, small, stream, all);
    case 5:
        return launch(softmax_online_rows<T, Out, 64, 32>, grid, small, stream, all);
    case 6:
        return launch(softmax_online_rows<T, Out, 128, 32>, grid, small, stream, all);
    case 7:
        return launch(softmax_online_rows<T, Out, 256, 32>, grid, dim3(256), stream, all);
    case 8:
        return launch(softmax_online_rows<T, Out, 512, 32>, grid, dim3(512), stream, all);
    default:
        return launch(softmax_online_long<T, Out>, grid, dim3(LONG), stream, all);
    }
}

static enum gemmd_error start_kind(cudaStream_t stream, const struct kind &kind, uint64_t blocks,
                                   const struct problems &all)
{
    const unsigned grid = (unsigned)blocks;
    switch (kind.dtype) {
    case GEMMD_F64:
        return start<double, double>(stream, kind.shape, grid, all);
    case GEMMD_F32:
        return start<float, float>(stream, kind.shape, grid, all);
    case GEMMD_F16:
        return kind.out == GEMMD_F32 ? start<__half, float>(stream, kind.shape, grid, all)
                                     : start<__half, __half>(stream, kind.shape, grid, all);
    case GEMMD_BF16:
        return kind.out == GEMMD_F32
                   ? start<__nv_bfloat16, float>(stream, kind.shape, grid, all)
                   : start<__nv_bfloat16, __nv_bfloat16>(stream, kind.shape, grid, all);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

} // namespace softmax_online

enum gemmd_error softmax_online_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count)
{
    using namespace softmax_online;
    bool done[OPERATION_GROUP_MAX] = {};
    for (uint32_t i = 0; i < count; i++) {
        if (done[i])
            continue;
        const struct kind kind = kind_of(*(const struct softmax_problem *)members[i].problem);
        struct problems all = {};
        uint64_t blocks = 0;
        all.narrow = scaling<float>(kind.scale);
        all.wide = scaling<double>(kind.scale);
        for (uint32_t j = i; j < count && all.count < PROBLEMS; j++) {
            const struct softmax_problem &p = *(const struct softmax_problem *)members[j].problem;
            const struct kind other = kind_of(p);
            if (done[j] || kind.dtype != other.dtype || kind.out != other.out ||
                kind.scale != other.scale || kind.shape != other.shape)
                continue;
            const uint64_t in = bytes_of(p.dtype), out = bytes_of(p.out);
            const uint64_t group = 16 / in * out; /* bytes of Y for a vector of X */
            done[j] = true;
            all.list[all.count] = p;
            all.aligned_x[all.count] = (uintptr_t)p.x % 16 == 0 && p.x_leading * in % 16 == 0;
            all.aligned_y[all.count] =
                (uintptr_t)p.y % group == 0 && p.y_leading * out % group == 0;
            all.first_block[all.count++] = (uint32_t)blocks;
            blocks += blocks_of(p, kind.shape);
        }
        const enum gemmd_error code = start_kind(stream, kind, blocks, all);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}
