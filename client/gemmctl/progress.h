/*
 * progress.h - a line on a terminal that shows the progress of a request, or of a command.
 */
#ifndef GEMMCTL_PROGRESS_H
#define GEMMCTL_PROGRESS_H

#include <gemmd/gemmd.h>
#include <stdbool.h>

#include "client/gemmctl/terminal.h"

struct progress_line {
    bool shown;  /* the line has text */
    bool wanted; /* standard error is a terminal, and --quiet is not given */
    double started_s;
};

void progress_start(struct progress_line *line, const struct terminal *terminal, bool quiet);
/* Redraws the line, if the request has taken long enough for a person to notice. */
void progress_draw(struct progress_line *line, const struct gemmd_request *request);
/* Draws the line with the name of the command's next part. */
void progress_say(struct progress_line *line, const char *part);
/* Clears the line. */
void progress_end(struct progress_line *line);

#endif
