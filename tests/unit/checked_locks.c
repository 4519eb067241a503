/* Mutexes that notice mistakes. The linker sends the calls of the server's code here (-Wl,--wrap).
 * A thread that locks a mutex twice, or unlocks a mutex that it does not hold, ends the process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static int end_on(int error, const char *call)
{
    if (error == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", call, strerror(error));
    abort();
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    pthread_mutexattr_t checking;
    (void)attributes;
    end_on(pthread_mutexattr_init(&checking), "pthread_mutexattr_init");
    end_on(pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK),
           "pthread_mutexattr_settype");
    end_on(__real_pthread_mutex_init(mutex, &checking), "pthread_mutex_init");
    return end_on(pthread_mutexattr_destroy(&checking), "pthread_mutexattr_destroy");
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return end_on(__real_pthread_mutex_lock(mutex), "pthread_mutex_lock");
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    return end_on(__real_pthread_mutex_unlock(mutex), "pthread_mutex_unlock");
}
