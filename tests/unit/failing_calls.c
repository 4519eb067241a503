#include "failing_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *block);
int __real_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *block);
int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);

static _Thread_local bool armed;
static _Thread_local long countdown;
static _Thread_local bool failed;
static _Thread_local long live;

void calls_fail(long number)
{
    countdown = number;
    failed = false;
    armed = true;
}

bool calls_end(void)
{
    armed = false;
    return failed;
}

long calls_live_blocks(void)
{
    return live;
}

static bool fails(void)
{
    if (!armed || --countdown != 0)
        return false;
    failed = true;
    return true;
}

static void *counted(void *block)
{
    live += block != NULL;
    return block;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    if (fails())
        return NULL;
    return old == NULL ? counted(__real_realloc(old, bytes)) : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : counted(__real_strdup(text));
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    const int error = fails() ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
    live += error == 0;
    return error;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

void __wrap_free(void *block)
{
    live -= block != NULL;
    __real_free(block);
}

int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    return fails() ? ENOMEM : __real_pthread_cond_init(condition, attributes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}
