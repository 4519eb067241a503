/* Stands where the measurements on a GPU would, in a build without the CUDA toolkit. */
#include <stdio.h>

#include "tests/bench/attention.h"
#include "tests/bench/conv_options.h"
#include "tests/bench/devices.h"
#include "tests/bench/kernels.h"
#include "tests/bench/ladder.h"
#include "tests/bench/rows.h"
#include "tests/bench/served.h"

static void explain(void)
{
    fprintf(stderr, "gemmd-bench: built without CUDA; ladder --cpu is what it has\n");
}

int bench_kernels(const struct bench_options *options)
{
    (void)options;
    explain();
    return 1;
}

int bench_choice(const char *const paths[], int count)
{
    (void)paths, (void)count;
    explain();
    return 1;
}

int bench_attention(const struct attention_options *options)
{
    (void)options;
    explain();
    return 1;
}

int bench_conv(const struct conv_options *options)
{
    (void)options;
    explain();
    return 1;
}

int bench_rows(const struct rows_options *options)
{
    (void)options;
    explain();
    return 1;
}

int bench_served(const char *groups, const char *own, double seconds, const char *out)
{
    (void)groups, (void)own, (void)seconds, (void)out;
    explain();
    return 1;
}

int bench_devices(const char *out)
{
    (void)out;
    explain();
    return 1;
}

int bench_scaled(double seconds, const char *out)
{
    (void)seconds, (void)out;
    explain();
    return 1;
}

int bench_few_rows(const char *out)
{
    (void)out;
    explain();
    return 1;
}

int bench_error(const char *out)
{
    (void)out;
    explain();
    return 1;
}

struct ladder_cuda *ladder_cuda_open(void)
{
    explain();
    return NULL;
}

void ladder_cuda_close(struct ladder_cuda *cuda)
{
    (void)cuda;
}

const char *ladder_cuda_device(const struct ladder_cuda *cuda)
{
    (void)cuda;
    return "none";
}

void ladder_cuda_state(const struct ladder_cuda *cuda, FILE *to)
{
    (void)cuda, (void)to;
}

bool ladder_cuda_measure(struct ladder_cuda *cuda, const struct gemm_problem *shape,
                         const struct operation_kernel *const kernels[], uint32_t count,
                         double milliseconds[])
{
    (void)cuda, (void)shape, (void)kernels, (void)count, (void)milliseconds;
    return false;
}

uint32_t ladder_cuda_tiles(const struct ladder_cuda *cuda, const struct gemm_problem *shape,
                           const struct operation_kernel *kernels[], uint32_t max)
{
    (void)cuda, (void)shape, (void)kernels, (void)max;
    return 0;
}
