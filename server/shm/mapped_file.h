/*
 * mapped_file.h - memory of a client's, mapped into the daemon.
 *
 * A client can shorten its file at any time, and touching what is not there any more raises SIGBUS.
 * While any mapping exists the process catches that signal: it puts zeroes where the mapping was,
 * for whoever computes with them to come to an end, and the mapping counts as broken from then on.
 * A SIGBUS at any other address is as deadly as ever. (The GPU reads pinned pages, which stay.)
 */
#ifndef SERVER_SHM_MAPPED_FILE_H
#define SERVER_SHM_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum { MAPPED_FILE_MAX = 4096 }; /* at a time, in the process */

struct mapped_file {
    unsigned char *start; /* what was asked for */
    uint64_t bytes;
    void *page; /* its page, where the mapping begins */
    uint64_t mapped_bytes;
    int fd;        /* kept to ask for its size; -1: it cannot shrink */
    uint64_t end;  /* how long the file has to be */
    uint32_t slot; /* the signal handler's */
};

/* Maps `bytes` of a file from `offset` on, to read and to write. Keeps a duplicate of the
 * descriptor unless the file is sealed against shrinking. GEMMD_ERR_MALFORMED: the file is not so
 * long; GEMMD_ERR_OUT_OF_MEMORY: there are too many, or the system refuses. Any thread. */
enum gemmd_error mapped_file_open(struct mapped_file *mapped, int fd, uint64_t offset,
                                  uint64_t bytes, struct fault *fault);
/* Nobody may use the memory any more. */
void mapped_file_close(struct mapped_file *mapped);
/* Whether the file is as long as it was and no access has found otherwise. A client that shortens
 * its file the moment after is caught by the next to ask. Any thread. */
bool mapped_file_is_whole(const struct mapped_file *mapped);
/* Whether the file cannot become shorter any more: a memfd, sealed. */
bool mapped_file_is_sealed(int fd);

#endif
