/* The parent: one type after another, a child for each until its work is done. */
#include "tests/bench/kernels.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/sm90/sm90.h"
#include "proto/dtype.h"

enum { CHILDREN_MAX = 24, SILENCE_SECONDS = 20 };

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void bench_beat(struct bench_state *state, int unit, int variant)
{
    state->unit = unit;
    state->variant = variant;
    state->heartbeat++;
}

static void child(const struct bench_run *run)
{
    struct bench_state *state = run->state;
    bool ok = true;
    if (state->phase == PHASE_CHECK) {
        ok = bench_check(run);
        if (ok) {
            state->unit = 0;
            state->phase = run->options->check_only ? PHASE_DONE : PHASE_TIME;
        }
    }
    if (ok && state->phase == PHASE_TIME) {
        ok = bench_time(run);
        if (ok) {
            state->phase = PHASE_DONE;
        }
    }
    _exit(ok ? 0 : 1); /* not exit: the parent's buffers are not this process's to flush */
}

/* Waits for the child to end; ends it if it makes no progress. True if it ended by itself. */
static bool watch(pid_t pid, struct bench_state *state)
{
    uint32_t last = state->heartbeat;
    double since = bench_now();
    for (;;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status);
        }
        const double now = bench_now();
        if (state->heartbeat != last) {
            last = state->heartbeat;
            since = now;
        } else if (now - since > SILENCE_SECONDS || now > state->deadline + SILENCE_SECONDS) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* Blames whoever's turn it was, so that the next child goes past it. */
static void blame(struct bench_state *state, bool ended)
{
    const int variant = state->variant;
    if (variant >= 0) {
        state->dead[variant] = true;
        if (!state->why[variant][0]) {
            snprintf(state->why[variant], WHY_MAX, "%s in %s %d",
                     ended ? "ended the process" : "hung",
                     state->phase == PHASE_CHECK ? "case" : "shape", state->unit);
        }
    } else {
        fprintf(stderr, "gemmd-bench: unit %d of phase %d failed: %s\n", state->unit, state->phase,
                state->fault);
        state->unit++;
    }
}

static void run_type(const struct bench_run *run)
{
    struct bench_state *state = run->state;
    for (int i = 0; i < CHILDREN_MAX && state->phase != PHASE_DONE; i++) {
        if (bench_now() > state->deadline) {
            break;
        }
        fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            child(run);
        }
        if (pid < 0) {
            perror("fork");
            return;
        }
        const bool ended = watch(pid, state);
        if (state->phase != PHASE_DONE) {
            if (state->heartbeat == 0) {
                fprintf(stderr, "gemmd-bench: %s\n", state->fault);
                return; /* there is no device to start on */
            }
            blame(state, ended);
        }
    }
}

bool bench_type(const char *name, struct bench_run *run)
{
    const bool tf32t = strcmp(name, "tf32t") == 0, f32t = strcmp(name, "f32t") == 0;
    const char *to_f32 = strstr(name, "_f32"); /* after a 16-bit type */
    char type[8];
    run->name = name;
    if (tf32t || strcmp(name, "tf32") == 0) {
        run->dtype = GEMMD_F32;
        run->precision = GEMM_PRECISION_TF32;
    } else if (f32t) {
        run->dtype = GEMMD_F32;
    } else {
        snprintf(type, sizeof type, "%.*s", (int)(to_f32 != NULL ? to_f32 - name : 8), name);
        if (!dtype_from_name(type, &run->dtype))
            return false;
    }
    if (run->dtype == GEMMD_F8_E4M3) {
        run->precision = GEMM_PRECISION_F8;
    }
    run->out = to_f32 != NULL ? GEMMD_F32 : dtype_default_out(run->dtype);
    run->transb = dtype_size(run->dtype) == 1 || tf32t || f32t;
    return true;
}

static bool prepare_run(const struct bench_options *options, const char *name, double deadline,
                        struct bench_run *run)
{
    *run = (struct bench_run){.options = options};
    if (!bench_type(name, run)) {
        return false;
    }
    const struct sm90_kernel *kernels = sm90_kernels(run->dtype, run->precision, GEMM_SCALES_NONE);
    if (!kernels) {
        return false;
    }
    struct bench_state *state =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) {
        return false;
    }
    run->state = state;
    state->deadline = deadline;
    state->variant = -1;
    while (kernels[state->variants].name && state->variants < VARIANTS_MAX) {
        const int v = state->variants++;
        if (options->variants && !strstr(kernels[v].name, options->variants)) {
            state->dead[v] = true;
            snprintf(state->why[v], WHY_MAX, "left out");
        }
    }
    state->shapes = bench_shapes(options, state->shape);
    if (state->shapes == 0) {
        fprintf(stderr, "gemmd-bench: no shapes to time\n");
        return false;
    }
    state->cases = bench_cases(run, state->cases_list);
    state->phase = options->no_check ? PHASE_TIME : PHASE_CHECK;
    return true;
}

int bench_kernels(const struct bench_options *options)
{
    char names[128];
    FILE *out = NULL;
    int failed = 0;
    const double deadline = bench_now() + options->seconds;
    snprintf(names, sizeof names, "%s", options->dtypes);
    if (options->out) {
        out = fopen(options->out, "w");
        if (!out) {
            perror(options->out);
            return 1;
        }
    }
    char *rest;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        struct bench_run run;
        if (!prepare_run(options, name, deadline, &run)) {
            fprintf(stderr, "gemmd-bench: no kernels for \"%s\"\n", name);
            failed = 1;
            continue;
        }
        run_type(&run);
        bench_report(&run, stdout);
        if (out) {
            bench_report(&run, out);
        }
        for (int v = 0; v < run.state->variants; v++) {
            failed |= run.state->wrong[v] > 0 || (run.state->dead[v] && run.state->checked[v]);
        }
        failed |= run.state->phase != PHASE_DONE;
        munmap(run.state, sizeof *run.state);
    }
    if (out) {
        fclose(out);
    }
    return failed;
}
