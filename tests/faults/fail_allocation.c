/*
 * fail_allocation.c - a library to be preloaded into a program (LD_PRELOAD), which makes chosen
 * allocations of the program fail.
 *
 * The environment variable FAIL_ALLOCATION names a file of sizeof(struct plan) bytes. The
 * library maps the file, and a test that maps the file too changes the plan while the program runs.
 * All threads of the program count together. The library needs glibc.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct plan {
    atomic_int_least64_t left;    /* allocations that succeed before the first that fails */
    atomic_int_least64_t to_fail; /* allocations that fail then; 0: none */
    atomic_int_least64_t failed;  /* allocations that have failed; the library counts them */
};

/* The allocator of glibc, under its own names. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static _Atomic(struct plan *) the_plan; /* NULL until the file is mapped */

__attribute__((constructor)) static void map_plan(void)
{
    const char *path = getenv("FAIL_ALLOCATION");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        atomic_store(&the_plan, mapped);
}

static bool fails(void)
{
    struct plan *plan = atomic_load(&the_plan);
    if (plan == NULL || atomic_load(&plan->to_fail) <= 0)
        return false;
    if (atomic_fetch_sub(&plan->left, 1) > 0)
        return false;
    if (atomic_fetch_sub(&plan->to_fail, 1) <= 0)
        return false;
    atomic_fetch_add(&plan->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *made = fails() ? NULL : __libc_memalign(alignment, bytes);
    if (made == NULL)
        return ENOMEM;
    *block = made;
    return 0;
}
