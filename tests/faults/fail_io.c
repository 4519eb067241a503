/*
 * fail_io - makes chosen input and output calls of a serving program fail, or a write to standard
 * output write one byte. To be preloaded (LD_PRELOAD).
 *
 * The environment variable FAIL_IO names a file of sizeof(struct plan) bytes. The library maps the
 * file, and a test that maps the file too changes the plan while the program runs. All threads of
 * the program count together.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The calls, by the numbers that test_failed_io.py gives them. */
enum call { CALL_ACCEPT, CALL_RECEIVE, CALL_SEND, CALL_WAIT, CALL_LOG };

struct plan {
    atomic_int_least64_t call;    /* an enum call */
    atomic_int_least64_t error;   /* errno of a call that fails; 0: a write of one byte */
    atomic_int_least64_t left;    /* calls that succeed before the first that fails */
    atomic_int_least64_t to_fail; /* calls that fail then; 0: none */
    atomic_int_least64_t failed;  /* calls that have failed; the library counts them */
};

static _Atomic(struct plan *) the_plan; /* NULL until the file is mapped */

/* The next definition of a function. A pointer to an object is not converted to one to a function
 * in ISO C. */
#define NEXT(name)                                                                                 \
    __extension__({                                                                                \
        static _Atomic(void *) next;                                                               \
        void *found = atomic_load(&next);                                                          \
        if (found == NULL)                                                                         \
            atomic_store(&next, found = dlsym(RTLD_NEXT, #name));                                  \
        __typeof__(&name) function;                                                                \
        *(void **)&function = found;                                                               \
        function;                                                                                  \
    })

__attribute__((constructor)) static void map_plan(void)
{
    const char *path = getenv("FAIL_IO");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        atomic_store(&the_plan, mapped);
}

enum outcome { GOES_ON, IS_SHORT, FAILS };

/* What becomes of a call. Sets errno if the call fails. */
static enum outcome decide(enum call call)
{
    struct plan *plan = atomic_load(&the_plan);
    if (plan == NULL || atomic_load(&plan->to_fail) <= 0 || atomic_load(&plan->call) != (int)call)
        return GOES_ON;
    if (atomic_fetch_sub(&plan->left, 1) > 0 || atomic_fetch_sub(&plan->to_fail, 1) <= 0)
        return GOES_ON;
    atomic_fetch_add(&plan->failed, 1);
    const int error = (int)atomic_load(&plan->error);
    if (error == 0)
        return IS_SHORT;
    errno = error;
    return FAILS;
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
    return decide(CALL_ACCEPT) == FAILS ? -1 : NEXT(accept4)(fd, address, length, flags);
}

ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
    const bool counts = (flags & MSG_PEEK) == 0 && length > 0;
    return counts && decide(CALL_RECEIVE) == FAILS ? -1 : NEXT(recv)(fd, buffer, length, flags);
}

ssize_t send(int fd, const void *buffer, size_t length, int flags)
{
    return length > 0 && decide(CALL_SEND) == FAILS ? -1 : NEXT(send)(fd, buffer, length, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return decide(CALL_SEND) == FAILS ? -1 : NEXT(sendmsg)(fd, message, flags);
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    return decide(CALL_WAIT) == FAILS ? -1 : NEXT(epoll_wait)(epoll, events, count, timeout);
}

int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout, const sigset_t *mask)
{
    return decide(CALL_WAIT) == FAILS ? -1 : NEXT(epoll_pwait)(epoll, events, count, timeout, mask);
}

/* Whether a descriptor is of the same file as standard output: the log opens the file again. */
static bool is_output(int fd)
{
    struct stat file, output;
    return fstat(fd, &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
           file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

ssize_t write(int fd, const void *buffer, size_t length)
{
    const bool counts = length > 0 && is_output(fd);
    const enum outcome outcome = counts ? decide(CALL_LOG) : GOES_ON;
    return outcome == FAILS ? -1 : NEXT(write)(fd, buffer, outcome == IS_SHORT ? 1 : length);
}
