/*
 * progress.h - one line on a terminal that says how far a request, or a command, is.
 */
#ifndef GEMMCTL_PROGRESS_H
#define GEMMCTL_PROGRESS_H

#include <gemmd/gemmd.h>
#include <stdbool.h>

#include "client/gemmctl/terminal.h"

struct progress_line {
    bool shown; /* something is on the line */
    bool wanted;
    double started_s;
};

void progress_start(struct progress_line *line, const struct terminal *terminal, bool quiet);
/* Redraws the line, once the request has taken longer than a person notices. */
void progress_draw(struct progress_line *line, const struct gemmd_request *request);
/* Says instead which part of a command is next. */
void progress_say(struct progress_line *line, const char *part);
/* Leaves the line empty. */
void progress_end(struct progress_line *line);

#endif
