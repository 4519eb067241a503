/* See device.h. Plain on purpose: what checks the kernels should not share their ideas. */
#include "tests/bench/device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>

enum { BLOCKS = 1024, THREADS = 256 };

static __host__ __device__ uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

static __device__ double load(const void *p, uint64_t i, int dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return static_cast<const double *>(p)[i];
    case GEMMD_F32:
        return static_cast<const float *>(p)[i];
    case GEMMD_F16:
        return __half2float(static_cast<const __half *>(p)[i]);
    case GEMMD_BF16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(p)[i]);
    case GEMMD_F8_E4M3:
        return (float)static_cast<const __nv_fp8_e4m3 *>(p)[i];
    case GEMMD_I8:
        return static_cast<const int8_t *>(p)[i];
    default:
        return static_cast<const int32_t *>(p)[i];
    }
}

static __device__ void store(void *p, uint64_t i, int dtype, float v)
{
    switch (dtype) {
    case GEMMD_F64:
        static_cast<double *>(p)[i] = v;
        break;
    case GEMMD_F32:
        static_cast<float *>(p)[i] = v;
        break;
    case GEMMD_F16:
        static_cast<__half *>(p)[i] = __float2half(v);
        break;
    case GEMMD_BF16:
        static_cast<__nv_bfloat16 *>(p)[i] = __float2bfloat16(v);
        break;
    case GEMMD_F8_E4M3:
        static_cast<__nv_fp8_e4m3 *>(p)[i] = __nv_fp8_e4m3(v);
        break;
    case GEMMD_I8:
        static_cast<int8_t *>(p)[i] = (int8_t)rintf(v * 127.0f);
        break;
    default:
        static_cast<int32_t *>(p)[i] = (int32_t)rintf(v * 1000.0f);
    }
}

static __global__ void fill(void *data, uint64_t elements, int dtype, uint32_t seed)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < elements; i += step) {
        const uint32_t x = mix((uint32_t)i * 2654435761u + seed + (uint32_t)(i >> 32));
        store(data, i, dtype, (float)(x >> 8) / 8388608.0f - 1.0f);
    }
}

static __device__ double activate(double v, int act)
{
    switch (act) {
    case 1:
        return v < 0 ? 0 : v;
    case 2:
        return 0.5 * v * (1 + erf(v * CUDART_SQRT_HALF));
    case 3:
        return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case 4:
        return v / (1 + exp(-v));
    default:
        return v;
    }
}

static __global__ void reference_kernel(bench_product p, double *out)
{
    const uint64_t column = blockIdx.x * 16ull + threadIdx.x,
                   row = blockIdx.y * 16ull + threadIdx.y;
    const uint64_t batch = blockIdx.z;
    if (row >= p.m || column >= p.n) {
        return;
    }
    double sum = 0;
    for (uint64_t i = 0; i < p.k; i++) {
        const uint64_t ia = p.transa ? i * p.lda + row : row * p.lda + i;
        const uint64_t ib = p.transb ? column * p.ldb + i : i * p.ldb + column;
        sum += load(p.a, batch * p.stride_a + ia, p.dtype) *
               load(p.b, batch * p.stride_b + ib, p.dtype);
    }
    sum *= p.alpha;
    if (p.beta != 0) {
        sum += p.beta * load(p.c0, batch * p.stride_c0 + row * p.ldc0 + column, p.out);
    }
    if (p.bias) {
        sum += load(p.bias, column, p.out);
    }
    out[(batch * p.m + row) * p.n + column] = activate(sum, p.act);
}

static __global__ void compare(const void *c, int out, uint64_t batch, uint64_t m, uint64_t n,
                               uint64_t ldc, uint64_t stride, const double *reference,
                               const void *other, double atol, double rtol,
                               bench_difference *difference)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x, count = batch * m * n;
    double squares = 0, reference_squares = 0, largest = 0;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count; i += step) {
        const uint64_t b = i / (m * n), row = i / n % m, column = i % n;
        const uint64_t at = b * stride + row * ldc + column;
        const double got = load(c, at, out);
        const double wanted = other ? load(other, at, out) : reference[i];
        const double d = fabs(got - wanted);
        if (!(d <= atol + rtol * fabs(wanted))) {
            atomicAdd(&difference->bad, 1ull);
            if (atomicMin(&difference->first_bad, (unsigned long long)i) > i) {
                difference->first_got = got; /* of one of the first; good enough to read */
                difference->first_wanted = wanted;
            }
        }
        squares += d * d;
        reference_squares += wanted * wanted;
        largest = fmax(largest, d);
    }
    atomicAdd(&difference->squares, squares);
    atomicAdd(&difference->reference_squares, reference_squares);
    /* Non-negative doubles are ordered as their bits. */
    atomicMax(reinterpret_cast<unsigned long long *>(&difference->largest),
              (unsigned long long)__double_as_longlong(largest));
}

static __global__ void outside(const uint8_t *c, uint64_t bytes, uint32_t element_bytes,
                               uint64_t batch, uint64_t m, uint64_t n, uint64_t ldc,
                               uint64_t stride, uint8_t poison, unsigned long long *touched)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < bytes; i += step) {
        const uint64_t element = i / element_bytes;
        const uint64_t b = batch > 1 ? min(element / stride, batch - 1) : 0;
        const uint64_t in = element - b * stride;
        if ((in / ldc >= m || in % ldc >= n) && c[i] != poison) {
            atomicAdd(touched, 1ull);
        }
    }
}

static __global__ void hash_kernel(const uint8_t *c, uint32_t element_bytes, uint64_t m, uint64_t n,
                                   uint64_t ldc, unsigned long long *hash)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    unsigned long long sum = 0;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < m * n; i += step) {
        const uint64_t at = i / n * ldc + i % n;
        const uint32_t bits = element_bytes == 2 ? reinterpret_cast<const uint16_t *>(c)[at]
                                                 : reinterpret_cast<const uint32_t *>(c)[at];
        sum += (unsigned long long)mix(bits + 0x9e3779b9u * (uint32_t)i) * 0x9e3779b97f4a7c15ull;
    }
    atomicAdd(hash, sum);
}

cudaError_t bench_fill(void *data, uint64_t elements, enum gemmd_dtype dtype, uint32_t seed)
{
    fill<<<BLOCKS, THREADS>>>(data, elements, dtype, mix(seed));
    return cudaGetLastError();
}

cudaError_t bench_reference(const struct bench_product *product, double *reference)
{
    const dim3 grid((unsigned)((product->n + 15) / 16), (unsigned)((product->m + 15) / 16),
                    (unsigned)product->batch);
    reference_kernel<<<grid, dim3(16, 16)>>>(*product, reference);
    return cudaGetLastError();
}

cudaError_t bench_compare(const void *c, enum gemmd_dtype out, uint64_t batch, uint64_t m,
                          uint64_t n, uint64_t ldc, uint64_t stride, const double *reference,
                          const void *other, double atol, double rtol,
                          struct bench_difference *difference)
{
    compare<<<BLOCKS, THREADS>>>(c, out, batch, m, n, ldc, stride, reference, other, atol, rtol,
                                 difference);
    return cudaGetLastError();
}

cudaError_t bench_outside(const void *c, uint64_t bytes, uint32_t element_bytes, uint64_t batch,
                          uint64_t m, uint64_t n, uint64_t ldc, uint64_t stride, uint8_t poison,
                          unsigned long long *touched)
{
    outside<<<BLOCKS, THREADS>>>(static_cast<const uint8_t *>(c), bytes, element_bytes, batch, m, n,
                                 ldc, stride, poison, touched);
    return cudaGetLastError();
}

cudaError_t bench_hash(const void *c, uint32_t element_bytes, uint64_t m, uint64_t n, uint64_t ldc,
                       unsigned long long *hash)
{
    hash_kernel<<<BLOCKS, THREADS>>>(static_cast<const uint8_t *>(c), element_bytes, m, n, ldc,
                                     hash);
    return cudaGetLastError();
}
