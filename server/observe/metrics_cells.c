#include "server/observe/metrics_cells.h"

#include <string.h>

#include "server/observe/metrics_shard.h"

const uint64_t metrics_shape_bounds[METRICS_SHAPE_BOUNDS] = {16, 128, 1024, 8192};

_Static_assert((METRICS_CELL_PLACES & (METRICS_CELL_PLACES - 1)) == 0, "places are masked");
_Static_assert((int)METRICS_CELL_PLACES > (int)METRICS_CELLS_MAX, "a search finds an empty place");

static uint8_t class_of(uint64_t length)
{
    uint8_t class = 0;
    while (class < METRICS_SHAPE_BOUNDS && length > metrics_shape_bounds[class])
        class ++;
    return class;
}

static uint32_t place_of(const struct metrics_work *work, const uint8_t *classes)
{
    uint64_t key = (uint64_t)(uintptr_t)work->kernel;
    key = key * 31 + (uint64_t)work->task * 64 + (uint64_t)work->dtype;
    for (int i = 0; i < METRICS_SHAPE_LENGTHS; i++)
        key = key * 8 + classes[i];
    return (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (METRICS_CELL_PLACES - 1);
}

static bool is_of(const struct metrics_cell *cell, const struct metrics_work *work,
                  const uint8_t *classes)
{
    return cell->kernel == work->kernel && cell->task == work->task && cell->dtype == work->dtype &&
           memcmp(cell->classes, classes, METRICS_SHAPE_LENGTHS) == 0;
}

void metrics_cell(struct metrics_shard *shard, const struct metrics_work *work,
                  const uint64_t lengths[METRICS_SHAPE_LENGTHS])
{
    uint8_t classes[METRICS_SHAPE_LENGTHS];
    for (int i = 0; i < METRICS_SHAPE_LENGTHS; i++)
        classes[i] = class_of(lengths[i]);
    uint32_t place = place_of(work, classes);
    while (atomic_load_explicit(&shard->cells[place].used, memory_order_relaxed) &&
           !is_of(&shard->cells[place], work, classes))
        place = (place + 1) & (METRICS_CELL_PLACES - 1);
    struct metrics_cell *cell = &shard->cells[place];
    const bool is_new = !atomic_load_explicit(&cell->used, memory_order_relaxed);
    if (is_new) {
        if (shard->cell_count == METRICS_CELLS_MAX)
            return;
        shard->cell_count++;
        cell->kernel = work->kernel;
        cell->task = work->task;
        cell->dtype = work->dtype;
        memcpy(cell->classes, classes, sizeof cell->classes);
    }
    counter_add(&cell->works, 1);
    counter_add(&cell->busy_ns, work->busy_ns);
    counter_add_real(&cell->flops, work->flops);
    counter_add_real(&cell->bytes, work->bytes);
    if (is_new)
        atomic_store_explicit(&cell->used, true, memory_order_release);
}

static void add_cell(struct metrics_cell_total *totals, uint32_t *count,
                     const struct metrics_cell *cell)
{
    uint32_t i = 0;
    while (i < *count && (totals[i].kernel != cell->kernel || totals[i].task != cell->task ||
                          totals[i].dtype != cell->dtype ||
                          memcmp(totals[i].classes, cell->classes, sizeof cell->classes) != 0))
        i++;
    if (i == METRICS_CELLS_MAX)
        return;
    if (i == *count) {
        totals[(*count)++] = (struct metrics_cell_total){
            .kernel = cell->kernel, .task = cell->task, .dtype = cell->dtype};
        memcpy(totals[i].classes, cell->classes, sizeof cell->classes);
    }
    totals[i].works += atomic_load_explicit(&cell->works, memory_order_relaxed);
    totals[i].busy_ns += atomic_load_explicit(&cell->busy_ns, memory_order_relaxed);
    totals[i].flops += atomic_load_explicit(&cell->flops, memory_order_relaxed);
    totals[i].bytes += atomic_load_explicit(&cell->bytes, memory_order_relaxed);
}

uint32_t metrics_cells(const struct metrics *metrics,
                       struct metrics_cell_total totals[METRICS_CELLS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < metrics->count; i++)
        for (uint32_t place = 0; place < METRICS_CELL_PLACES; place++)
            if (atomic_load_explicit(&metrics->shards[i].cells[place].used, memory_order_acquire))
                add_cell(totals, &count, &metrics->shards[i].cells[place]);
    return count;
}
