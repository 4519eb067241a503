#include "client/gemmctl/ladder_table.h"

#include <math.h>
#include <string.h>

#include "proto/dtype.h"

const uint32_t ladder_sizes[LADDER_SIZES] = {256, 512, 1024, 2048, 4096};

/* The largest tile of each kernel. Kernels with several tiles use smaller tiles for small products.
 */
static const struct {
    const char *kernel;
    double rows, columns;
} tiles[] = {
    {"naive", 1, 1},
    {"tiled", 32, 32},
    {"tiled_padded", 32, 32},
    {"double_buffered", 32, 32},
    {"register_tiled", 128, 128},
    {"tensor_core", 256, 128},
    {"wgmma", 256, 128},
};

/* Dense peaks in GFLOP/s and bandwidth in GB/s, from NVIDIA's data sheets. */
static const struct {
    const char *name;
    double cuda_cores, tensor_cores, bandwidth;
} devices[] = {
    {"H100 80GB HBM3", 66900, 989400, 3350},
    {"H200", 66900, 989400, 4800},
    {"A100-SXM4-80GB", 19500, 312000, 2039},
};

double ladder_bytes(const char *kernel, enum gemmd_dtype dtype, enum gemmd_dtype out, uint32_t n)
{
    const double side = n;
    double rows = side, columns = side;
    for (unsigned i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        if (strcmp(tiles[i].kernel, kernel) == 0) {
            rows = tiles[i].rows;
            columns = tiles[i].columns;
        }
    }
    const double reads = side * side * (ceil(side / columns) + ceil(side / rows));
    return reads * dtype_size(dtype) + side * side * dtype_size(out);
}

double ladder_roofline(const char *device, enum gemmd_dtype dtype, double flop_per_byte)
{
    for (unsigned i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strstr(device, devices[i].name) != NULL)
            return fmin(dtype == GEMMD_F32 ? devices[i].cuda_cores : devices[i].tensor_cores,
                        flop_per_byte * devices[i].bandwidth);
    return 0;
}

static double flops_of(uint32_t n)
{
    return 2.0 * n * n * n;
}

static double gigaflops(const struct ladder_row *row, unsigned size)
{
    return row->milliseconds[size] > 0
               ? flops_of(ladder_sizes[size]) / row->milliseconds[size] / 1e6
               : 0;
}

static void print_cell(const struct ladder *ladder, const struct ladder_row *row, unsigned size,
                       FILE *to)
{
    const uint32_t n = ladder_sizes[size];
    const double reached = gigaflops(row, size);
    const double intensity = flops_of(n) / ladder_bytes(row->name, ladder->dtype, ladder->out, n);
    const double roofline = ladder_roofline(ladder->device, ladder->dtype, intensity);
    if (row->too_slow[size])
        fprintf(to, " too slow |");
    else if (reached <= 0)
        fprintf(to, " – |");
    else if (roofline <= 0)
        fprintf(to, " %.*f |", reached < 100 ? 1 : 0, reached);
    else
        fprintf(to, " %.0f (%.0f %%) |", reached, 100 * reached / roofline);
}

static const struct ladder_row *find_row(const struct ladder *ladder, const char *name)
{
    for (uint32_t i = 0; i < ladder->count; i++)
        if (strcmp(ladder->rows[i].name, name) == 0)
            return &ladder->rows[i];
    return NULL;
}

/* Prints the speed of a row relative to the library's row, at the largest N at which both were
 * measured. */
static void print_ratio(const struct ladder *ladder, const struct ladder_row *row, FILE *to)
{
    const struct ladder_row *library = find_row(ladder, ladder->library);
    double ratio = 0;
    for (unsigned size = 0; library != NULL && size < LADDER_SIZES; size++) {
        if (row->milliseconds[size] > 0 && library->milliseconds[size] > 0)
            ratio = library->milliseconds[size] / row->milliseconds[size];
    }
    if (ratio > 0)
        fprintf(to, " %.3f |", ratio);
    else
        fprintf(to, " – |");
}

void ladder_print(const struct ladder *ladder, FILE *to)
{
    const uint32_t largest = ladder_sizes[LADDER_SIZES - 1];
    const double naive = ladder_bytes("naive", ladder->dtype, ladder->out, largest);
    const bool has_roofline = ladder_roofline(ladder->device, ladder->dtype, 1) > 0;
    fprintf(to, "\n### %s\n\nGFLOP/s of N×N×N%s.\n\n| kernel |", ladder->title,
            has_roofline ? " (percent of the roofline at the kernel's arithmetic intensity)" : "");
    for (unsigned size = 0; size < LADDER_SIZES; size++)
        fprintf(to, " N = %u |", ladder_sizes[size]);
    fprintf(to, " of %s, largest N | FLOP per byte | bytes, of naive's |\n|---|", ladder->library);
    for (unsigned size = 0; size < LADDER_SIZES + 3; size++)
        fprintf(to, "---|");
    for (uint32_t i = 0; i < ladder->count; i++) {
        const struct ladder_row *row = &ladder->rows[i];
        const double bytes = ladder_bytes(row->name, ladder->dtype, ladder->out, largest);
        fprintf(to, "\n| %s |", row->name);
        for (unsigned size = 0; size < LADDER_SIZES; size++)
            print_cell(ladder, row, size, to);
        print_ratio(ladder, row, to);
        fprintf(to, " %.4g | %.3g %% |", flops_of(largest) / bytes, 100 * bytes / naive);
    }
    fprintf(to, "\n");
}
