/* The cells of the table: 16,384 tokens of 2,048 elements, short sequences, decoding, and many
 * requests. */
#include "tests/bench/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/attention_request.h"

static const struct {
    uint64_t batch, heads, kv_heads, sq, skv, d;
    bool decode;
} SHAPES[] = {
    {4, 32, 32, 4096, 4096, 64, false},    {1, 32, 32, 16384, 16384, 64, false},
    {16, 16, 16, 1024, 1024, 128, false},  {4, 16, 16, 4096, 4096, 128, false},
    {1, 16, 16, 16384, 16384, 128, false}, {4, 8, 8, 4096, 4096, 256, false},
    {1, 16, 16, 1000, 1000, 128, false},   {64, 32, 32, 128, 128, 128, false},
    {64, 16, 16, 256, 256, 128, false},    {32, 16, 16, 512, 512, 128, false},
    {32, 32, 32, 512, 512, 64, false},     {16, 32, 32, 1024, 1024, 64, false},
    {4, 32, 8, 4096, 4096, 128, false},    {4, 16, 16, 4096, 4096, 96, false},
    {4, 8, 8, 4096, 4096, 192, false},     {1, 32, 32, 1, 8192, 128, true},
    {16, 32, 32, 1, 8192, 128, true},      {16, 32, 8, 1, 8192, 128, true},
    {1, 32, 8, 1, 8192, 128, true},        {1, 32, 32, 1, 8192, 64, true},
    {1, 8, 8, 1, 512, 128, true},          {1, 8, 8, 1, 2048, 128, true},
    {1, 8, 8, 1, 512, 64, true},           {1, 8, 8, 1, 2048, 64, true},
    {64, 32, 32, 1, 1024, 128, true},      {64, 32, 8, 1, 1024, 128, true},
    {64, 32, 32, 1, 1024, 64, true},       {1, 16, 16, 1, 8192, 256, true},
    {4, 32, 32, 2, 8192, 128, true},       {4, 32, 32, 8, 8192, 128, true},
    {4, 32, 32, 16, 8192, 128, true},      {4, 32, 32, 32, 8192, 128, true},
    {4, 32, 8, 2, 8192, 128, true},        {4, 32, 8, 4, 8192, 128, true},
    {4, 32, 8, 8, 8192, 128, true},        {64, 16, 16, 77, 77, 64, false},
    {32, 16, 16, 384, 384, 64, false},     {32, 16, 16, 384, 384, 128, false},
    {8, 16, 16, 4096, 77, 64, false},      {16, 16, 16, 1, 4096, 256, true},
    {64, 8, 8, 1, 2048, 256, true},        {8, 64, 8, 1, 8192, 128, true},
    {32, 64, 8, 1, 4096, 128, true},       {64, 16, 16, 128, 128, 64, false},
    {1, 16, 16, 77, 77, 64, false},
};

/* Of which every entry is a request. */
static const struct attention_cell REQUESTS[] = {
    {"64 requests 32 d128 S128 full", ATTENTION_TOGETHER, 64, 32, 32, 128, 128, 128, false},
    {"64 requests 32 d128 S128 causal", ATTENTION_TOGETHER, 64, 32, 32, 128, 128, 128, true},
    {"64 requests 4 d64 S100 causal", ATTENTION_TOGETHER, 64, 4, 4, 100, 100, 64, true},
    {"16 requests decode 32 d128 S8192", ATTENTION_TOGETHER, 16, 32, 32, 1, 8192, 128, false},
    {"16 requests decode 32/8 d128 S8192", ATTENTION_TOGETHER, 16, 32, 8, 1, 8192, 128, false},
};

/* Whether a name contains one of the parts that commas separate. */
static bool contains_any(const char *name, const char *parts)
{
    while (true) {
        char part[64];
        const size_t length = strcspn(parts, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, parts);
        if (strstr(name, part) != NULL)
            return true;
        if (parts[length] == '\0')
            return false;
        parts += length + 1;
    }
}

static void add(const char *containing, const struct attention_cell *cell,
                struct attention_cell *cells, int *count)
{
    if ((containing == NULL || contains_any(cell->name, containing)) &&
        *count < ATTENTION_CELLS_MAX)
        cells[(*count)++] = *cell;
}

/* Together, and one by one. */
static void add_requests(const char *containing, struct attention_cell *cells, int *count)
{
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++) {
        struct attention_cell cell = REQUESTS[i];
        add(containing, &cell, cells, count);
        cell.launches = ATTENTION_ONE_BY_ONE;
        strncat(cell.name, " 1 by 1", sizeof cell.name - strlen(cell.name) - 1);
        add(containing, &cell, cells, count);
    }
}

int attention_cells(const char *containing, struct attention_cell *cells)
{
    int count = 0;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        /* Of more queries than keys, some would see none under a causal mask. */
        const bool full_only = SHAPES[i].decode || SHAPES[i].sq > SHAPES[i].skv;
        for (int causal = 0; causal < (full_only ? 1 : 2); causal++) {
            struct attention_cell cell = {.batch = SHAPES[i].batch,
                                          .heads = SHAPES[i].heads,
                                          .kv_heads = SHAPES[i].kv_heads,
                                          .sq = SHAPES[i].sq,
                                          .skv = SHAPES[i].skv,
                                          .d = SHAPES[i].d,
                                          .causal = causal != 0};
            char heads[24];
            snprintf(heads, sizeof heads,
                     cell.heads == cell.kv_heads ? "%llux%llu" : "%llux%llu/%llu",
                     (unsigned long long)cell.batch, (unsigned long long)cell.heads,
                     (unsigned long long)cell.kv_heads);
            char queries[24] = "";
            if (cell.sq > 1 && cell.sq != cell.skv)
                snprintf(queries, sizeof queries, " q%llu", (unsigned long long)cell.sq);
            if (SHAPES[i].decode)
                snprintf(cell.name, sizeof cell.name, "decode %s d%llu S%llu%s", heads,
                         (unsigned long long)cell.d, (unsigned long long)cell.skv, queries);
            else
                snprintf(cell.name, sizeof cell.name, "%s d%llu S%llu%s %s", heads,
                         (unsigned long long)cell.d, (unsigned long long)cell.skv, queries,
                         causal ? "causal" : "full");
            add(containing, &cell, cells, &count);
        }
    }
    add_requests(containing, cells, &count);
    return count;
}

struct attention_problem attention_cell_problem(const struct attention_cell *cell,
                                                enum gemmd_dtype dtype)
{
    struct attention_problem p = {.dtype = dtype,
                                  .batch = cell->batch,
                                  .heads = cell->heads,
                                  .kv_heads = cell->kv_heads,
                                  .sq = cell->sq,
                                  .skv = cell->skv,
                                  .d = cell->d,
                                  .dv = cell->d,
                                  .causal = cell->causal,
                                  .scale = 1 / sqrtf((float)cell->d)};
    p.q_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.d);
    p.k_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.d);
    p.v_strides = attention_strides(ATTENTION_BHSD, p.kv_heads, p.skv, p.dv);
    p.o_strides = attention_strides(ATTENTION_BHSD, p.heads, p.sq, p.dv);
    return p;
}
