#include "kernels/launch_cut.h"

#include <math.h>

#include "kernels/subproblem.h"
#include "proto/dtype.h"
#include "proto/size.h"

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* The smallest power of two so that so many strides are a multiple of 256 bytes. */
static uint64_t aligned_problems(uint64_t stride, size_t element_bytes)
{
    uint64_t count = 1;
    while (count * stride * element_bytes % 256 != 0)
        count *= 2;
    return count;
}

static uint64_t most_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* The fewest problems that a launch of some problems of the batch can have. */
static uint64_t fewest_problems(const struct gemm_problem *p)
{
    const size_t in = dtype_size(p->dtype), out = dtype_size(p->out);
    uint64_t count = most_of(aligned_problems(p->stride_a, in), aligned_problems(p->stride_b, in));
    count = most_of(count, aligned_problems(p->stride_c, out));
    if (p->c0 != NULL)
        count = most_of(count, aligned_problems(p->stride_c0, out));
    return at_most(count, p->batch);
}

/* Divides `all` into equal launches of at most `most`, each but the last a multiple of `step`. */
static uint64_t each_of(uint64_t all, double most, uint64_t step)
{
    const double steps = floor(most / (double)step);
    const uint64_t longest = steps < 1                             ? step
                             : steps * (double)step >= (double)all ? all
                                                                   : (uint64_t)steps * step;
    const uint64_t launches = size_blocks(all, longest);
    if (launches <= 1)
        return all;
    const uint64_t each = size_blocks(size_blocks(all, launches), step) * step;
    return each > 0 && each < all ? each : all;
}

static bool launch_fits(const struct operation_kernel *kernel, const struct gemm_problem *whole,
                        const struct gemm_problem *part)
{
    uint64_t room, needed;
    return kernel->takes(part) && kernel->workspace_bytes(whole, &room) &&
           kernel->workspace_bytes(part, &needed) && needed <= room;
}

/* The operations that one launch of a product should have. */
static double most_flops(const struct operation_kernel *kernel, const struct gemm_problem *p)
{
    const bool is_full = p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
    return is_full && kernel->launch_flops_f32 > 0 ? kernel->launch_flops_f32
                                                   : kernel->launch_flops;
}

void launch_cut_gemm_piece(const struct launch_cut *cut, const void *problem, uint64_t index,
                           void *piece)
{
    const struct gemm_problem *p = problem;
    const uint64_t row_launches = size_blocks(p->m, cut->rows);
    const uint64_t first = index / row_launches * cut->problems;
    const uint64_t row = index % row_launches * cut->rows;
    const struct gemm_range range = {.first_problem = first,
                                     .problems = at_most(cut->problems, p->batch - first),
                                     .first_row = row,
                                     .rows = at_most(cut->rows, p->m - row)};
    *(struct gemm_problem *)piece = gemm_subproblem(p, &range);
}

void launch_cut_gemm(const struct operation_kernel *kernel, const void *problem,
                     struct launch_cut *cut)
{
    const struct gemm_problem *p = problem;
    struct gemm_problem first, last;
    const struct launch_cut whole = {.launches = 1, .rows = p->m, .problems = p->batch};
    const double row = 2.0 * (double)p->n * (double)p->k, one = row * (double)p->m;
    const double most = most_flops(kernel, p);
    *cut = whole;
    if (p->m == 0 || p->batch == 0 || most <= 0 || one * (double)p->batch <= most)
        return;
    const uint64_t fewest = fewest_problems(p);
    cut->problems = each_of(p->batch, most / one, fewest);
    if (one * (double)cut->problems > most)
        cut->rows = each_of(p->m, most / (row * (double)cut->problems), SUBPROBLEM_ROWS);
    cut->launches = size_blocks(p->batch, cut->problems) * size_blocks(p->m, cut->rows);
    launch_cut_gemm_piece(cut, p, 0, &first);
    launch_cut_gemm_piece(cut, p, cut->launches - 1, &last);
    if (!launch_fits(kernel, p, &first) || !launch_fits(kernel, p, &last))
        *cut = whole;
}

void launch_cut_make(const struct task *task, struct gemm_context *context, struct launch_cut *cut)
{
    const struct operation *operation = task->operation;
    const struct operation_kernel *kernel = task->kernel;
    const void *problem = &task->problem;
    if (operation->cut != NULL) {
        operation->cut(kernel, problem, cut);
        return;
    }
    *cut = (struct launch_cut){.launches = 1};
    if (kernel->tiles == NULL)
        return;
    const uint64_t tiles = kernel->tiles(context, problem);
    const double cost = operation->launch_cost != NULL ? operation->launch_cost(problem)
                                                       : operation->flops(problem);
    const double launches = fmin(ceil(cost / kernel->launch_flops), (double)tiles);
    cut->tiles_all = tiles;
    cut->tiles = launches > 1 ? size_blocks(tiles, (uint64_t)launches) : tiles;
    cut->launches = tiles > 0 ? size_blocks(tiles, cut->tiles) : 1;
}

enum gemmd_error launch_cut_run(const struct launch_cut *cut, const struct task *task,
                                struct gemm_context *context, uint64_t index, void *workspace)
{
    const struct operation_kernel *kernel = task->kernel;
    union operation_problem piece;
    if (cut->launches <= 1)
        return operation_run(kernel, context, &task->problem, workspace);
    if (task->operation->cut_piece != NULL) {
        task->operation->cut_piece(cut, &task->problem, index, &piece);
        return operation_run(kernel, context, &piece, workspace);
    }
    const uint64_t first = index * cut->tiles;
    const struct operation_range tiles = {first, at_most(cut->tiles, cut->tiles_all - first)};
    return kernel->run_tiles(context, &task->problem, tiles);
}
