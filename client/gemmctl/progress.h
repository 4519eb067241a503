/*
 * progress.h - while gemmctl waits: a line on a terminal that shows the progress of a request or of
 * a command, and Ctrl-C.
 *
 * The first Ctrl-C or SIGTERM asks gemmctl to stop, the second one ends gemmctl at once.
 */
#ifndef GEMMCTL_PROGRESS_H
#define GEMMCTL_PROGRESS_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/gemmctl/terminal.h"

struct context;

/* The longest time for which a function waits before it calls interrupt_asked. */
enum { INTERRUPT_CHECK_MS = 100 };

/* Installs the signal handlers. */
void interrupt_watch(void);
/* Whether a signal has arrived since interrupt_watch. */
bool interrupt_asked(void);

struct progress_line {
    bool shown;  /* the line has text */
    bool wanted; /* standard error is a terminal, and --quiet is not given */
    double started_s;
    double drawn_s; /* when the line was drawn last */
    /* The part of the work that the line shows, from which rate and time left are computed. */
    const char *part; /* a static string; NULL: none yet */
    uint64_t part_from;
    double part_s; /* when the part began */
};

void progress_start(struct progress_line *line, const struct terminal *terminal, bool quiet);
/* Redraws the line, if the request has taken long enough for a person to notice. While bytes
 * travel, the line has a bar, the rate and the time left. */
void progress_draw(struct progress_line *line, const struct gemmd_request *request);
/* Redraws the line with a bar, the time left and the text `note` (NULL: none), for a part of the
 * work that has done `done` of `total` units. `part` is a static string. At most ten times a
 * second. */
void progress_part(struct progress_line *line, const char *part, uint64_t done, uint64_t total,
                   const char *note);
/* Draws the line with the name of the command's next part. */
void progress_say(struct progress_line *line, const char *part);
/* Clears the line. */
void progress_end(struct progress_line *line);

/* Waits for a request with a progress line, takes its result, and releases the request. If
 * `request` is NULL, returns the code of `error`, which the function that failed to make the
 * request has filled in. `result` may be NULL. Ctrl-C cancels the request. */
enum gemmd_error await(const struct context *context, struct gemmd_request *request,
                       struct gemmd_result *result, struct gemmd_error_info *error);

#endif
