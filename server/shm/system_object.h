/*
 * system_object.h - POSIX shared memory objects that clients name.
 *
 * The daemon opens them with rights of its own, so it has to ask whose they are: a client may only
 * name what its user owns, or it would read and write with the daemon's rights what it cannot
 * itself. Any thread.
 */
#ifndef SERVER_SHM_SYSTEM_OBJECT_H
#define SERVER_SHM_SYSTEM_OBJECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/error.h"

/* "/name": a slash, then 1 to 254 of A-Z a-z 0-9 . _ - that are not all dots. */
bool system_object_is_key(const char *key);
/* Opens an object to read and write. GEMMD_ERR_NOT_FOUND, with the same words in all cases: there
 * is none, it is not the user's, or it is no plain file. */
enum gemmd_error system_object_open(const char *key, uid_t user, int *fd, struct fault *fault);

#endif
