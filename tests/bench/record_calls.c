// Records the calls of functions of a daemon that gcc's -finstrument-functions has prepared, for
// code_path.py.
//
// The library is loaded before the C library (LD_PRELOAD), whose own two hooks do nothing. The file
// that the variable RECORD_CALLS names is mapped at the start, and code_path.py maps the same file:
// a struct recording, as the script writes and reads it. Each thread takes a part of the file at
// its first recorded call and is the only one to write there. A thread without a part, or with a
// full part, adds to `lost` instead.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, CALLS = 1 << 18 };

struct call {
    uint64_t time_ns;  // of CLOCK_MONOTONIC
    uint64_t function; // its address, or 0 for the return of the call that began last
};

struct thread_calls {
    _Atomic uint64_t count;
    struct call calls[CALLS];
};

struct recording {
    _Atomic uint64_t on;      // the script sets 1 while calls are to be recorded
    _Atomic uint64_t threads; // parts that threads have asked for
    _Atomic uint64_t lost;    // calls and returns that found no place
    uint64_t unused;
    struct thread_calls parts[THREADS];
};

#define NOT_RECORDED __attribute__((no_instrument_function))

NOT_RECORDED void __cyg_profile_func_enter(void *function, void *caller);
NOT_RECORDED void __cyg_profile_func_exit(void *function, void *caller);

static struct recording *recording;
static _Thread_local uint64_t
    part; // number of the thread's part plus 1, or 0 before the first call

NOT_RECORDED __attribute__((constructor)) static void map_recording(void)
{
    const char *path = getenv("RECORD_CALLS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *recording, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        recording = mapped;
}

NOT_RECORDED static void record(uint64_t function)
{
    if (!recording || !atomic_load_explicit(&recording->on, memory_order_acquire))
        return;
    if (part == 0)
        part = 1 + atomic_fetch_add_explicit(&recording->threads, 1, memory_order_relaxed);
    struct thread_calls *own = part <= THREADS ? &recording->parts[part - 1] : NULL;
    uint64_t count = own ? atomic_load_explicit(&own->count, memory_order_relaxed) : CALLS;
    if (count == CALLS) {
        atomic_fetch_add_explicit(&recording->lost, 1, memory_order_relaxed);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    own->calls[count] = (struct call){
        .time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, .function = function};
    atomic_store_explicit(&own->count, count + 1, memory_order_release);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    record((uint64_t)(uintptr_t)function);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
    record(0);
}
