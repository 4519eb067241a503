/*
 * top_view.h - the report of gemmctl top, as lines for people or as JSON.
 */
#ifndef GEMMCTL_TOP_VIEW_H
#define GEMMCTL_TOP_VIEW_H

#include <stdio.h>

#include "client/gemmctl/top_sample.h"

struct top_view {
    const struct top_look *before, *after; /* two looks that succeeded */
    const char *url;                       /* the daemon's address */
    const char *problem;                   /* why there is no newer look; NULL: there is one */
    bool color;
};

/* Prints the report. False: out of memory. */
bool top_view_print(const struct top_view *view, FILE *to);
/* Describes the report as a new JSON object; NULL: out of memory. */
json_t *top_view_describe(const struct top_view *view);

#endif
