/*
 * progress.h - a line on a terminal that shows the progress of a request, or of a command.
 */
#ifndef GEMMCTL_PROGRESS_H
#define GEMMCTL_PROGRESS_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/gemmctl/terminal.h"

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

#endif
