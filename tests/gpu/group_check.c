/*
 * gemmd-gpu-group-check - many small products in one launch.
 *
 * Every type, transposition, epilogue, odd size and alignment from mapped host memory: right,
 * nothing else written, and the same bytes alone, in random shared launches and from device memory.
 * Then times: a launch for a few, throughput next to cuBLAS's grouped products, and where copies
 * begin to pay. Exit status 1 if anything is wrong.
 *   --quick   little of everything, for a run under compute-sanitizer
 *   --bytes   all of the checks, and no times
 *   --times   times only
 *   --share I/N  every N-th product from the I-th on, counted from 0; share 0 also errors and
 * stacks
 */
#include "tests/gpu/group_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/share.h"

bool group_succeeded(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    printf("%s: %s (%s)\n", what, cudaGetErrorString(error), cudaGetErrorName(error));
    return false;
}

bool group_copy(void *to, const void *from, uint64_t bytes)
{
    return group_succeeded(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy") &&
           group_succeeded(cudaDeviceSynchronize(), "cudaMemcpy");
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double group_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static bool open_bench(struct group_bench *bench)
{
    const struct gemm_problem any = {
        .dtype = GEMMD_F32, .out = GEMMD_F32, .m = 1, .n = 1, .k = 1, .batch = 1, .alpha = 1};
    struct fault fault = {.detail = ""};
    if (!group_succeeded(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking),
                         "cudaStreamCreate"))
        return false;
    if (gemm_context_create(GEMM_BACKEND_CUDA, bench->stream, 0, &bench->context, &fault) !=
            GEMMD_OK ||
        operation_select(&operation_gemm, &(struct gemm_device){.backend = GEMM_BACKEND_CUDA},
                         "grouped", &any, &bench->kernel, &fault) != GEMMD_OK) {
        printf("%s\n", fault.detail);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct group_bench bench = {.shares = 1};
    uint64_t passed = 0, failed = 0;
    bool check = true, timed = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            bench.quick = true;
            timed = false;
        } else if (strcmp(argv[i], "--bytes") == 0) {
            timed = false;
        } else if (strcmp(argv[i], "--times") == 0) {
            check = false;
        } else if (strcmp(argv[i], "--share") == 0 && i + 1 < argc &&
                   share_parse(argv[i + 1], &bench.share, &bench.shares)) {
            i++;
        } else {
            fprintf(stderr,
                    "unknown option '%s'; there are --quick, --bytes, --times and --share I/N\n",
                    argv[i]);
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a log that is cut off has what was done */
    if (!open_bench(&bench))
        return EXIT_FAILURE;
    if (check) {
        group_check_bytes(&bench, &passed, &failed);
        if (bench.share == 0) {
            group_check_error(&bench, &passed, &failed);
            group_check_stacks(&bench, &passed, &failed);
        }
    }
    if (timed && failed == 0 &&
        (!group_time_latency(&bench) || !group_time_throughput(&bench) ||
         !group_time_stacks(&bench) || !group_time_crossover(&bench)))
        failed++;
    gemm_context_destroy(bench.context);
    (void)cudaStreamDestroy(bench.stream);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
