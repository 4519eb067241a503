/* The check of a product on the GPU (freivalds.h). The formulas are those of kernels/freivalds.c.
 */
#include "kernels/cuda/freivalds/freivalds.h"

#include "kernels/cuda/freivalds/sums.cuh"
#include "kernels/freivalds.h"
#include "kernels/operations.h"

namespace freivalds
{

struct vectors {
    struct freivalds_header *header;
    double *residuals;              /* [batch][m] */
    double *r;                      /* [n] */
    double *br, *square, *absolute; /* [batch][k] of op(B) * r */
    double *expected, *bound;       /* [batch][m], without alpha */
};

static vectors place(const struct gemm_problem &p, double *residuals, void *workspace)
{
    const uint64_t k = p.batch * p.k, m = p.batch * p.m;
    double *own = (double *)((char *)workspace + sizeof(struct freivalds_header));
    double *r = own + m, *br = r + p.n, *expected = br + 3 * k;
    return {(struct freivalds_header *)workspace,
            residuals != NULL ? residuals : own,
            r,
            br,
            br + k,
            br + 2 * k,
            expected,
            expected + m};
}

/* The arguments of the kernels, except for the vectors. */
struct check {
    struct gemm_problem p;
    struct freivalds_rounding rounding;
    vectors v;
};

/* Adds a scaled element times r. `counts`: an element that is not finite is counted, as it must be
 * if a product of finite numbers can overflow. */
static __device__ __forceinline__ void add_product(struct freivalds_dot *dot, double x,
                                                   double scaled, double r, bool counts)
{
    const double product = scaled * r;
    if (counts)
        dot->strange += !isfinite(x);
    dot->value += product;
    dot->square += product * product;
    dot->absolute += fabs(product);
}

static __device__ struct freivalds_dot block_dot(const struct freivalds_dot &of, double *room,
                                                 uint32_t *counts)
{
    return {block_sum(of.value, room), block_sum(of.square, room), block_sum(of.absolute, room),
            block_sum(of.strange, counts)};
}

/* Most elements of r that one block draws. */
enum { FILL_ALONE = 8192 };

/* Draws r, and sums what is the same for every row. Several blocks add to a header of zeros. */
template <typename Out>
__global__ void __launch_bounds__(THREADS)
    fill_kernel(const __grid_constant__ check c, uint64_t seed)
{
    __shared__ double room[THREADS / 32];
    __shared__ uint32_t counts[THREADS / 32];
    const Out *bias = (const Out *)c.p.bias;
    struct freivalds_dot dot = {};
    double norm = 0;
    later_kernels_allow();
    earlier_kernels_wait();
    for (uint64_t j = (uint64_t)blockIdx.x * THREADS + threadIdx.x; j < c.p.n;
         j += (uint64_t)gridDim.x * THREADS) {
        const double r = freivalds_r(c.p.dtype, seed, j);
        c.v.r[j] = r;
        norm += r * r;
        if (bias != NULL)
            add_product(&dot, to_f64(bias[j]), to_f64(bias[j]), r, true);
    }
    norm = block_sum(norm, room);
    dot = block_dot(dot, room, counts);
    if (threadIdx.x != 0)
        return;
    if (gridDim.x == 1) {
        *c.v.header = {0, norm, dot, {}};
        return;
    }
    atomicAdd(&c.v.header->norm_square, norm);
    atomicAdd(&c.v.header->bias.value, dot.value);
    atomicAdd(&c.v.header->bias.square, dot.square);
    atomicAdd(&c.v.header->bias.absolute, dot.absolute);
    atomicAdd(&c.v.header->bias.strange, dot.strange);
}

/* Finishes the sums of op(B) * r that across_kernel has left. */
__global__ void __launch_bounds__(THREADS)
    weigh_kernel(const __grid_constant__ check c, weighing finish)
{
    later_kernels_allow();
    earlier_kernels_wait();
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < c.p.batch * c.p.k;
         i += (uint64_t)gridDim.x * THREADS) {
        double sums[3] = {c.v.br[i], c.v.square[i], c.v.absolute[i]};
        finish(sums);
        c.v.br[i] = sums[0];
        c.v.square[i] = sums[1];
    }
}

/* The sum of the magnitudes of one element's summands. For all threads of a block together. Not
 * inlined: rare, and the kernels below are the same for all types of operands. */
template <typename In>
static __device__ __noinline__ double magnitude_of(const struct gemm_problem &p, uint64_t index,
                                                   uint64_t row, uint64_t column, double *room)
{
    const In *a = (const In *)p.a + index * p.stride_a, *b = (const In *)p.b + index * p.stride_b;
    double sum = 0;
    for (uint64_t i = threadIdx.x; i < p.k; i += LINE_THREADS)
        sum += fabs(to_f64(a[p.transa ? i * p.lda + row : row * p.lda + i]) *
                    to_f64(b[p.transb ? column * p.ldb + i : i * p.ldb + column]));
    return block_sum(sum, room);
}

/* Calls f, which is for the host or for the device, with a value of the type of the operands. The
 * types are those that the check takes. */
#pragma nv_exec_check_disable
template <typename F>
static __host__ __device__ __forceinline__ auto with_operand(enum gemmd_dtype dtype, F f)
{
    switch (dtype) {
    case GEMMD_F64:
        return f(double());
    case GEMMD_F32:
        return f(float());
    case GEMMD_F16:
        return f(__half());
    case GEMMD_BF16:
        return f(__nv_bfloat16());
    case GEMMD_F8_E4M3:
        return f(__nv_fp8_e4m3());
    default:
        return f(int8_t());
    }
}

/* The same for the type of the result. */
#pragma nv_exec_check_disable
template <typename F>
static __host__ __device__ __forceinline__ auto with_result(enum gemmd_dtype dtype, F f)
{
    switch (dtype) {
    case GEMMD_F64:
        return f(double());
    case GEMMD_F16:
        return f(__half());
    case GEMMD_BF16:
        return f(__nv_bfloat16());
    default:
        return f(float());
    }
}

/* Whether the magnitudes of one element's summands reach so far that it may have overflowed. For
 * all threads of a block together. */
template <typename Out>
static __device__ bool may_overflow(const check &c, uint64_t index, uint64_t row, uint64_t column,
                                    double *room)
{
    const struct gemm_problem &p = c.p;
    const double sum = with_operand(
        p.dtype, [&](auto x) { return magnitude_of<decltype(x)>(p, index, row, column, room); });
    double after = 0;
    if (p.beta != 0)
        after +=
            fabs(p.beta * to_f64(((const Out *)p.c0)[index * p.stride_c0 + row * p.ldc0 + column]));
    if (p.bias != NULL)
        after += fabs(to_f64(((const Out *)p.bias)[column]));
    /* Half: what rounds up to infinity is a little smaller, and so may the magnitudes be. */
    const double limit = c.rounding.largest / 2;
    return !(sum < limit) || !(sum * fabs(p.alpha) + after < limit);
}

/* Whether overflow explains the first infinities and NaNs of a row. For all threads together. */
template <typename Out>
static __device__ bool overflow_explains(const check &c, uint64_t index, uint64_t row,
                                         const Out *line, double *room)
{
    __shared__ bool strange[LINE_THREADS];
    int seen = 0;
    for (uint64_t first = 0; first < c.p.n && seen < FREIVALDS_EXPLAINED_MAX;
         first += LINE_THREADS) {
        const uint64_t j = first + threadIdx.x;
        __syncthreads();
        strange[threadIdx.x] = j < c.p.n && !isfinite(to_f64(line[j]));
        __syncthreads();
        for (int i = 0; i < LINE_THREADS && seen < FREIVALDS_EXPLAINED_MAX; i++) {
            if (!strange[i])
                continue;
            seen++;
            if (!may_overflow<Out>(c, index, row, first + i, room))
                return false;
        }
    }
    return true;
}

/* Whether sums of a row of i8 may exceed 32 bits. For all threads of a block together. */
static __device__ bool may_wrap(const check &c, uint64_t index, uint64_t row, double *room)
{
    const struct gemm_problem &p = c.p;
    if (p.dtype != GEMMD_I8 || p.k < FREIVALDS_WRAPS_K)
        return false;
    const int8_t *a = (const int8_t *)p.a + index * p.stride_a;
    double sum = 0;
    for (uint64_t i = threadIdx.x; i < p.k; i += LINE_THREADS)
        sum += fabs(to_f64(a[p.transa ? i * p.lda + row : row * p.lda + i]));
    return block_sum(sum, room) * 128 > INT32_MAX;
}

/* The residual of a row whose result is finite and has finite operands. */
static __device__ double compare(const check &c, uint64_t at, const struct freivalds_dot &got,
                                 const struct freivalds_dot &start)
{
    const struct freivalds_dot bias = c.v.header->bias;
    const double alpha = c.p.alpha, magnitude = fabs(alpha);
    const double expected = c.v.expected[at] * alpha + start.value + bias.value;
    const double difference = fabs(got.value - expected);
    const double bound = c.v.bound[at] * magnitude +
                         FREIVALDS_CONFIDENCE *
                             (c.rounding.after * (root_of(start.square, start.absolute) +
                                                  root_of(bias.square, bias.absolute)) +
                              c.rounding.last * root_of(got.square, got.absolute) +
                              c.rounding.least * (1 + magnitude) * sqrt(c.v.header->norm_square)) +
                         (double)(c.p.n + 4) * FREIVALDS_OWN_ROUNDING *
                             (got.absolute + start.absolute + bias.absolute);
    if (!isfinite(bound) || isnan(difference))
        return 0; /* f64 near its limits: the check itself overflows */
    return difference == 0 ? 0 : difference / bound;
}

/* The residual of a row. For all threads of a block together; the result is that of thread 0. */
template <typename Out>
static __device__ __noinline__ double judge_row(const check &c, uint64_t index, uint64_t row,
                                                double *room, uint32_t *counts)
{
    const struct gemm_problem &p = c.p;
    const uint64_t at = index * p.m + row;
    const Out *line = (const Out *)p.c + index * p.stride_c + row * p.ldc;
    const Out *line0 = (const Out *)p.c0 + index * p.stride_c0 + row * p.ldc0;
    constexpr int STEP = VECTOR<Out>;
    const uintptr_t unit = sizeof(piece<Out>) - 1;
    const bool aligned = ((uintptr_t)line & unit) == 0, aligned0 = ((uintptr_t)line0 & unit) == 0;
    struct freivalds_dot got = {}, start = {};
    for (uint64_t j = (uint64_t)threadIdx.x * STEP; j < p.n; j += LINE_THREADS * STEP) {
        const bool whole = j + STEP <= p.n;
        const piece<Out> read =
            elements_of<Out>(aligned && whole ? read_whole(line, j) : read_end(line, j, p.n));
        piece<Out> read0 = {};
        if (p.beta != 0)
            read0 = elements_of<Out>(aligned0 && whole ? read_whole(line0, j)
                                                       : read_end(line0, j, p.n));
#pragma unroll
        for (int e = 0; e < STEP; e++) {
            if (j + e >= p.n)
                continue;
            const double r = c.v.r[j + e], x = to_f64(read.at[e]), x0 = to_f64(read0.at[e]);
            add_product(&got, x, x, r, std::is_same<Out, double>::value);
            if (p.beta != 0)
                add_product(&start, x0, p.beta * x0, r, true);
        }
    }
    if (!std::is_same<Out, double>::value)
        got.strange = !isfinite(got.absolute);
    got = block_dot(got, room, counts);
    if (p.beta != 0)
        start = block_dot(start, room, counts);
    if (may_wrap(c, index, row, room))
        return 0;
    const bool strange_operands =
        p.dtype == GEMMD_F64 ? isnan(c.v.bound[at] * fabs(p.alpha)) : !isfinite(c.v.bound[at]);
    if (strange_operands || c.v.header->bias.strange > 0 || start.strange > 0)
        return got.strange == 0 ? (double)INFINITY : 0;
    if (got.strange > 0)
        return overflow_explains<Out>(c, index, row, line, room) ? 0 : (double)INFINITY;
    return compare(c, at, got, start);
}

/* Whether a row needs more than the sums of its result, of which `absolute` is the sum of
 * magnitudes: judge_row. */
static __device__ bool needs_judging(const check &c, uint64_t at, double absolute)
{
    const struct gemm_problem &p = c.p;
    return p.beta != 0 || (p.dtype == GEMMD_I8 && p.k >= FREIVALDS_WRAPS_K) ||
           c.v.header->bias.strange > 0 || !isfinite(c.v.bound[at] * fabs(p.alpha)) ||
           !isfinite(absolute);
}

/* A block for several rows: sums of all, and of rows that need more than these one after
 * another. */
template <typename Out>
__global__ void __launch_bounds__(LINE_THREADS, LINE_BLOCKS)
    judge_kernel(const __grid_constant__ check c, bool aligned)
{
    __shared__ line_room<Out, step_b> sums;
    __shared__ double room[LINE_THREADS / 32];
    __shared__ uint32_t counts[LINE_THREADS / 32];
    __shared__ bool needs_more[step_b::LINES<Out>];
    const struct gemm_problem &p = c.p;
    const uint64_t first = (uint64_t)blockIdx.x * step_b::LINES<Out>, row = first + threadIdx.x;
    later_kernels_allow();
    earlier_kernels_wait();
    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        const double *vectors[1] = {c.v.r};
        double got[3], own = 0, worst = 0;
        line_sums<Out, step_b>((const Out *)p.c + index * p.stride_c + first * p.ldc, p.ldc,
                               p.m - first, p.n, aligned, vectors, sums, got);
        if (threadIdx.x < step_b::LINES<Out> && row < p.m) {
            const uint64_t at = index * p.m + row;
            const bool more = needs_judging(c, at, got[2]);
            needs_more[threadIdx.x] = more;
            if (!more)
                own = compare(c, at, {got[0], got[1], got[2], 0}, {});
            c.v.residuals[at] = worst = own;
        }
        __syncthreads();
        for (uint64_t i = 0; i < step_b::LINES<Out> && first + i < p.m; i++)
            if (needs_more[i]) {
                const double other = judge_row<Out>(c, index, first + i, room, counts);
                if (threadIdx.x == 0) {
                    c.v.residuals[index * p.m + first + i] = other;
                    worst = fmax(worst, other);
                }
            }
        if (threadIdx.x < step_b::LINES<Out> && worst > 0)
            atomicMax((unsigned long long *)&c.v.header->residual,
                      (unsigned long long)__double_as_longlong(worst));
    }
}

template <typename In>
static enum gemmd_error operands_launch(cudaStream_t stream, const check &c, const weighing &finish)
{
    const struct gemm_problem &p = c.p;
    const matrix<In> b =
        matrix_of<In>(p.b, p.ldb, p.stride_b, p.transb ? p.n : p.k, p.transb ? p.k : p.n, p.batch);
    const matrix<In> a =
        matrix_of<In>(p.a, p.lda, p.stride_a, p.transa ? p.k : p.m, p.transa ? p.m : p.k, p.batch);
    const operands<step_b> of_b = {{c.v.r}, {c.v.br, c.v.square, c.v.absolute}, 0, p.k, finish};
    const operands<step_a> of_a = {{c.v.br, c.v.square}, {c.v.expected, c.v.bound}, p.k, p.m, {}};
    enum gemmd_error code = sums_launch(stream, b, of_b, !p.transb);
    if (code == GEMMD_OK && p.transb)
        code = launch_overlapped(weigh_kernel, dim3(grid_blocks(p.batch * p.k, THREADS)),
                                 dim3(THREADS), 0, stream, c, finish);
    if (code == GEMMD_OK)
        code = sums_launch(stream, a, of_a, !p.transa);
    return code;
}

static enum gemmd_error run(cudaStream_t stream, const struct gemm_problem &p, uint64_t seed,
                            double *residuals, void *workspace)
{
    const check c = {p, freivalds_rounding_of(&p), place(p, residuals, workspace)};
    const weighing finish = {FREIVALDS_CONFIDENCE * c.rounding.relative, (double)(p.n + p.k + 4),
                             p.dtype == GEMMD_F64};
    const bool alone = p.n <= FILL_ALONE;
    enum gemmd_error code = GEMMD_OK;
    if (!alone || p.transa || p.transb) /* what blocks add to must be zero */
        code = clear(stream, p, workspace);
    if (code == GEMMD_OK)
        code = with_result(p.out, [&](auto out) {
            return launch(fill_kernel<decltype(out)>, dim3(alone ? 1 : grid_blocks(p.n, THREADS)),
                          dim3(THREADS), stream, c, seed);
        });
    if (code == GEMMD_OK)
        code = with_operand(
            p.dtype, [&](auto in) { return operands_launch<decltype(in)>(stream, c, finish); });
    if (code != GEMMD_OK)
        return code;
    return with_result(p.out, [&](auto out) {
        using Out = decltype(out);
        return launch_overlapped(
            judge_kernel<Out>,
            dim3(grid_blocks_x(p.m, step_b::LINES<Out>), 1, grid_blocks(p.batch, 1)),
            dim3(LINE_THREADS), 0, stream, c,
            matrix_of<Out>(p.c, p.ldc, p.stride_c, p.m, p.n, p.batch).aligned);
    });
}

/* Whether the check takes the types. */
static bool takes_types(const struct gemm_problem &p)
{
    switch (p.dtype) {
    case GEMMD_F64:
        return p.out == GEMMD_F64;
    case GEMMD_I8:
        return p.out == GEMMD_F32;
    case GEMMD_F32:
    case GEMMD_F16:
    case GEMMD_BF16:
    case GEMMD_F8_E4M3:
        return p.out == GEMMD_F32 || p.out == GEMMD_F16 || p.out == GEMMD_BF16;
    default:
        return false;
    }
}

/* ---- small products ---- */

enum { SMALL_LINES = 8 /* lines of which a thread has an element in flight */ };

/* What a block keeps in shared memory for the product that it checks. */
struct small_room {
    check c;
    struct freivalds_header header;
    double r[FREIVALDS_SMALL_SIDE], br[FREIVALDS_SMALL_SIDE], square[FREIVALDS_SMALL_SIDE];
    double expected[FREIVALDS_SMALL_SIDE], bound[FREIVALDS_SMALL_SIDE];
    bool needs_more[FREIVALDS_SMALL_SIDE];
    double sums[LINE_THREADS / 32];
    uint32_t counts[LINE_THREADS / 32];
};

/* Makes the sums over the elements of each line, a warp for SMALL_LINES lines, and has
 * take(line, sums) called by one thread for each line. */
template <typename T, typename Step, typename Take>
static __device__ void small_along(const T *start, uint64_t ld, uint32_t lines, uint32_t length,
                                   const double *const (&vectors)[Step::VECTORS], Take take)
{
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t first = threadIdx.x / 32 * SMALL_LINES; first < lines;
         first += LINE_THREADS / 32 * SMALL_LINES) {
        double sums[SMALL_LINES][Step::SUMS] = {};
        for (uint32_t i = lane; i < length; i += 32) {
            T read[SMALL_LINES];
            double v[Step::VECTORS];
#pragma unroll
            for (int l = 0; l < SMALL_LINES; l++)
                read[l] = start[(uint64_t)min(first + l, lines - 1) * ld + i];
#pragma unroll
            for (int k = 0; k < Step::VECTORS; k++)
                v[k] = vectors[k][i];
#pragma unroll
            for (int l = 0; l < SMALL_LINES; l++)
                Step::add(read[l], v, sums[l]);
        }
#pragma unroll
        for (int l = 0; l < SMALL_LINES; l++) {
#pragma unroll
            for (int s = 0; s < Step::SUMS; s++)
                for (int offset = 16; offset > 0; offset /= 2)
                    sums[l][s] += __shfl_down_sync(0xffffffffu, sums[l][s], offset);
            if (lane == 0 && first + l < lines)
                take(first + l, sums[l]);
        }
    }
}

/* Makes the sums over the lines, a thread for each column. */
template <typename T, typename Step, typename Take>
static __device__ void small_across(const T *start, uint64_t ld, uint32_t lines, uint32_t length,
                                    const double *const (&vectors)[Step::VECTORS], Take take)
{
    for (uint32_t column = threadIdx.x; column < length; column += LINE_THREADS) {
        double sums[Step::SUMS] = {};
        for (uint32_t first = 0; first < lines; first += SMALL_LINES) {
            T read[SMALL_LINES];
#pragma unroll
            for (int l = 0; l < SMALL_LINES; l++)
                read[l] = start[(uint64_t)min(first + l, lines - 1) * ld + column];
#pragma unroll
            for (int l = 0; l < SMALL_LINES; l++) {
                double v[Step::VECTORS];
#pragma unroll
                for (int k = 0; k < Step::VECTORS; k++)
                    v[k] = vectors[k][min(first + l, lines - 1)];
                if (first + l < lines)
                    Step::add(read[l], v, sums);
            }
        }
        take(column, sums);
    }
}

/* Draws r, and sums what is the same for every row. For all threads of a block together. */
template <typename Out> static __device__ void small_fill(small_room &room, uint64_t seed)
{
    const struct gemm_problem &p = room.c.p;
    const Out *bias = (const Out *)p.bias;
    struct freivalds_dot dot = {};
    double norm = 0;
    for (uint32_t j = threadIdx.x; j < p.n; j += LINE_THREADS) {
        const double r = freivalds_r(p.dtype, seed, j);
        room.r[j] = r;
        norm += r * r;
        if (bias != NULL)
            add_product(&dot, to_f64(bias[j]), to_f64(bias[j]), r, true);
    }
    norm = block_sum(norm, room.sums);
    dot = block_dot(dot, room.sums, room.counts);
    if (threadIdx.x == 0)
        room.header = {0, norm, dot, {}};
    __syncthreads();
}

/* Makes the sums of op(B) * r, and of op(A) with these. For all threads of a block together. */
template <typename In> static __device__ __noinline__ void small_operands(small_room &room)
{
    const struct gemm_problem &p = room.c.p;
    const uint32_t m = (uint32_t)p.m, n = (uint32_t)p.n, k = (uint32_t)p.k;
    const weighing finish = {FREIVALDS_CONFIDENCE * room.c.rounding.relative, (double)(n + k + 4),
                             p.dtype == GEMMD_F64};
    const double *const of_b[1] = {room.r}, *const of_a[2] = {room.br, room.square};
    const auto take_b = [&](uint32_t i, double sums[3]) {
        finish(sums);
        room.br[i] = sums[0];
        room.square[i] = sums[1];
    };
    const auto take_a = [&](uint32_t i, const double sums[2]) {
        room.expected[i] = sums[0];
        room.bound[i] = sums[1];
    };
    if (p.transb)
        small_across<In, step_b>((const In *)p.b, p.ldb, n, k, of_b, take_b);
    else
        small_along<In, step_b>((const In *)p.b, p.ldb, k, n, of_b, take_b);
    __syncthreads();
    if (p.transa)
        small_across<In, step_a>((const In *)p.a, p.lda, k, m, of_a, take_a);
    else
        small_along<In, step_a>((const In *)p.a, p.lda, m, k, of_a, take_a);
}

/* Compares the result with these sums, and leaves the largest residual in the header. For all
 * threads of a block together. */
template <typename Out> static __device__ __noinline__ void small_judge(small_room &room)
{
    const check &c = room.c;
    const struct gemm_problem &p = c.p;
    const uint32_t m = (uint32_t)p.m, n = (uint32_t)p.n;
    const double *const of_c[1] = {room.r};
    const auto judge = [&](double residual) {
        if (residual > 0)
            atomicMax((unsigned long long *)&room.header.residual,
                      (unsigned long long)__double_as_longlong(residual));
    };
    small_along<Out, step_b>((const Out *)p.c, p.ldc, m, n, of_c,
                             [&](uint32_t i, const double got[3]) {
                                 room.needs_more[i] = needs_judging(c, i, got[2]);
                                 if (!room.needs_more[i])
                                     judge(compare(c, i, {got[0], got[1], got[2], 0}, {}));
                             });
    __syncthreads();
    for (uint32_t i = 0; i < m; i++)
        if (room.needs_more[i]) {
            const double residual = judge_row<Out>(c, 0, i, room.sums, room.counts);
            if (threadIdx.x == 0)
                judge(residual);
        }
    __syncthreads();
}

/* A block for each product. The blocks read A and B, which takes microseconds from the host's
 * memory, while the kernel before them computes C. */
__global__ void __launch_bounds__(LINE_THREADS) small_kernel(struct operation_small_check *checks)
{
    __shared__ __align__(16) unsigned char memory[sizeof(small_room)];
    small_room &room = *(small_room *)memory;
    struct operation_small_check &mine = checks[blockIdx.x];
    const uint64_t seed = mine.seed;
    if (threadIdx.x == 0) {
        const struct gemm_problem &p = mine.problem.gemm;
        room.c = {
            p,
            freivalds_rounding_of(&p),
            {&room.header, NULL, room.r, room.br, room.square, NULL, room.expected, room.bound}};
    }
    __syncthreads();
    with_result(room.c.p.out, [&](auto out) { small_fill<decltype(out)>(room, seed); });
    with_operand(room.c.p.dtype, [&](auto in) { small_operands<decltype(in)>(room); });
    earlier_kernels_wait(); /* for C: A and B were there before the launch */
    __syncthreads();
    with_result(room.c.p.out, [&](auto out) { small_judge<decltype(out)>(room); });
    if (threadIdx.x == 0)
        mine.residual = __longlong_as_double((long long)room.header.residual);
}

} // namespace freivalds

enum gemmd_error freivalds_small_launch(cudaStream_t stream, struct operation_small_check *checks,
                                        uint32_t count)
{
    return launch_overlapped(freivalds::small_kernel, dim3(count), dim3(freivalds::LINE_THREADS), 0,
                             stream, checks);
}

enum gemmd_error freivalds_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                  uint64_t seed, double *residuals, void *workspace)
{
    if (problem->dtype == GEMMD_I8 && problem->out == GEMMD_I32)
        return freivalds_i32_launch(stream, problem, seed, residuals, workspace);
    if (!freivalds::takes_types(*problem))
        return GEMMD_ERR_UNSUPPORTED;
    return freivalds::run(stream, *problem, seed, residuals, workspace);
}
