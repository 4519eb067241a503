/*
 * option_file.h - reads the files that options name: options, tokens, certificates, keys, headers.
 *
 * A file is opened without waiting, must be a regular file, and has OPTION_FILE_BYTES_MAX bytes at
 * most. A FIFO, a device, a file with a lease of another process, or a file that grows while it is
 * read can therefore neither hold up the calling thread nor take much memory. Symbolic links are
 * followed, since Kubernetes mounts secrets through them. The bytes are overwritten with zeros
 * before they are freed. Any thread.
 */
#ifndef SERVER_BASE_OPTION_FILE_H
#define SERVER_BASE_OPTION_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/error.h"

enum { OPTION_FILE_BYTES_MAX = 1 << 20 };

struct option_file {
    const char *option; /* the option's name, without dashes */
    const char *path;
    bool is_private; /* refused if every user of the host can read or write the file */
    bool may_wait;   /* a pipe or another kind of file that can be read to its end will do */
};

struct option_text {
    char *bytes;        /* with a zero byte behind them; owned */
    size_t length;      /* without that zero byte */
    size_t read_so_far; /* by option_text_line */
};

/* Reads a whole file. GEMMD_ERR_IO: the file cannot be read, or is of another kind.
 * GEMMD_ERR_USAGE: the file is too long, or its mode is too open. GEMMD_ERR_OUT_OF_MEMORY. The
 * fault names the option and the file, and quotes nothing of the file. After a failure `text` is
 * empty. */
enum gemmd_error option_file_read(const struct option_file *file, struct option_text *text,
                                  struct fault *fault);
/* Checks the same without reading: that the file can be opened and is of the right kind. */
enum gemmd_error option_file_check(const struct option_file *file, struct fault *fault);
/* Overwrites the text with zeros, and frees it. */
void option_text_free(struct option_text *text);

/* Returns the next line of the text, zero-terminated and without its line end, and sets `*length`.
 * A line with a zero byte in it is longer than strlen says. NULL: there is no further line. Changes
 * the text. */
char *option_text_line(struct option_text *text, size_t *length);

#endif
