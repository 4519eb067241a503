/*
 * naive - one thread for each element of Y, which reads X and W from device memory each time. A sum
 * is one chain of multiply-adds over r, s and channels, in that order.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/types.cuh"
#include "kernels/cuda/launch.cuh"

enum { THREADS = 256 };

template <typename In, typename Out>
__global__ void __launch_bounds__(THREADS)
    conv_naive_kernel(const __grid_constant__ struct conv_direct job,
                      const __grid_constant__ conv::finish<Out> finish)
{
    const struct conv_problem &p = job.problem;
    const struct conv_shape &s = p.shape;
    const struct conv_strides &xs = job.x, &ws = job.w, &ys = job.y;
    const uint64_t channels = s.channels / s.groups, pixels = s.out_height * s.out_width;
    const uint64_t count = s.batch * s.filters * pixels;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * THREADS) {
        /* Neighbouring threads have neighbouring elements of Y. */
        const bool last = s.layout == CONV_NHWC;
        const uint64_t filter = last ? i % s.filters : i / pixels % s.filters;
        const uint64_t pixel = last ? i / s.filters % pixels : i % pixels;
        const uint64_t image = i / s.filters / pixels;
        const uint64_t row = pixel / s.out_width, column = pixel % s.out_width;
        const In *x = (const In *)p.x + image * xs.image +
                      filter / (s.filters / s.groups) * channels * xs.channel;
        const In *w = (const In *)p.w + filter * ws.image;
        conv::sum_t<In> sum = 0;
        for (uint64_t u = 0; u < s.r; u++)
            for (uint64_t v = 0; v < s.s; v++) {
                const int64_t y_in =
                    (int64_t)(row * s.stride_h + u * s.dilation_h) - (int64_t)s.pad_top;
                const int64_t x_in =
                    (int64_t)(column * s.stride_w + v * s.dilation_w) - (int64_t)s.pad_left;
                const bool inside =
                    (uint64_t)y_in < s.height && (uint64_t)x_in < s.width; /* false if negative */
                const In *from = x + y_in * (int64_t)xs.row + x_in * (int64_t)xs.column;
                const In *weight = w + u * ws.row + v * ws.column;
                for (uint64_t c = 0; c < channels; c++)
                    sum = conv::multiply_add(inside ? conv::load(from[c * xs.channel]) : 0,
                                             conv::load(weight[c * ws.channel]), sum);
            }
        Out *to =
            (Out *)p.y + image * ys.image + filter * ys.channel + row * ys.row + column * ys.column;
        finish.store(to, sum, filter);
    }
}

enum gemmd_error conv_naive_launch(cudaStream_t stream, const struct conv_direct *job)
{
    const struct conv_shape &s = job->problem.shape;
    const uint64_t count = s.batch * s.filters * s.out_height * s.out_width;
    const uint64_t blocks = (count + THREADS - 1) / THREADS, most = 1 << 30;
    const dim3 grid((unsigned)(blocks < most ? blocks : most));
    return conv::with_types(job->problem, [&](auto types) {
        using T = decltype(types);
        return launch(conv_naive_kernel<typename T::In, typename T::Out>, grid, dim3(THREADS),
                      stream, *job, conv::finish<typename T::Out>(job->problem));
    });
}
