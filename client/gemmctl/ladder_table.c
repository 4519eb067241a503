#include "client/gemmctl/ladder_table.h"

#include <math.h>
#include <string.h>

#include "client/gemmctl/table.h"
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

enum { CELL_ROOM = 48, COLUMNS = 1 + LADDER_SIZES + 3 };

static void write_speed(const struct ladder *ladder, const struct ladder_row *row, unsigned size,
                        char out[CELL_ROOM])
{
    const uint32_t n = ladder_sizes[size];
    const double reached = gigaflops(row, size);
    const double intensity = flops_of(n) / ladder_bytes(row->name, ladder->dtype, ladder->out, n);
    const double roofline = ladder_roofline(ladder->device, ladder->dtype, intensity);
    if (row->too_slow[size])
        snprintf(out, CELL_ROOM, "too slow");
    else if (reached <= 0)
        snprintf(out, CELL_ROOM, "–");
    else if (roofline <= 0)
        snprintf(out, CELL_ROOM, "%.*f", reached < 100 ? 1 : 0, reached);
    else
        snprintf(out, CELL_ROOM, "%.0f (%.0f %%)", reached, 100 * reached / roofline);
}

static const struct ladder_row *find_row(const struct ladder *ladder, const char *name)
{
    for (uint32_t i = 0; i < ladder->count; i++)
        if (strcmp(ladder->rows[i].name, name) == 0)
            return &ladder->rows[i];
    return NULL;
}

/* Writes the speed of a row relative to the library's row, at the largest N at which both were
 * measured. */
static void write_ratio(const struct ladder *ladder, const struct ladder_row *row,
                        char out[CELL_ROOM])
{
    const struct ladder_row *library = find_row(ladder, ladder->library);
    double ratio = 0;
    for (unsigned size = 0; library != NULL && size < LADDER_SIZES; size++) {
        if (row->milliseconds[size] > 0 && library->milliseconds[size] > 0)
            ratio = library->milliseconds[size] / row->milliseconds[size];
    }
    if (ratio > 0)
        snprintf(out, CELL_ROOM, "%.3f", ratio);
    else
        snprintf(out, CELL_ROOM, "–");
}

static void add_row(const struct ladder *ladder, const struct ladder_row *row, struct table *table)
{
    const uint32_t largest = ladder_sizes[LADDER_SIZES - 1];
    const double naive = ladder_bytes("naive", ladder->dtype, ladder->out, largest);
    const double bytes = ladder_bytes(row->name, ladder->dtype, ladder->out, largest);
    char texts[COLUMNS][CELL_ROOM];
    const char *cells[COLUMNS];
    snprintf(texts[0], CELL_ROOM, "%s", row->name);
    for (unsigned size = 0; size < LADDER_SIZES; size++)
        write_speed(ladder, row, size, texts[1 + size]);
    write_ratio(ladder, row, texts[COLUMNS - 3]);
    snprintf(texts[COLUMNS - 2], CELL_ROOM, "%.4g", flops_of(largest) / bytes);
    snprintf(texts[COLUMNS - 1], CELL_ROOM, "%.3g %%", 100 * bytes / naive);
    for (int i = 0; i < COLUMNS; i++)
        cells[i] = texts[i];
    table_add(table, cells);
}

bool ladder_print(const struct ladder *ladder, FILE *to)
{
    const bool has_roofline = ladder_roofline(ladder->device, ladder->dtype, 1) > 0;
    struct table_column columns[COLUMNS] = {{"kernel", false}};
    char sizes[LADDER_SIZES][CELL_ROOM], ratio[CELL_ROOM + 32];
    struct table table;
    for (unsigned size = 0; size < LADDER_SIZES; size++) {
        snprintf(sizes[size], CELL_ROOM, "N = %u", ladder_sizes[size]);
        columns[1 + size] = (struct table_column){sizes[size], true};
    }
    snprintf(ratio, sizeof ratio, "of %s, largest N",
             ladder->library != NULL ? ladder->library : "none");
    columns[COLUMNS - 3] = (struct table_column){ratio, true};
    columns[COLUMNS - 2] = (struct table_column){"FLOP per byte", true};
    columns[COLUMNS - 1] = (struct table_column){"bytes, of naive's", true};
    table_start(&table, columns, COLUMNS);
    for (uint32_t i = 0; i < ladder->count; i++)
        add_row(ladder, &ladder->rows[i], &table);
    fprintf(to, "\n### %s\n\nGFLOP/s of N×N×N%s.\n\n", ladder->title,
            has_roofline ? " (percent of the roofline at the kernel's arithmetic intensity)" : "");
    const bool done = table_print_markdown(&table, to);
    table_free(&table);
    return done;
}
