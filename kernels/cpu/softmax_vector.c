/*
 * softmax_vector.c - the serving kernel of the softmax on the CPU: two passes over a row in blocks,
 * of which the first finds the greatest score and the sum together (softmax.h). The sums of blocks
 * are added in f64, and so are the factors from one greatest score to the next computed: the error
 * does not grow with the number of blocks. Exponentials of the first pass that are relative to the
 * greatest score of the row are kept, in Y or if the row is short, and only divided in the second
 * pass.
 */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_softmax.h"
#include "kernels/softmax.h"
#include "proto/dtype.h"

enum {
    BLOCK = 512,
    KEPT = 16 * BLOCK /* scores of a row that are kept from the first pass for the second */
};

struct softmax_job {
    const struct softmax_problem *p;
    struct team *team;
    uint64_t rows; /* in each part */
};

/* The number of scores in whole vectors that hold `count` scores. */
static uint64_t whole_vectors(uint64_t count)
{
    return (count + SOFTMAX_LANES - 1) / SOFTMAX_LANES * SOFTMAX_LANES;
}

/* The scores of a block in units of the scale (struct softmax_scale); beyond the length of the row,
 * up to the end of a vector, minus infinity. Returns the number of scores within the row. */
static uint64_t read_scores(const struct softmax_problem *p, float unit, const char *x,
                            uint64_t first, uint64_t length, float scores[BLOCK])
{
    const uint64_t count = length - first < BLOCK ? length - first : BLOCK;
    const float *read = convert_widened(p->dtype, x + first * dtype_size(p->dtype), scores, count);
    for (uint64_t i = 0; i < count; i++)
        scores[i] = read[i] * unit;
    for (uint64_t i = count; i < whole_vectors(count); i++)
        scores[i] = -INFINITY;
    return count;
}

/* A step of the online softmax over a block of scores; the weights are those of read_scores.
 * Returns the number of scores within the row. */
static uint64_t weigh_block(const struct softmax_problem *p, float unit, const char *x,
                            uint64_t first, uint64_t length, float weights[BLOCK],
                            struct softmax_row *state)
{
    const uint64_t count = length - first < BLOCK ? length - first : BLOCK;
    if (p->dtype == GEMMD_F32 && count == whole_vectors(count)) {
        const float *scores = (const float *)(const void *)x + first;
        (void)softmax_step(scores, unit, weights, count, state);
        return count;
    }
    (void)read_scores(p, unit, x, first, length, weights);
    (void)softmax_step(weights, 1, weights, whole_vectors(count), state);
    return count;
}

/* Whether the weights of a block are written to Y and divided there: a whole block in f32. */
static bool softmax_stays(const struct softmax_problem *p, uint64_t first, uint64_t length)
{
    return p->out == GEMMD_F32 && !p->log && length - first >= BLOCK;
}

/* The functions below that return a bool return false if the computation has to stop. */

static bool softmax_fill(const struct softmax_problem *p, struct team_pace *pace, char *y,
                         uint64_t first, uint64_t end, float value)
{
    float values[BLOCK];
    for (uint64_t i = 0; i < BLOCK && i < end - first; i++)
        values[i] = value;
    for (uint64_t i = first; i < end; i += BLOCK) {
        if (team_pace_stops(pace, BLOCK))
            return false;
        convert_narrow(p->out, values, y + i * dtype_size(p->out),
                       end - i < BLOCK ? end - i : BLOCK);
    }
    return true;
}

static bool softmax_vector_row(const struct softmax_problem *p, struct team_pace *pace,
                               uint64_t row)
{
    const uint64_t length = softmax_length(p, row);
    const char *x = (const char *)p->x + row * p->x_leading * dtype_size(p->dtype);
    char *y = (char *)p->y + row * p->y_leading * dtype_size(p->out);
    const struct softmax_scale scale = softmax_scale((double)(float)p->scale);
    const float unit = (float)scale.unit, factor = (float)scale.factor;
    struct softmax_row state = {.scale = factor, .most = -INFINITY};
    double total = 0;
    float kept[KEPT], *scores;
    uint64_t first_kept = 0; /* the blocks from here on are relative to the greatest score */
    for (uint64_t first = 0; first < length; first += BLOCK) {
        if (team_pace_stops(pace, BLOCK))
            return false;
        scores = kept + first % KEPT;
        if (softmax_stays(p, first, length))
            scores = (float *)(void *)y + first;
        const double most = (double)state.most;
        state.total = 0;
        (void)weigh_block(p, unit, x, first, length, scores, &state);
        if (most < (double)state.most) {
            if (first > 0)
                total *= exp((most - (double)state.most) * scale.factor);
            first_kept = first;
        }
        total += (double)state.total;
    }
    if (!softmax_fill(p, pace, y, length, p->length, p->log ? -INFINITY : 0))
        return false;
    if (length > 0 && (isinf(state.most) || isnan(total)))
        return softmax_fill(p, pace, y, 0, length, NAN);
    const float sum = (float)total, logarithm = p->log ? logf(sum) : 0;
    for (uint64_t first = 0; first < length; first += BLOCK) {
        if (team_pace_stops(pace, BLOCK))
            return false;
        const uint64_t left = length - first;
        uint64_t count = left < BLOCK ? left : BLOCK;
        const bool stays = softmax_stays(p, first, length);
        scores = kept + first % KEPT;
        if (stays)
            scores = (float *)(void *)y + first;
        if (p->log)
            count = read_scores(p, unit, x, first, length, scores);
        else if (first < first_kept || (length > KEPT && !stays))
            count = weigh_block(p, unit, x, first, length, scores, &state);
        for (uint64_t i = 0; i < count && p->log; i++)
            scores[i] = (scores[i] - state.most) * factor - logarithm;
        char *to = y + first * dtype_size(p->out);
        if (!p->log)
            softmax_divide(scores, sum, count, p->out == GEMMD_F32 ? (float *)(void *)to : scores);
        if (p->log || p->out != GEMMD_F32)
            convert_narrow(p->out, scores, to, count);
    }
    return true;
}

static void softmax_part(void *argument, uint64_t part, uint32_t member)
{
    const struct softmax_job *job = argument;
    const uint64_t end = (part + 1) * job->rows;
    (void)member;
    struct team_pace pace = {.team = job->team};
    for (uint64_t row = part * job->rows; row < end && row < job->p->rows; row++)
        if (!softmax_vector_row(job->p, &pace, row))
            return;
}

static enum gemmd_error softmax_vector_run(struct gemm_context *base, const void *problem,
                                           void *workspace)
{
    enum { PART_ELEMENTS = 1 << 14 };
    const struct softmax_problem *p = problem;
    struct softmax_job job = {.p = p, .team = cpu_context_of(base)->team};
    job.rows = p->length < PART_ELEMENTS ? PART_ELEMENTS / p->length : 1;
    (void)workspace;
    team_run(job.team, softmax_part, &job, (p->rows + job.rows - 1) / job.rows);
    return GEMMD_OK;
}

static bool softmax_vector_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_problem_offered(problem) && p->dtype != GEMMD_F64;
}

const struct operation_kernel softmax_cpu_vector = {
    .name = "vector",
    .description = "two passes over a row in vectors; the first is online",
    .takes = softmax_vector_takes,
    .workspace_bytes = operation_no_workspace,
    .run = softmax_vector_run,
};
