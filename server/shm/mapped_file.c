#include "server/shm/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/size.h"

/* The memory of a mapped file, for the signal handler. A handler gets no argument of its own, so
 * that the table of spans belongs to the process. */
struct span {
    atomic_uintptr_t start; /* 0: free */
    atomic_size_t bytes;
    atomic_bool broken;
};
static struct span spans[MAPPED_FILE_MAX];
static atomic_uint spans_used; /* number of spans, from the first, that were ever used */

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of the next two, and of allocating spans */
static uint32_t open_count;
static struct sigaction before; /* the action for SIGBUS while no file is mapped */

static struct span *span_at(uintptr_t address)
{
    const uint32_t used = atomic_load(&spans_used);
    for (uint32_t i = 0; i < used; i++) {
        const uintptr_t start = atomic_load(&spans[i].start);
        if (start != 0 && address >= start && address - start < atomic_load(&spans[i].bytes))
            return &spans[i];
    }
    return NULL;
}

/* Calls the system directly: mmap is not listed as safe in a signal handler, and sanitizers take it
 * for a write by this thread. If two threads get here at once, the second maps its zeroes over the
 * first's. */
static bool map_zeroes(uintptr_t start, size_t bytes)
{
    return (uintptr_t)syscall(SYS_mmap, start, bytes, PROT_READ | PROT_WRITE,
                              MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                              0L) == start;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    struct span *span = info->si_code > 0 ? span_at((uintptr_t)info->si_addr) : NULL;
    (void)context;
    if (span != NULL)
        atomic_store(&span->broken, true);
    if (span == NULL || !map_zeroes(atomic_load(&span->start), atomic_load(&span->bytes)))
        (void)sigaction(number, &before,
                        NULL); /* the access faults again, with the earlier action */
    errno = saved;
}

static bool catch_bus_errors(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &before) == 0;
}

static bool span_alloc(uint32_t *slot)
{
    bool taken = false;
    pthread_mutex_lock(&lock);
    if (open_count == 0 && !catch_bus_errors())
        goto out;
    for (uint32_t i = 0; i < MAPPED_FILE_MAX && !taken; i++) {
        if (atomic_load(&spans[i].bytes) != 0)
            continue;
        atomic_store(&spans[i].bytes, 1); /* allocated; span_at skips the span while `start` is 0 */
        atomic_store(&spans[i].broken, false);
        if (i >= atomic_load(&spans_used))
            atomic_store(&spans_used, i + 1);
        *slot = i;
        open_count++;
        taken = true;
    }
    if (open_count == 0)
        (void)sigaction(SIGBUS, &before, NULL);
out:
    pthread_mutex_unlock(&lock);
    return taken;
}

static void span_free(uint32_t slot)
{
    pthread_mutex_lock(&lock);
    atomic_store(&spans[slot].start, 0);
    atomic_store(&spans[slot].bytes, 0);
    if (--open_count == 0)
        (void)sigaction(SIGBUS, &before, NULL);
    pthread_mutex_unlock(&lock);
}

bool mapped_file_is_sealed(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

bool mapped_file_is_writable(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

/* Whether mmap failed because of the file or the place in it, and not for lack of memory. EPERM:
 * the file is sealed against writing. EACCES: the descriptor is not open for writing. ENODEV: the
 * file system maps no files. EINVAL: the offset does not suit the file system, as with large pages.
 */
static bool is_client_error(int error)
{
    return error == EPERM || error == EACCES || error == ENODEV || error == EINVAL ||
           error == EOVERFLOW || error == ETXTBSY;
}

enum gemmd_error mapped_file_open(struct mapped_file *mapped, int fd, uint64_t offset,
                                  uint64_t bytes, struct fault *fault)
{
    const uint64_t skipped = offset % (uint64_t)sysconf(_SC_PAGESIZE);
    struct mapped_file made = {.bytes = bytes, .fd = -1};
    struct stat file;
    if (fstat(fd, &file) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the shared memory is not a file");
    if (bytes == 0 || !size_add(offset, bytes, &made.end) || made.end > (uint64_t)file.st_size)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%" PRIu64 " bytes from offset %" PRIu64
                         " on are not in shared memory of %" PRIu64 " bytes",
                         bytes, offset, (uint64_t)file.st_size);
    if (!span_alloc(&made.slot))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "%d pieces of shared memory are mapped, which is the limit",
                         MAPPED_FILE_MAX);
    if (!mapped_file_is_sealed(fd)) {
        made.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (made.fd < 0)
            goto failed;
    }
    unsigned char *page = mmap(NULL, bytes + skipped, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                               (off_t)(offset - skipped));
    if (page == MAP_FAILED)
        goto failed;
    atomic_store(&spans[made.slot].bytes, bytes + skipped);
    atomic_store(&spans[made.slot].start, (uintptr_t)page);
    made.start = page + skipped;
    made.page = page;
    made.mapped_bytes = bytes + skipped;
    *mapped = made;
    return GEMMD_OK;

failed:;
    const int error = errno;
    if (made.fd >= 0)
        close(made.fd);
    span_free(made.slot);
    if (is_client_error(error))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the shared memory cannot be mapped to be read and written: %s",
                         strerror(error));
    return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                     "%" PRIu64 " bytes of shared memory could not be mapped: %s", bytes,
                     strerror(error));
}

void mapped_file_close(struct mapped_file *mapped)
{
    munmap(mapped->page, mapped->mapped_bytes);
    span_free(mapped->slot);
    if (mapped->fd >= 0)
        close(mapped->fd);
}

bool mapped_file_is_whole(const struct mapped_file *mapped)
{
    struct stat file;
    if (atomic_load(&spans[mapped->slot].broken))
        return false;
    return mapped->fd < 0 ||
           (fstat(mapped->fd, &file) == 0 && (uint64_t)file.st_size >= mapped->end);
}
