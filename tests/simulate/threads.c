#include "tests/simulate/threads.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "server/base/random_id.h"

enum { THREADS_MAX = 64, STACK_BYTES = 256 * 1024 };
static const uint64_t NEVER = UINT64_MAX, START_NS = 1000000000000u;
static const uint64_t LONGEST_NS = 3600000000000u;
/* Reading the clock takes CLOCK_NS, and a preempted thread continues within PREEMPTED_NS. */
static const uint64_t CLOCK_NS = 1000, PREEMPTED_NS = 30000, MILLION = 1000000;

struct thread {
    ucontext_t context;
    char *stack;
    char name[16];
    void (*run)(void *);
    void *(*posix_run)(void *); /* of a thread that the server has created */
    void *argument;
    bool used, ended, woken;
    uint64_t wake_ns;      /* when the thread goes on; NEVER: another thread has to wake it */
    const void *waits_for; /* a lock, a condition, or a thread; NULL: for the time alone */
    bool polls;
};

static struct {
    struct thread threads[THREADS_MAX];
    struct thread *current; /* NULL: no simulation runs */
    ucontext_t outside;
    uint64_t seed, now_ns, schedule, choices, digest;
    struct interference interference;
    bool prints;
    char break_down[160]; /* what report_signal writes */
    size_t break_down_bytes;
} all;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
ssize_t __real_write(int fd, const void *bytes, size_t count);
int __real_nanosleep(const struct timespec *wanted, struct timespec *left);
ssize_t __real_getrandom(void *bytes, size_t count, unsigned flags);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);

/* ---- what the simulation says ---- */

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stdout, "gemmd-simulate: seed %llu, %.6f s, thread %s: ", (unsigned long long)all.seed,
            (double)(all.now_ns - START_NS) * 1e-9, all.current != NULL ? all.current->name : "-");
    vfprintf(stdout, format, arguments);
    fprintf(stdout, "\nreplay: gemmd-simulate --seed %llu --trace\n", (unsigned long long)all.seed);
    va_end(arguments);
    fflush(stdout);
    _exit(1);
}

void trace(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (const char *at = line; *at != '\0'; at++)
        all.digest = (all.digest ^ (unsigned char)*at) * 0x100000001b3u;
    all.digest = (all.digest ^ all.now_ns) * 0x100000001b3u;
    if (all.prints)
        printf("%12.6f %-10s %s\n", (double)(all.now_ns - START_NS) * 1e-9, all.current->name,
               line);
}

void threads_trace(bool prints)
{
    all.prints = prints;
}

uint64_t threads_digest(void)
{
    return all.digest;
}

uint64_t draw(uint64_t below)
{
    return random_number(&all.choices) % below;
}

bool draw_one_in(uint64_t times_in_a_million)
{
    return draw(MILLION) < times_in_a_million;
}

static bool schedule_draws(uint64_t times_in_a_million)
{
    return times_in_a_million > 0 && random_number(&all.schedule) % MILLION < times_in_a_million;
}

void threads_interfere(struct interference interference)
{
    all.interference = interference;
}

/* ---- the scheduler ---- */

uint64_t now_ns(void)
{
    return all.now_ns;
}

/* The thread that runs next: one of those whose time has come, else the first whose time comes. */
static struct thread *next_thread(void)
{
    struct thread *first = NULL;
    uint32_t due = 0;
    for (struct thread *t = all.threads; t < all.threads + THREADS_MAX; t++) {
        if (!t->used || t->wake_ns == NEVER)
            continue;
        if (t->wake_ns <= all.now_ns) {
            due++;
            if (random_number(&all.schedule) % due == 0)
                first = t;
        } else if (due == 0 && (first == NULL || t->wake_ns < first->wake_ns)) {
            first = t;
        }
    }
    return first;
}

/* Lets other threads run until `wake_ns`, or until another thread wakes this one. */
static void switch_until(uint64_t wake_ns)
{
    struct thread *self = all.current;
    self->wake_ns = wake_ns;
    struct thread *next = next_thread();
    if (next == NULL)
        fail("all threads wait, and none can wake another");
    if (next->wake_ns > all.now_ns)
        all.now_ns = next->wake_ns;
    if (all.now_ns > START_NS + LONGEST_NS)
        fail("the run does not end");
    all.current = next;
    if (next != self)
        swapcontext(&self->context, &next->context);
}

static void wait_for(const void *what, uint64_t until_ns)
{
    all.current->waits_for = what;
    all.current->woken = false;
    switch_until(until_ns);
    all.current->waits_for = NULL;
}

static void wake(struct thread *thread)
{
    thread->woken = true;
    thread->wake_ns = all.now_ns;
}

static void wake_waiters(const void *what, bool only_one)
{
    struct thread *chosen = NULL;
    uint32_t count = 0;
    for (struct thread *t = all.threads; t < all.threads + THREADS_MAX; t++) {
        if (!t->used || t->waits_for != what || t->woken)
            continue;
        if (!only_one)
            wake(t);
        else if (random_number(&all.schedule) % ++count == 0)
            chosen = t;
    }
    if (chosen != NULL)
        wake(chosen);
}

static void thread_main(void)
{
    struct thread *self = all.current;
    if (self->posix_run != NULL)
        (void)self->posix_run(self->argument);
    else
        self->run(self->argument);
    self->ended = true;
    if (self == &all.threads[0])
        setcontext(&all.outside);
    wake_waiters(self, false);
    self->used = self->posix_run != NULL; /* until it is joined */
    switch_until(NEVER);
}

static struct thread *free_thread(void)
{
    for (struct thread *t = all.threads; t < all.threads + THREADS_MAX; t++)
        if (!t->used)
            return t;
    fail("the simulation has too many threads");
}

static void make_context(struct thread *thread)
{
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->context, thread_main, 0);
}

static struct thread *thread_create(const char *name)
{
    struct thread *thread = free_thread();
    char *stack = thread->stack != NULL ? thread->stack : __real_malloc(STACK_BYTES);
    if (stack == NULL)
        fail("the machine has no memory");
    *thread = (struct thread){.stack = stack, .used = true, .wake_ns = all.now_ns};
    snprintf(thread->name, sizeof thread->name, "%s", name);
    make_context(thread);
    return thread;
}

void threads_start(const char *name, void (*run)(void *), void *argument)
{
    struct thread *thread = thread_create(name);
    thread->run = run;
    thread->argument = argument;
}

uint32_t threads_alive(void)
{
    uint32_t count = 0;
    for (const struct thread *t = all.threads; t < all.threads + THREADS_MAX; t++)
        count += t->used && !t->ended;
    return count;
}

static void begin(uint64_t seed)
{
    for (struct thread *t = all.threads; t < all.threads + THREADS_MAX; t++)
        t->used = false;
    all.seed = seed;
    all.now_ns = START_NS;
    all.schedule = seed * 2 + 1;
    all.choices = ~seed;
    all.digest = 0xcbf29ce484222325u;
    all.interference = (struct interference){0, 0};
    all.break_down_bytes = (size_t)snprintf(all.break_down, sizeof all.break_down,
                                            "gemmd-simulate: seed %llu: the program breaks down\n"
                                            "replay: gemmd-simulate --seed %llu --trace\n",
                                            (unsigned long long)seed, (unsigned long long)seed);
}

/* A run that breaks down names its seed, too. */
static void report_signal(int number)
{
    (void)number;
    all.current = NULL; /* __wrap_write wakes no thread */
    (void)!write(STDOUT_FILENO, all.break_down, all.break_down_bytes);
    _exit(1);
}

void threads_run(uint64_t seed, void (*run)(void *), void *argument)
{
    begin(seed);
    signal(SIGSEGV, report_signal);
    signal(SIGBUS, report_signal);
    signal(SIGABRT, report_signal);
    threads_start("main", run, argument);
    all.current = &all.threads[0];
    swapcontext(&all.outside, &all.threads[0].context);
    all.current = NULL;
}

void sleep_ns(uint64_t ns)
{
    switch_until(all.now_ns + ns);
}

/* ---- the calls of the server ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (all.current == NULL)
        return __real_clock_gettime(clock, now);
    switch_until(all.now_ns + CLOCK_NS);
    *now = (struct timespec){.tv_sec = (time_t)(all.now_ns / 1000000000u),
                             .tv_nsec = (long)(all.now_ns % 1000000000u)};
    return 0;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    if (all.current == NULL)
        return __real_nanosleep(wanted, left);
    sleep_ns((uint64_t)wanted->tv_sec * 1000000000u + (uint64_t)wanted->tv_nsec);
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    if (all.current == NULL)
        return __real_getrandom(bytes, count, flags);
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)random_number(&all.schedule);
    return (ssize_t)count;
}

static bool allocation_fails(void)
{
    return all.current != NULL && schedule_draws(all.interference.failed_allocations);
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return allocation_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *own_memory(size_t bytes)
{
    void *memory = __real_calloc(1, bytes);
    if (memory == NULL)
        fail("the machine has no memory");
    return memory;
}

/* The state of a simulated lock is the number of the thread that holds it, from 1, in place of what
 * the C library would keep there. */
static uint32_t *holder_of(pthread_mutex_t *mutex)
{
    return (uint32_t *)(void *)mutex;
}

static uint32_t own_number(void)
{
    return (uint32_t)(all.current - all.threads) + 1;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    memset(mutex, 0, sizeof(pthread_mutex_t));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (*holder_of(mutex) != 0)
        fail("a lock is destroyed while a thread holds it");
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (all.current == NULL)
        return 0;
    if (schedule_draws(all.interference.preempted))
        sleep_ns(random_number(&all.schedule) % PREEMPTED_NS);
    if (*holder_of(mutex) == own_number())
        fail("a thread locks a lock that it holds");
    while (*holder_of(mutex) != 0)
        wait_for(mutex, NEVER);
    *holder_of(mutex) = own_number();
    /* A thread may also be preempted while it holds the lock. */
    if (schedule_draws(all.interference.preempted / 4))
        sleep_ns(random_number(&all.schedule) % PREEMPTED_NS);
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (all.current == NULL)
        return 0;
    if (*holder_of(mutex) != own_number())
        fail("a thread unlocks a lock that it does not hold");
    *holder_of(mutex) = 0;
    wake_waiters(mutex, false);
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    __wrap_pthread_mutex_unlock(mutex);
    wait_for(condition, NEVER);
    return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    __wrap_pthread_mutex_unlock(mutex);
    wait_for(condition, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
    const bool woken = all.current->woken;
    __wrap_pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
    wake_waiters(condition, true);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    wake_waiters(condition, false);
    return 0;
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    (void)attributes;
    struct thread *thread = thread_create("server");
    thread->posix_run = run;
    thread->argument = argument;
    *out = (pthread_t)(thread - all.threads);
    return 0;
}

int __wrap_pthread_join(pthread_t joined, void **result);
int __wrap_pthread_join(pthread_t joined, void **result)
{
    struct thread *thread = &all.threads[joined];
    (void)result;
    while (!thread->ended)
        wait_for(thread, NEVER);
    thread->used = false;
    return 0;
}

int __wrap_pthread_detach(pthread_t detached);
int __wrap_pthread_detach(pthread_t detached)
{
    (void)detached;
    return 0;
}

pthread_t __wrap_pthread_self(void);
pthread_t __wrap_pthread_self(void)
{
    return (pthread_t)(all.current - all.threads);
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    snprintf(all.threads[thread].name, sizeof all.threads[thread].name, "%s", name);
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (all.current == NULL)
        return __real_poll(fds, count, timeout_ms);
    const uint64_t until_ns = timeout_ms < 0 ? NEVER : all.now_ns + (uint64_t)timeout_ms * 1000000u;
    int ready;
    while ((ready = __real_poll(fds, count, 0)) == 0 && all.now_ns < until_ns) {
        all.current->polls = true;
        wait_for(NULL, until_ns);
        all.current->polls = false;
    }
    return ready;
}

/* The call of poll that the C library makes of a poll of an array whose size it knows. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t bytes);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t bytes)
{
    (void)bytes;
    return __wrap_poll(fds, count, timeout_ms);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    const ssize_t written = __real_write(fd, bytes, count);
    for (struct thread *t = all.threads; all.current != NULL && t < all.threads + THREADS_MAX; t++)
        if (t->used && t->polls)
            wake(t);
    return written;
}
