/* Which rungs make which table, and the tables one after another. */
#include "tests/bench/ladder.h"
#include "proto/revision.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/dtype.h"

static bool add_row(struct ladder_plan *plan, const char *name,
                    const struct operation_kernel *kernel)
{
    if (plan->table.count == LADDER_ROWS)
        return false;
    struct ladder_row *row = &plan->table.rows[plan->table.count];
    snprintf(row->name, sizeof row->name, "%s", name);
    plan->kernels[plan->table.count++] = kernel;
    return true;
}

static struct gemm_problem shape_of(const struct ladder_plan *plan, uint32_t n)
{
    struct gemm_problem shape = {.dtype = plan->table.dtype,
                                 .out = plan->table.out,
                                 .transa = plan->transa,
                                 .transb = plan->transb,
                                 .m = n,
                                 .n = n,
                                 .k = n,
                                 .batch = 1,
                                 .alpha = 1};
    gemm_problem_contiguous(&shape);
    return shape;
}

/* The rungs of a backend that take the plan's types, slowest first. */
static void add_kernels(struct ladder_plan *plan, enum gemm_backend backend)
{
    static const char *const rungs[] = {"naive",           "tiled",          "tiled_padded",
                                        "double_buffered", "register_tiled", "tensor_core",
                                        "wgmma",           "openblas"};
    const struct gemm_problem shape = shape_of(plan, 64);
    for (unsigned i = 0; i < sizeof rungs / sizeof rungs[0]; i++)
        for (const struct operation_kernel *const *k = operation_kernels(&operation_gemm, backend);
             *k != NULL; k++)
            if (strcmp((*k)->name, rungs[i]) == 0 && (*k)->takes(&shape))
                add_row(plan, rungs[i], *k);
}

static void add_tiles(struct ladder_plan *plan, const struct ladder_cuda *cuda)
{
    const struct operation_kernel *tiles[LADDER_ROWS];
    const struct gemm_problem shape = shape_of(plan, 64);
    const uint32_t count = ladder_cuda_tiles(cuda, &shape, tiles, LADDER_ROWS);
    for (uint32_t i = 0; i < count; i++)
        add_row(plan, tiles[i]->name, tiles[i]);
}

static bool measure_sizes(struct ladder_plan *plan, struct ladder_cuda *cuda)
{
    struct ladder *table = &plan->table;
    double before[LADDER_ROWS] = {0};
    for (unsigned size = 0; size < LADDER_SIZES; size++) {
        const struct gemm_problem shape = shape_of(plan, ladder_sizes[size]);
        double milliseconds[LADDER_ROWS] = {0};
        bool too_slow[LADDER_ROWS] = {false};
        if (!(cuda != NULL
                  ? ladder_cuda_measure(cuda, &shape, plan->kernels, table->count, milliseconds)
                  : ladder_cpu_measure(&shape, plan->kernels, table->count, before, milliseconds,
                                       too_slow)))
            return false;
        for (uint32_t i = 0; i < table->count; i++) {
            table->rows[i].milliseconds[size] = milliseconds[i];
            table->rows[i].too_slow[size] = too_slow[i];
            before[i] = milliseconds[i] > 0 ? milliseconds[i] : before[i] * 8;
        }
    }
    return true;
}

static void print_heading(const char *device, FILE *to)
{
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    fprintf(to, "\n## The ladder, %s\n\n%s; gemmd %s (%s). Operands uniform in [-1, 1].\n", date,
            device, GEMMD_VERSION, gemmd_revision);
}

static bool run_table(const struct ladder_options *options, struct ladder_cuda *cuda,
                      struct ladder_plan *plan, FILE *file)
{
    add_kernels(plan, cuda != NULL ? GEMM_BACKEND_CUDA : GEMM_BACKEND_CPU);
    if (cuda != NULL)
        add_row(plan, plan->table.library, NULL);
    if (cuda != NULL && options->tiles)
        add_tiles(plan, cuda);
    if (!measure_sizes(plan, cuda))
        return false;
    (void)ladder_print(&plan->table, stdout);
    if (file != NULL)
        (void)ladder_print(&plan->table, file);
    return true;
}

static bool run_tables(const struct ladder_options *options, struct ladder_cuda *cuda, FILE *file)
{
    const char *device = cuda != NULL ? ladder_cuda_device(cuda) : "CPU";
    struct ladder_plan plans[] = {
        {.table = {.title = "f32, C = A·B", .dtype = GEMMD_F32, .out = GEMMD_F32}},
        {.table = {.title = "f32, C = A·Bᵀ", .dtype = GEMMD_F32, .out = GEMMD_F32}, .transb = true},
        {.table = {.title = "f32, C = Aᵀ·B", .dtype = GEMMD_F32, .out = GEMMD_F32}, .transa = true},
        {.table = {.title = "bf16, C = A·B", .dtype = GEMMD_BF16, .out = GEMMD_BF16}},
        {.table = {.title = "f16, C = A·B", .dtype = GEMMD_F16, .out = GEMMD_F16}},
    };
    const unsigned count = cuda != NULL ? sizeof plans / sizeof plans[0] : 1;
    bool done = true;
    print_heading(device, stdout);
    if (file != NULL)
        print_heading(device, file);
    for (unsigned i = 0; i < count && done; i++) {
        plans[i].table.device = device;
        plans[i].table.library = cuda != NULL ? "cuBLASLt" : "openblas";
        done = run_table(options, cuda, &plans[i], file);
    }
    if (done && cuda != NULL) {
        printf("\n");
        ladder_cuda_state(cuda, stdout);
        printf(".\n");
        if (file != NULL) {
            fprintf(file, "\ncuBLASLt is the best of its candidates. ");
            ladder_cuda_state(cuda, file);
            fprintf(file, ".\n");
        }
    }
    return done;
}

static bool run_shapes_of(const char *layout, bool transa, bool transb, const char *text,
                          struct ladder_cuda *cuda, FILE *to)
{
    const struct operation_kernel *kernels[LADDER_ROWS] = {NULL};
    const struct gemm_problem any = {.dtype = GEMMD_F32,
                                     .out = GEMMD_F32,
                                     .transa = transa,
                                     .transb = transb,
                                     .m = 64,
                                     .n = 64,
                                     .k = 64,
                                     .batch = 1,
                                     .alpha = 1};
    uint32_t count = 1;
    for (const struct operation_kernel *const *k =
             operation_kernels(&operation_gemm, GEMM_BACKEND_CUDA);
         *k != NULL; k++)
        if (strcmp((*k)->name, "register_tiled") == 0)
            kernels[count++] = *k;
    count += ladder_cuda_tiles(cuda, &any, kernels + count, LADDER_ROWS - count);
    fprintf(to, "\nf32, C = %s, GFLOP/s\n\n| m×n×k | cuBLASLt |", layout);
    for (uint32_t i = 1; i < count; i++)
        fprintf(to, " %s |", kernels[i]->name);
    fprintf(to, "\n|---|");
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "---|");
    while (*text != '\0') {
        char *end;
        struct gemm_problem shape = any;
        shape.m = strtoull(text, &end, 10);
        shape.n = *end == 'x' ? strtoull(end + 1, &end, 10) : 0;
        shape.k = *end == 'x' ? strtoull(end + 1, &end, 10) : 0;
        double milliseconds[LADDER_ROWS] = {0};
        if (shape.m == 0 || shape.n == 0 || shape.k == 0 || (*end != '\0' && *end != ',')) {
            fprintf(stderr, "gemmd-bench: '%s' is no list of MxNxK\n", text);
            return false;
        }
        if (!ladder_cuda_measure(cuda, &shape, kernels, count, milliseconds))
            return false;
        fprintf(to, "\n| %llu×%llu×%llu |", (unsigned long long)shape.m,
                (unsigned long long)shape.n, (unsigned long long)shape.k);
        for (uint32_t i = 0; i < count; i++)
            fprintf(to, " %.0f |",
                    2e-6 * (double)shape.m * (double)shape.n * (double)shape.k / milliseconds[i]);
        text = *end != '\0' ? end + 1 : end;
    }
    fprintf(to, "\n");
    return true;
}

/* The tiles of f32 kernels on any shapes, next to the kernel that chooses one. */
static bool run_shapes(const char *text, struct ladder_cuda *cuda, FILE *to)
{
    return run_shapes_of("A·B", false, false, text, cuda, to) &&
           run_shapes_of("A·Bᵀ", false, true, text, cuda, to) &&
           run_shapes_of("Aᵀ·B", true, false, text, cuda, to);
}

int bench_ladder(const struct ladder_options *options)
{
    FILE *file = options->out != NULL ? fopen(options->out, "w") : NULL;
    struct ladder_cuda *cuda = NULL;
    bool done = options->out == NULL || file != NULL;
    if (!done)
        perror(options->out);
    if (done && !options->cpu) {
        cuda = ladder_cuda_open();
        done = cuda != NULL;
    }
    if (done)
        done = options->shapes != NULL && cuda != NULL ? run_shapes(options->shapes, cuda, stdout)
                                                       : run_tables(options, cuda, file);
    if (cuda != NULL)
        ladder_cuda_close(cuda);
    if (file != NULL && fclose(file) != 0)
        done = false;
    return done ? 0 : 1;
}
