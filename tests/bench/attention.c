/* The parent: one type after another, a child for each until its work is done; then the tables. */
#include "tests/bench/attention.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/dtype.h"
#include "tests/bench/kernels.h"

enum { CHILDREN_MAX = 24, SILENCE_SECONDS = 20 };

/* Waits for the child to end; ends it if it makes no progress. True if it ended by itself. */
static bool watch(pid_t pid, struct attention_state *state)
{
    uint32_t last = state->heartbeat;
    double since = bench_now();
    for (;;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status);
        if (state->heartbeat != last) {
            last = state->heartbeat;
            since = bench_now();
        } else if (bench_now() - since > SILENCE_SECONDS) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* Blames whoever's turn it was, so that the next child goes past it. */
static void blame(struct attention_state *state, bool ended)
{
    const int kernel = state->kernel;
    if (kernel < 0) {
        fprintf(stderr, "gemmd-bench: %s: %s\n", state->cell_list[state->cell].name, state->fault);
        state->cell++;
        return;
    }
    const struct attention_cell cell = state->cell_list[state->cell];
    if (!state->dead[kernel])
        snprintf(state->why[kernel], sizeof state->why[kernel], "%s in %.47s: %.80s",
                 ended ? "failed" : "hung", cell.name, state->fault);
    else
        state->cell++; /* the reference itself */
    state->dead[kernel] = true;
    state->wrong[kernel]++;
}

static void run_type(struct attention_state *state)
{
    for (int i = 0; i < CHILDREN_MAX && !state->done && bench_now() < state->deadline; i++) {
        fflush(NULL);
        const pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return;
        }
        if (pid == 0)
            _exit(attention_measure(state) ? 0 : 1); /* the buffers are the parent's to flush */
        const bool ended = watch(pid, state);
        if (state->done)
            return;
        if (!state->started) {
            fprintf(stderr, "gemmd-bench: %s\n", state->fault);
            return;
        }
        blame(state, ended);
    }
}

/* TFLOP/s, or GB/s where reading K and V is all there is. */
static double rate(const struct attention_cell *cell, enum gemmd_dtype dtype, float milliseconds)
{
    const struct attention_problem p = attention_cell_problem(cell, dtype);
    const double bytes =
        (double)(p.batch * p.kv_heads * p.skv) * (double)(p.d + p.dv) * dtype_size(dtype);
    if (!(milliseconds > 0))
        return 0;
    return cell->sq == 1 ? bytes / ((double)milliseconds * 1e6)
                         : attention_flops(&p) / ((double)milliseconds * 1e9);
}

/* The first kernel of the table that takes the cell. */
static int chosen(const struct attention_state *state, const struct attention_cell *cell)
{
    const struct attention_problem p = attention_cell_problem(cell, state->dtype);
    for (int k = 0; k < state->kernels; k++)
        if (state->own[k].tile == NULL && state->own[k].kernel->takes(&p))
            return k;
    return 0;
}

static void report(const struct attention_state *state, FILE *to)
{
    fprintf(to, "\n### attention, %s, on %s\n\n", dtype_name(state->dtype), state->device);
    fprintf(to, "TFLOP/s of the pairs that the mask leaves; GB/s of K and V for decode. Checked "
                "against tiled, and each cell's last entry alone against the whole.\n\n");
    for (int k = 0; k < state->kernels; k++)
        if (state->wrong[k] > 0)
            fprintf(to, "- %s %s (%d of %d): %s\n", state->own[k].name,
                    state->dead[k] ? "NOT RUN" : "WRONG", state->wrong[k], state->checked[k],
                    state->why[k]);
    fprintf(to, "\n| cell | chosen | its rate | ms | every kernel | MHz | W |\n"
                "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < state->cells; i++) {
        const struct attention_cell *cell = &state->cell_list[i];
        const struct attention_result *r = &state->result[i];
        if (!r->done)
            continue;
        const int best = chosen(state, cell);
        fprintf(to, "| %s | %s | %.1f | %.4f |", cell->name, state->own[best].name,
                rate(cell, state->dtype, r->milliseconds[best]), (double)r->milliseconds[best]);
        for (int k = 0; k < state->kernels; k++)
            if (r->milliseconds[k] > 0)
                fprintf(to, " %s %.1f;", state->own[k].name,
                        rate(cell, state->dtype, r->milliseconds[k]));
        fprintf(to, " | %u | %u |\n", r->clock_mhz, r->power_watts);
    }
    fflush(to);
}

static bool prepare(const struct attention_options *options, const char *dtype, double deadline,
                    struct attention_state *state)
{
    state->deadline = deadline;
    state->check_only = options->check_only;
    state->kernel = -1;
    if (!dtype_from_name(dtype, &state->dtype) ||
        (state->dtype != GEMMD_F16 && state->dtype != GEMMD_BF16))
        return false;
    state->cells = attention_cells(options->cells, state->cell_list);
    state->kernels = attention_own_list(state->dtype, state->own);
    for (int k = 0; k < state->kernels; k++)
        state->dead[k] =
            options->kernels != NULL && strstr(state->own[k].name, options->kernels) == NULL;
    return true;
}

int bench_attention(const struct attention_options *options)
{
    char names[64];
    FILE *out = NULL;
    int failed = 0;
    const double deadline = bench_now() + options->seconds;
    snprintf(names, sizeof names, "%s", options->dtypes);
    if (options->out != NULL && (out = fopen(options->out, "w")) == NULL) {
        perror(options->out);
        return 1;
    }
    char *rest;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        struct attention_state *state =
            mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (state == MAP_FAILED || !prepare(options, name, deadline, state)) {
            fprintf(stderr, "gemmd-bench: no attention in \"%s\"\n", name);
            failed = 1;
            continue;
        }
        run_type(state);
        report(state, stdout);
        if (out != NULL)
            report(state, out);
        failed |= !state->done;
        for (int k = 0; k < state->kernels; k++)
            failed |= state->wrong[k] > 0;
        munmap(state, sizeof *state);
    }
    if (out != NULL)
        fclose(out);
    return failed;
}
