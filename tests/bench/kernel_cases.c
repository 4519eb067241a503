/* What is checked and what is timed. */
#include "tests/bench/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/sm90/sm90.h"

uint64_t bench_leading(uint64_t width, enum gemmd_dtype dtype)
{
    return sm90_leading(width, dtype);
}

static int parse_shapes(const char *text, struct bench_shape *shapes)
{
    int count = 0;
    while (*text && count < SHAPES_MAX) {
        char *end;
        const unsigned long long m = strtoull(text, &end, 10);
        const unsigned long long n = *end == 'x' ? strtoull(end + 1, &end, 10) : 0;
        const unsigned long long k = *end == 'x' ? strtoull(end + 1, &end, 10) : 0;
        if (m == 0 || n == 0 || k == 0 || (*end && *end != ',')) {
            return 0;
        }
        shapes[count++] = (struct bench_shape){m, n, k, (n | k) % 8 != 0};
        text = *end ? end + 1 : end;
    }
    return count;
}

/* Reads lines "m n k"; lines that start with # are comments. */
static int read_list(const char *path, struct bench_shape *shapes)
{
    char line[128];
    int count = 0;
    FILE *from = fopen(path, "r");
    if (from == NULL) {
        perror(path);
        return 0;
    }
    while (fgets(line, sizeof line, from) != NULL) {
        unsigned long long m, n, k;
        char more;
        if (line[0] == '#') {
            continue;
        }
        if (sscanf(line, "%llu %llu %llu %c", &m, &n, &k, &more) != 3 || m == 0 || n == 0 ||
            k == 0 || count == SHAPES_MAX) {
            fprintf(stderr, "%s: not \"m n k\", or one shape too many: %s", path, line);
            count = 0;
            break;
        }
        shapes[count++] = (struct bench_shape){m, n, k, (n | k) % 8 != 0};
    }
    fclose(from);
    return count;
}

int bench_shapes(const struct bench_options *options, struct bench_shape *shapes)
{
    static const uint64_t ROWS[] = {1, 16, 64, 256, 1024, 4096};
    static const uint64_t WEIGHTS[][2] = {{4096, 4096}, {14336, 4096}, {4096, 14336}};
    static const struct bench_shape SQUARES[] = {
        {2048, 2048, 2048, false}, {4096, 4096, 4096, false}, {8192, 8192, 8192, false}};
    static const struct bench_shape ODD[] = {{4097, 4095, 4099, true},
                                             {333, 777, 1001, true},
                                             {1001, 1001, 1001, true},
                                             {511, 2049, 4095, true},
                                             {100, 30000, 513, true}};
    static const struct bench_shape QUICK[] = {
        {2048, 2048, 2048, false}, {4096, 4096, 4096, false},  {8192, 8192, 8192, false},
        {1, 4096, 4096, false},    {16, 14336, 4096, false},   {64, 4096, 14336, false},
        {256, 4096, 4096, false},  {1024, 14336, 4096, false}, {4096, 4096, 14336, false},
        {1001, 1001, 1001, true}};
    if (options->list) {
        return read_list(options->list, shapes);
    }
    if (options->shapes) {
        return parse_shapes(options->shapes, shapes);
    }
    if (options->quick) {
        memcpy(shapes, QUICK, sizeof QUICK);
        return (int)(sizeof QUICK / sizeof *QUICK);
    }
    int count = 0;
    for (size_t i = 0; i < sizeof SQUARES / sizeof *SQUARES; i++) {
        shapes[count++] = SQUARES[i];
    }
    for (size_t w = 0; w < sizeof WEIGHTS / sizeof *WEIGHTS; w++) {
        for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
            shapes[count++] = (struct bench_shape){ROWS[r], WEIGHTS[w][0], WEIGHTS[w][1], false};
        }
    }
    for (size_t i = 0; i < sizeof ODD / sizeof *ODD; i++) {
        shapes[count++] = ODD[i];
    }
    return count;
}

int bench_cases(const struct bench_run *run, struct bench_case *cases)
{
    static const struct bench_case CASES[] = {
        /* m, n, k, batch, transa, transb, bias, alpha, beta, act, f32_out */
        {64, 64, 64, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {128, 256, 64, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {256, 256, 512, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {512, 768, 2048, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {1, 1, 1, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {1, 8, 8, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {5, 17, 9, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {257, 129, 65, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {333, 777, 1001, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {1001, 1001, 1001, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {17, 4099, 3001, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {4097, 4095, 203, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0}, /* several tiles a block */
        {3000, 3000, 1024, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {200, 300, 130, 3, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {257, 385, 129, 1, 0, 0, 0, -0.75, 0, GEMM_ACT_NONE, 1},
        {333, 777, 1001, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 1},
        {7, 520, 2048, 1, 0, 0, 1, 1, 0, GEMM_ACT_RELU, 1},
        {1, 72, 257, 2, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 1},
        {12, 328, 1100, 2, 0, 0, 1, 0.5, 2, GEMM_ACT_RELU, 0},
        {1, 1000, 1300, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {257, 385, 129, 1, 0, 0, 1, 2, 0, GEMM_ACT_NONE, 0},
        {257, 385, 129, 1, 0, 0, 0, 1, -3, GEMM_ACT_NONE, 0},
        {257, 385, 129, 2, 0, 0, 1, 2, 3, GEMM_ACT_RELU, 1},
        {257, 385, 129, 1, 0, 0, 1, 1, 0, GEMM_ACT_GELU, 0},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0, GEMM_ACT_GELU_TANH, 0},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0.5, GEMM_ACT_SILU, 1},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0, GEMM_ACT_SILU, 0},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0.5, GEMM_ACT_SILU, 0},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0.5, GEMM_ACT_GELU_TANH, 0},
        {257, 385, 129, 1, 0, 0, 1, 0.5, 0.5, GEMM_ACT_GELU, 0},
        {333, 777, 1001, 1, 1, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {333, 777, 1001, 1, 0, 1, 0, 1, 0, GEMM_ACT_NONE, 0},
        {333, 777, 1001, 1, 1, 1, 0, 1, 0, GEMM_ACT_NONE, 0},
        {64, 64, 64, 1, 0, 1, 0, 1, 0, GEMM_ACT_NONE, 0},
        {64, 64, 64, 1, 1, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {64, 64, 64, 1, 1, 1, 0, 1, 0, GEMM_ACT_NONE, 0},
        /* k in chunks */
        {72, 200, 5000, 1, 0, 0, 0, 1, 0, GEMM_ACT_NONE, 0},
        {300, 600, 9001, 1, 0, 0, 1, 0.5, 0, GEMM_ACT_GELU, 0},
        {130, 97, 16384, 2, 1, 0, 1, -2, 0.5, GEMM_ACT_NONE, 0},
        {257, 768, 6144, 1, 0, 1, 0, 1, 0, GEMM_ACT_SILU, 0},
        {9, 33, 3072, 3, 1, 1, 0, 1, 1, GEMM_ACT_RELU, 0},
    };
    const size_t total = sizeof CASES / sizeof *CASES;
    const bool integers = run->dtype == GEMMD_I8;
    int count = 0;
    for (size_t i = 0; i < total && count < CASES_MAX; i++) {
        struct bench_case c = CASES[i];
        if (run->transb) { /* kernels that take one lie of the operands only */
            if (c.transa) {
                continue;
            }
            c.transb = true;
        }
        if (integers && !c.f32_out && (c.act > GEMM_ACT_RELU || c.alpha != (double)(int)c.alpha)) {
            continue;
        }
        cases[count++] = c;
    }
    return count;
}
