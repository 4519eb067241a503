/*
 * fail_calls - makes one call of a program fail, as if the system had no memory, threads or
 * descriptors left. To be preloaded (LD_PRELOAD).
 *
 * FAIL_CALL is the number of the call that fails, counted from 1 at the start of main. The calls
 * that count are the functions defined below. When the call fails, the name of the function and a
 * backtrace are written to the file FAIL_CALL_REPORT, which shows that the call was reached.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAMES_MAX = 32 };

/* Functions of glibc that need no dlsym, which allocates memory itself. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long calls_left; /* until the call that fails; 0: none fails (any more) */

/* The next definition of a function. A pointer to an object is not converted to one to a function
 * in ISO C. */
#define NEXT(name)                                                                                 \
    __extension__({                                                                                \
        static __typeof__(&name) next;                                                             \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        next;                                                                                      \
    })

static void report(const char *name)
{
    void *frames[FRAMES_MAX];
    const char *path = getenv("FAIL_CALL_REPORT");
    const int fd = path == NULL ? -1 : NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, name, strlen(name));
    (void)!write(fd, "\n", 1);
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), fd);
    close(fd);
}

/* Whether this call is the one that fails. */
static bool fails(const char *name, int error)
{
    if (atomic_load(&calls_left) <= 0 || atomic_fetch_sub(&calls_left, 1) != 1)
        return false;
    report(name);
    errno = error;
    return true;
}

/* ---- memory ---- */

void *malloc(size_t bytes)
{
    return fails("malloc", ENOMEM) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails("calloc", ENOMEM) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails("realloc", ENOMEM) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails("aligned_alloc", ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    *memory = fails("posix_memalign", ENOMEM) ? NULL : __libc_memalign(alignment, bytes);
    return *memory == NULL ? ENOMEM : 0;
}

void *mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return fails("mmap", ENOMEM) ? MAP_FAILED
                                 : NEXT(mmap)(start, bytes, protection, flags, fd, offset);
}

/* ---- threads ---- */

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*run)(void *), void *restrict argument)
{
    return fails("pthread_create", EAGAIN)
               ? EAGAIN
               : NEXT(pthread_create)(thread, attributes, run, argument);
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    return fails("pthread_mutex_init", ENOMEM) ? ENOMEM
                                               : NEXT(pthread_mutex_init)(mutex, attributes);
}

int pthread_cond_init(pthread_cond_t *restrict condition,
                      const pthread_condattr_t *restrict attributes)
{
    return fails("pthread_cond_init", ENOMEM) ? ENOMEM
                                              : NEXT(pthread_cond_init)(condition, attributes);
}

int sigaction(int number, const struct sigaction *restrict action,
              struct sigaction *restrict before)
{
    const bool installs = action != NULL && action->sa_handler != SIG_DFL;
    return installs && fails("sigaction", EINVAL) ? -1 : NEXT(sigaction)(number, action, before);
}

/* ---- descriptors ---- */

int epoll_create1(int flags)
{
    return fails("epoll_create1", EMFILE) ? -1 : NEXT(epoll_create1)(flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    return operation != EPOLL_CTL_DEL && fails("epoll_ctl", ENOSPC)
               ? -1
               : NEXT(epoll_ctl)(epoll, operation, fd, event);
}

int eventfd(unsigned count, int flags)
{
    return fails("eventfd", EMFILE) ? -1 : NEXT(eventfd)(count, flags);
}

int pipe2(int fds[2], int flags)
{
    return fails("pipe2", EMFILE) ? -1 : NEXT(pipe2)(fds, flags);
}

int socket(int domain, int type, int protocol)
{
    return fails("socket", EMFILE) ? -1 : NEXT(socket)(domain, type, protocol);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    return fails("setsockopt", ENOMEM) ? -1 : NEXT(setsockopt)(fd, level, name, value, bytes);
}

int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return fails("bind", EADDRINUSE) ? -1 : NEXT(bind)(fd, address, bytes);
}

int listen(int fd, int backlog)
{
    return fails("listen", EADDRINUSE) ? -1 : NEXT(listen)(fd, backlog);
}

int getsockname(int fd, struct sockaddr *restrict address, socklen_t *restrict bytes)
{
    return fails("getsockname", ENOBUFS) ? -1 : NEXT(getsockname)(fd, address, bytes);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return fails("open", EMFILE) ? -1 : NEXT(open)(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fails("fcntl", EMFILE) ? -1 : NEXT(fcntl)(fd, command, argument);
}

int ioctl(int fd, unsigned long command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fails("ioctl", ENOMEM) ? -1 : NEXT(ioctl)(fd, command, argument);
}

ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    return fails("getrandom", ENOSYS) ? -1 : NEXT(getrandom)(bytes, length, flags);
}

/* ---- the start ---- */

static int (*real_main)(int, char **, char **);

static int counted_main(int argc, char **argv, char **environment)
{
    const char *number = getenv("FAIL_CALL");
    void *frame;
    (void)backtrace(&frame, 1); /* loads libgcc, before calls count */
    atomic_store(&calls_left, number == NULL ? 0 : atol(number));
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    real_main = main;
    return NEXT(__libc_start_main)(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
