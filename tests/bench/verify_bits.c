/*
 * gemmd-bench-verify-bits - which faults in a product the check of kernels/freivalds.h catches.
 *
 * Products of random operands are computed on the CPU. Then one bit of one element of C is flipped,
 * or one element is replaced, and the product is checked with a random vector. Prints the shares of
 * the faults that were caught, by type, k and bit, as Markdown. Needs no daemon and no GPU: the
 * check on a GPU has the same residuals (gemmd-gpu-verify-check).
 *   --seed N    of the operands, places and vectors (default 1)
 *   --trials N  of each fault (default 64)
 * Exit status 1: a correct product was refused.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/number.h"
#include "tests/product/cases.h"
#include "tests/product/product.h"
#include "tests/product/random.h"

enum { M = 8, N = 64, DEPTHS = 3, BITS_MAX = 64, ELEMENT_FAULTS = 4, TRIALS = 64 };

static const uint64_t depths[DEPTHS] = {64, 1024, 16384};
static const char *const element_faults[ELEMENT_FAULTS] = {"becomes 0", "has the other sign",
                                                           "is doubled", "is another element"};

struct run {
    struct gemm_context *context;
    uint64_t seed, trials;
    uint64_t correct, refused; /* checks of products without a fault, and those that failed */
};

/* Number of faults caught, of `trials`: [bit or fault][k]. */
struct caught {
    uint64_t bits[BITS_MAX][DEPTHS], elements[ELEMENT_FAULTS][DEPTHS];
};

static bool run_product(const struct run *run, struct product *product)
{
    const struct gemm_device cpu = {.backend = GEMM_BACKEND_CPU};
    const struct operation_kernel *kernel;
    uint64_t bytes;
    if (operation_select(&operation_gemm, &cpu, "auto", &product->problem, &kernel, NULL) !=
            GEMMD_OK ||
        !kernel->workspace_bytes(&product->problem, &bytes))
        return false;
    void *workspace = aligned_alloc(256, bytes / 256 * 256 + 256);
    const bool done = workspace != NULL &&
                      operation_run(kernel, run->context, &product->problem, workspace) == GEMMD_OK;
    free(workspace);
    return done;
}

static bool passes(struct run *run, const struct product *product)
{
    const double residual =
        product_residual(run->context, &product->problem, random_next(&run->seed), NULL);
    return residual >= 0 && residual <= 1;
}

static unsigned char *random_element(struct run *run, const struct product *product)
{
    const struct gemm_problem *p = &product->problem;
    const uint64_t at = random_next(&run->seed) % M * p->ldc + random_next(&run->seed) % N;
    return (unsigned char *)p->c + at * dtype_size(p->out);
}

static uint64_t count_bit(struct run *run, struct product *product, uint32_t bit)
{
    uint64_t caught = 0;
    for (uint64_t i = 0; i < run->trials; i++) {
        unsigned char *byte = random_element(run, product) + bit / 8;
        *byte ^= (unsigned char)(1u << bit % 8);
        caught += !passes(run, product);
        *byte ^= (unsigned char)(1u << bit % 8);
    }
    return caught;
}

/* Doubles a number that is not near the largest of its type. */
static void double_element(enum gemmd_dtype dtype, unsigned char *element)
{
    const uint32_t mantissa = dtype == GEMMD_F64    ? 52
                              : dtype == GEMMD_F32  ? 23
                              : dtype == GEMMD_BF16 ? 7
                              : dtype == GEMMD_F16  ? 10
                                                    : 0;
    uint64_t bits = 0;
    memcpy(&bits, element, dtype_size(dtype));
    bits = dtype == GEMMD_I32 ? (uint64_t)((uint32_t)bits * 2) : bits + (UINT64_C(1) << mantissa);
    memcpy(element, &bits, dtype_size(dtype));
}

static void flip_sign(enum gemmd_dtype dtype, unsigned char *element)
{
    int32_t number;
    if (dtype == GEMMD_I32) {
        memcpy(&number, element, sizeof number);
        number = -number;
        memcpy(element, &number, sizeof number);
    } else {
        element[dtype_size(dtype) - 1] ^= 0x80;
    }
}

static uint64_t count_element(struct run *run, struct product *product, int fault)
{
    const enum gemmd_dtype out = product->problem.out;
    const uint64_t size = dtype_size(out);
    uint64_t caught = 0;
    for (uint64_t i = 0; i < run->trials; i++) {
        unsigned char *element = random_element(run, product);
        unsigned char before[8], other[8];
        memcpy(before, element, size);
        memcpy(other, random_element(run, product), size);
        if (fault == 0)
            memset(element, 0, size);
        else if (fault == 1)
            flip_sign(out, element);
        else if (fault == 2)
            double_element(out, element);
        else
            memcpy(element, other, size);
        caught += !passes(run, product);
        memcpy(element, before, size);
    }
    return caught;
}

static bool count_depth(struct run *run, struct case_types types, int depth, struct caught *caught)
{
    const struct gemm_problem like = {.dtype = types.dtype,
                                      .out = types.out,
                                      .m = M,
                                      .n = N,
                                      .k = depths[depth],
                                      .batch = 1,
                                      .alpha = 1};
    struct product product;
    if (!product_create(&product, &like, 0, PRODUCT_UNIFORM, random_next(&run->seed)))
        return false;
    const bool done = run_product(run, &product);
    for (uint64_t i = 0; i < run->trials && done; i++) {
        run->correct++;
        run->refused += !passes(run, &product);
    }
    for (uint32_t bit = 0; bit < 8 * dtype_size(types.out) && done; bit++)
        caught->bits[bit][depth] = count_bit(run, &product, bit);
    for (int fault = 0; fault < ELEMENT_FAULTS && done; fault++)
        caught->elements[fault][depth] = count_element(run, &product, fault);
    product_destroy(&product);
    return done;
}

static void print_shares(const struct run *run, const uint64_t caught[DEPTHS])
{
    for (int depth = 0; depth < DEPTHS; depth++)
        printf(" %.0f %% |", 100 * (double)caught[depth] / (double)run->trials);
    printf("\n");
}

/* Bits from the highest on; bits with the same shares are in one line. */
static void print_types(const struct run *run, struct case_types types, const struct caught *caught)
{
    const uint32_t bits = 8 * (uint32_t)dtype_size(types.out);
    printf("\n### %s to %s\n\n| fault | k = 64 | k = 1024 | k = 16384 |\n|---|---:|---:|---:|\n",
           dtype_name(types.dtype), dtype_name(types.out));
    for (uint32_t end = bits, high, low; end > 0; end = low) {
        low = high = end - 1;
        while (low > 0 &&
               memcmp(caught->bits[low - 1], caught->bits[high], sizeof caught->bits[0]) == 0)
            low--;
        if (low == high)
            printf("| bit %" PRIu32 " |", high);
        else
            printf("| bits %" PRIu32 " … %" PRIu32 " |", high, low);
        print_shares(run, caught->bits[high]);
    }
    for (int fault = 0; fault < ELEMENT_FAULTS; fault++) {
        printf("| an element %s |", element_faults[fault]);
        print_shares(run, caught->elements[fault]);
    }
    fflush(stdout);
}

static bool read_options(int argc, char **argv, struct run *run)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0     ? &run->seed
                       : strcmp(argv[i], "--trials") == 0 ? &run->trials
                                                          : NULL;
        if (to == NULL || i + 1 == argc || !number_u64(argv[i + 1], to))
            return false;
    }
    return run->trials > 0;
}

int main(int argc, char **argv)
{
    struct run run = {.seed = 1, .trials = TRIALS};
    if (!read_options(argc, argv, &run)) {
        fprintf(stderr, "Usage: gemmd-bench-verify-bits [--seed N] [--trials N]\n");
        return 2;
    }
    if (gemm_context_create(GEMM_BACKEND_CPU, NULL, 1, &run.context, NULL) != GEMMD_OK)
        return 1;
    printf("# Faults that verification catches\n\n"
           "Written by `gemmd-bench-verify-bits --seed %" PRIu64 " --trials %" PRIu64
           "`. One element "
           "of a product of %d × %d elements is changed, and the product is checked with a random "
           "vector. Bit 0 is the lowest. Operands are uniform in [-1, 1], or all of i8.\n",
           run.seed, run.trials, M, N);
    bool done = true;
    for (uint32_t i = 0; i < case_types_count() && done; i++) {
        struct caught caught = {.bits = {{0}}};
        for (int depth = 0; depth < DEPTHS && done; depth++)
            done = count_depth(&run, case_types[i], depth, &caught);
        print_types(&run, case_types[i], &caught);
    }
    printf("\nOf %" PRIu64 " checks of correct products, %" PRIu64 " failed.\n", run.correct,
           run.refused);
    gemm_context_destroy(run.context);
    return done && run.refused == 0 ? 0 : 1;
}
