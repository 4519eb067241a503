/*
 * formats.h - the formats of files: by --format, --in-format and --out-format, else by the files'
 * names.
 */
#ifndef GEMMCTL_FORMATS_H
#define GEMMCTL_FORMATS_H

#include "client/gemmctl/command.h"
#include "proto/tensor.h"

struct formats {
    enum format in, out;
    bool in_given, out_given;
};

/* Reads the options. False, with a sentence in `problem`, if an option names an unknown format. */
bool formats_read(const struct arguments *arguments, struct formats *formats,
                  char problem[PROBLEM_MAX]);
/* The format of a file that is read, or written: the option's, else the one that the name `path`
 * tells, else `otherwise`. */
enum format formats_in(const struct formats *formats, const char *path, enum format otherwise);
enum format formats_out(const struct formats *formats, const char *path, enum format otherwise);
/* Checks that the format of a file to be written is known: by an option, by the end of the file's
 * name, or since the name has no suffix and the operands' format is used. Returns EXIT_OK, or
 * prints a sentence and returns the exit code. */
int formats_check_name(const struct context *context, const struct formats *formats,
                       const char *path);
/* Checks that a matrix can go to `path`. Returns EXIT_OK; if `path` is standard output, and
 * standard output is a terminal or used by --json, prints a sentence and returns the exit code. */
int formats_check_stream(const struct context *context, const char *path);

#endif
