#include "server/shm/system_object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_MAX = 255 };

bool system_object_is_key(const char *key)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(key);
    return length >= 2 && length <= KEY_MAX && key[0] == '/' &&
           strspn(key + 1, allowed) == length - 1 && strspn(key + 1, ".") != length - 1;
}

enum gemmd_error system_object_open(const char *key, uid_t user, int *out, struct fault *fault)
{
    struct stat file;
    /* glibc adds O_NOFOLLOW, so that no symbolic link leads elsewhere, and O_CLOEXEC. With
     * O_NONBLOCK, opening fails if a process has a lease on the object (F_SETLEASE of fcntl).
     * Without it, the owner of the object could hold up the calling thread for 45 seconds. */
    const bool key_is_valid = system_object_is_key(key);
    const int fd = key_is_valid ? shm_open(key, O_RDWR | O_NONBLOCK, 0) : -1;
    const int error = errno;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == user) {
        *out = fd;
        return GEMMD_OK;
    }
    if (fd >= 0)
        close(fd);
    else if (key_is_valid && (error == EMFILE || error == ENFILE || error == ENOMEM))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "key",
                         "the shared memory object could not be opened: %s", strerror(error));
    return fault_set(
        fault, GEMMD_ERR_NOT_FOUND, "key",
        "there is no shared memory object with that key that belongs to this client's user");
}
