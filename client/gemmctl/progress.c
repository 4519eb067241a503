#include "client/gemmctl/progress.h"

#include <stdio.h>
#include <time.h>

#define NOTICED_S 0.5

enum { BAR_WIDTH = 30 };

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

static void draw_bar(const char *what, uint64_t done, uint64_t total)
{
    char bar[BAR_WIDTH + 1];
    double part = total > 0 ? (double)done / (double)total : 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(part * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r\033[K%-9s [%s] %3d %% of %.1f MiB", what, bar, (int)(part * 100),
            (double)total / (1024 * 1024));
}

void progress_draw(struct progress_line *line, const struct gemmd_request *request)
{
    struct gemmd_progress at;
    if (!line->wanted || now_s() - line->started_s < NOTICED_S)
        return;
    gemmd_request_progress(request, &at);
    if (at.received > 0)
        draw_bar("receiving", at.received, at.to_receive);
    else if (at.sent < at.to_send)
        draw_bar(at.attempts > 1 ? "resending" : "sending", at.sent, at.to_send);
    else
        fprintf(stderr, "\r\033[Kcomputing ... %.0f s", now_s() - line->started_s);
    line->shown = true;
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
