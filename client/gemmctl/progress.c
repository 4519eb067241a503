#include "client/gemmctl/progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/gemmctl/command.h"
#include "client/gemmctl/units.h"

/* ---- Ctrl-C ---- */

/* A signal handler has no argument, so this flag has to be a static variable. */
static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    (void)number;
    asked = 1;
}

void interrupt_watch(void)
{
    /* SA_RESETHAND: the second signal ends the program. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_asked(void)
{
    return asked != 0;
}

/* ---- the line ---- */

#define NOTICED_S 0.5
#define REDRAW_S 0.1
/* A rate is shown once it was measured for this long. */
#define RATE_S 0.2

enum { BAR_WIDTH = 20 };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress_start(struct progress_line *line, const struct terminal *terminal, bool quiet)
{
    *line = (struct progress_line){.wanted = terminal->moves && !quiet, .started_s = now_s()};
}

/* Returns units per second of the part, 0: not known yet. A part that begins anew, as after a lost
 * connection, is measured anew. */
static double rate_of(struct progress_line *line, const char *part, uint64_t done, double now)
{
    if (line->part == NULL || strcmp(line->part, part) != 0 || done < line->part_from) {
        line->part = part;
        line->part_from = done;
        line->part_s = now;
    }
    return now - line->part_s < RATE_S || done == line->part_from
               ? 0
               : (double)(done - line->part_from) / (now - line->part_s);
}

/* Draws "part [####....]  40 % of 12.0 MiB, 3.1 MiB/s, 2.3s left", at most 80 columns. `bytes`: the
 * units are bytes. */
static void draw_bar(struct progress_line *line, const char *part, uint64_t done, uint64_t total,
                     bool bytes, const char *note)
{
    char bar[BAR_WIDTH + 1], text[UNITS_ROOM];
    const double share = total > 0 ? (double)done / (double)total : 0, now = now_s();
    const double rate = rate_of(line, part, done, now);
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r\033[K%-9s [%s] %3d %%", part, bar, (int)(share * 100));
    if (bytes)
        fprintf(stderr, " of %s", units_bytes((double)total, text));
    if (note != NULL)
        fprintf(stderr, ", %s", note);
    if (bytes && rate > 0)
        fprintf(stderr, ", %s/s", units_bytes(rate, text));
    if (rate > 0 && done < total)
        fprintf(stderr, ", %s left", units_duration((double)(total - done) / rate, text));
    line->drawn_s = now;
    line->shown = true;
}

void progress_draw(struct progress_line *line, const struct gemmd_request *request)
{
    struct gemmd_progress at;
    if (!line->wanted || now_s() - line->started_s < NOTICED_S)
        return;
    gemmd_request_progress(request, &at);
    if (at.received > 0)
        draw_bar(line, "receiving", at.received, at.to_receive, true, NULL);
    else if (at.sent < at.to_send)
        draw_bar(line, at.attempts > 1 ? "resending" : "sending", at.sent, at.to_send, true, NULL);
    else
        fprintf(stderr, "\r\033[Kcomputing ... %.0f s", now_s() - line->started_s);
    line->shown = true;
}

void progress_part(struct progress_line *line, const char *part, uint64_t done, uint64_t total,
                   const char *note)
{
    const double now = line->wanted ? now_s() : 0;
    if (line->wanted && now - line->started_s >= NOTICED_S && now - line->drawn_s >= REDRAW_S)
        draw_bar(line, part, done, total, false, note);
}

void progress_say(struct progress_line *line, const char *part)
{
    if (!line->wanted)
        return;
    fprintf(stderr, "\r\033[K%s ... %.0f s", part, now_s() - line->started_s);
    line->shown = true;
}

void progress_end(struct progress_line *line)
{
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
}

/* ---- requests ---- */

enum gemmd_error await(const struct context *context, struct gemmd_request *request,
                       struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct progress_line line;
    if (request == NULL)
        return error->code;
    interrupt_watch();
    progress_start(&line, &context->terminal, option_flag(context->arguments, OPTION_QUIET));
    while (!gemmd_wait(request, INTERRUPT_CHECK_MS)) {
        progress_draw(&line, request);
        if (interrupt_asked())
            gemmd_cancel(request);
    }
    progress_end(&line);
    enum gemmd_error code = gemmd_request_result(request, result, error);
    gemmd_request_free(request);
    return code;
}
