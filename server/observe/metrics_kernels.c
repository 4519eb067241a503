/* The families that say what each kernel has computed. */
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "server/observe/metrics_families.h"

enum { LABELS_MAX = 200 };

/* The sums over all shards for one kernel, task and type. */
struct kernel_total {
    const char *name;
    enum metrics_task task;
    enum gemmd_dtype dtype;
    uint64_t works, busy_ns;
    double flops, bytes;
};

const char *metrics_task_name(enum metrics_task task)
{
    return task == METRICS_TASK_COPY ? "copy" : operation_table[(int)task]->name;
}

/* Adds the counts of one kernel to the totals. Kernels for which the table has no place are added
 * up in its last entry. */
static void add_kernel(struct kernel_total *totals, uint32_t *count,
                       const struct metrics_kernel *kernel, bool is_rest)
{
    uint32_t i = is_rest ? METRICS_KERNELS_MAX : 0;
    while (i < *count && i < METRICS_KERNELS_MAX &&
           (strcmp(totals[i].name, kernel->name) != 0 || totals[i].task != kernel->task ||
            totals[i].dtype != kernel->dtype))
        i++;
    if (i < METRICS_KERNELS_MAX && i == *count)
        totals[(*count)++] = (struct kernel_total){
            .name = kernel->name, .task = kernel->task, .dtype = kernel->dtype};
    totals[i].works += atomic_load_explicit(&kernel->works, memory_order_relaxed);
    totals[i].busy_ns += atomic_load_explicit(&kernel->busy_ns, memory_order_relaxed);
    totals[i].flops += atomic_load_explicit(&kernel->flops, memory_order_relaxed);
    totals[i].bytes += atomic_load_explicit(&kernel->bytes, memory_order_relaxed);
}

static void kernel_labels(const struct kernel_total *kernel, char out[LABELS_MAX])
{
    if (kernel->name == NULL)
        snprintf(out, LABELS_MAX, "op=\"\",kernel=\"other\",dtype=\"\"");
    else
        snprintf(out, LABELS_MAX, "op=\"%s\",kernel=\"%s\",dtype=\"%s\"",
                 metrics_task_name(kernel->task), kernel->name, dtype_name(kernel->dtype));
}

void metrics_write_kernels(struct metrics_writer *writer, const struct metrics *metrics)
{
    struct kernel_total totals[METRICS_KERNELS_MAX + 1] = {{.works = 0}};
    char labels[LABELS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const struct metrics_shard *shard = &metrics->shards[i];
        const uint32_t kernels = atomic_load_explicit(&shard->kernel_count, memory_order_acquire);
        for (uint32_t k = 0; k < kernels; k++)
            add_kernel(totals, &count, &shard->kernels[k], k == METRICS_KERNELS_MAX);
    }
    if (totals[METRICS_KERNELS_MAX].works > 0)
        totals[count++] = totals[METRICS_KERNELS_MAX];
    metrics_family(writer, "gemmd_kernel_works", METRICS_COUNTER,
                   "Problems computed, by operation, kernel and operand type. Combinations of the "
                   "three after the first 10 are counted together, as kernel other.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample(writer, labels, totals[i].works);
    }
    metrics_family(writer, "gemmd_kernel_flops", METRICS_COUNTER,
                   "Floating-point operations of computed results, by kernel and operand type.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_real(writer, labels, totals[i].flops);
    }
    metrics_family(writer, "gemmd_kernel_moved_bytes", METRICS_COUNTER,
                   "Bytes of operands and results, each counted once, by kernel and operand type.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_real(writer, labels, totals[i].bytes);
    }
    metrics_family(writer, "gemmd_kernel_busy_seconds", METRICS_COUNTER,
                   "Time of launches, by kernel and operand type. The time of a shared launch is "
                   "divided evenly among its works.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_seconds(writer, labels, totals[i].busy_ns);
    }
}
