/*
 * system_object.h - POSIX shared memory objects that clients name.
 *
 * The daemon opens an object with its own rights, and therefore checks who owns the object. A
 * client may only name objects of its own user: otherwise the client could read and write, with the
 * daemon's rights, memory that its user cannot. Any thread.
 */
#ifndef SERVER_SHM_SYSTEM_OBJECT_H
#define SERVER_SHM_SYSTEM_OBJECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/error.h"

/* Whether a key is valid: "/name", a slash and 1 to 254 of A-Z a-z 0-9 . _ - that are not all dots.
 */
bool system_object_is_key(const char *key);
/* Opens an object to read and write, without waiting. GEMMD_ERR_NOT_FOUND: there is no such object,
 * the object is not the user's, it is no regular file, or a process has a lease on it. The text of
 * the error is the same in all four cases. */
enum gemmd_error system_object_open(const char *key, uid_t user, int *fd, struct fault *fault);

#endif
