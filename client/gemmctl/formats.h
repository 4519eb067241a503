/*
 * formats.h - which format the files are in: what --format and its kin say, else their names.
 */
#ifndef GEMMCTL_FORMATS_H
#define GEMMCTL_FORMATS_H

#include "client/gemmctl/command.h"
#include "proto/tensor.h"

struct formats {
    enum format in, out;
    bool in_given, out_given;
};

/* False with a sentence if an option names none. */
bool formats_read(const struct arguments *arguments, struct formats *formats,
                  char problem[PROBLEM_MAX]);
/* Of the file at `path`: what was given, what its name tells, else `otherwise`. */
enum format formats_in(const struct formats *formats, const char *path, enum format otherwise);
enum format formats_out(const struct formats *formats, const char *path, enum format otherwise);
/* EXIT_OK, or the exit code after saying why a matrix cannot go to standard output. */
int formats_check_stream(const struct context *context, const char *path);

#endif
