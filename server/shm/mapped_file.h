/*
 * mapped_file.h - a client's file (a memfd or a POSIX shared memory object), mapped into the
 * daemon.
 *
 * A client can shorten its file at any time. Accessing memory that the file no longer has raises
 * SIGBUS. While any file is mapped, the process catches SIGBUS: the handler maps zeroes over the
 * whole mapped file, so that the thread that is computing with the memory can finish, and the
 * mapped file counts as broken from then on. A SIGBUS at any other address ends the process as
 * usual. A GPU reads pinned pages, which stay valid.
 */
#ifndef SERVER_SHM_MAPPED_FILE_H
#define SERVER_SHM_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum { MAPPED_FILE_MAX = 4096 }; /* mapped files at a time, in the whole process */

struct mapped_file {
    unsigned char *start; /* the bytes that were asked for */
    uint64_t bytes;
    void *page; /* the start of the page that holds `start`, where the memory is mapped */
    uint64_t mapped_bytes;
    int fd;        /* a duplicate, to ask for the file's size; -1: the file cannot shrink */
    uint64_t end;  /* the size that the file must have at least */
    uint32_t slot; /* used by the signal handler */
};

/* Maps `bytes` of a file at `offset`, to read and write. The mapped file keeps a duplicate of the
 * descriptor unless the file is sealed against shrinking. GEMMD_ERR_MALFORMED: the file is too
 * short, or cannot be written. GEMMD_ERR_OUT_OF_MEMORY: MAPPED_FILE_MAX files are mapped, or the
 * system has no memory or descriptor left. Any thread. */
enum gemmd_error mapped_file_open(struct mapped_file *mapped, int fd, uint64_t offset,
                                  uint64_t bytes, struct fault *fault);
/* Unmaps the memory, which no thread may use any more. */
void mapped_file_close(struct mapped_file *mapped);
/* Whether the file is still long enough, and no access has found otherwise. A file that is
 * shortened just after a call is noticed by the next call. Any thread. */
bool mapped_file_is_whole(const struct mapped_file *mapped);
/* Whether a descriptor is that of a memfd sealed against shrinking. */
bool mapped_file_is_sealed(int fd);
/* Whether a descriptor is open for reading and writing. */
bool mapped_file_is_writable(int fd);

#endif
