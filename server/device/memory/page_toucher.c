#include "server/device/memory/page_toucher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/base/cores.h"
#include "server/device/memory/memory_limit.h"
#include "server/observe/log.h"

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

enum {
    PIECE_BYTES = 2 << 20, /* a large page */
    CHECK_PIECES = 32,     /* between two looks at the memory that is available */
    MANY_CORES = 4,        /* so many that the thread needs no pauses */
};
/* The processor time of a large page for which the system had to move other pages. A large page
 * that is at hand takes 0.3 ms, and the small pages in its place take 0.9 ms. */
static const uint64_t MOVED_NS = 2000000;
static const uint64_t PAUSE_NS = 10000000; /* at most */

struct page_toucher {
    struct page_span spans[PAGE_SPANS_MAX];
    uint64_t touched[PAGE_SPANS_MAX]; /* bytes of each span */
    uint32_t count;
    bool large; /* whether large pages are still asked for */
    struct log *log;
    uint64_t wanted_bytes;
    atomic_uint_fast64_t bytes, large_bytes;
    atomic_bool stops, has_ended;
    pthread_t thread;
};

static uint64_t thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The next bytes of a span, up to the next boundary of large pages. */
static struct page_span next_piece(const struct page_toucher *toucher, uint32_t number)
{
    const struct page_span *span = &toucher->spans[number];
    unsigned char *first = span->memory + toucher->touched[number];
    const uint64_t left = span->bytes - toucher->touched[number];
    const uint64_t up_to = PIECE_BYTES - (uintptr_t)first % PIECE_BYTES;
    return (struct page_span){first, left < up_to ? left : up_to};
}

/* Touches the next piece of a span. Large pages are asked for piece by piece, so that memory that
 * other threads touch first gets no large pages while they wait. False: the system does not. */
static bool touch_piece(struct page_toucher *toucher, uint32_t number)
{
    const struct page_span piece = next_piece(toucher, number);
    const uint64_t begun_ns = thread_ns();
    const bool large = toucher->large && piece.bytes == PIECE_BYTES &&
                       madvise(piece.memory, piece.bytes, MADV_HUGEPAGE) == 0;
    int result;
    do
        result = madvise(piece.memory, piece.bytes, MADV_POPULATE_WRITE);
    while (result != 0 && errno == EINTR);
    if (result != 0)
        return false;
    toucher->touched[number] += piece.bytes;
    atomic_fetch_add(&toucher->bytes, piece.bytes);
    if (large)
        atomic_fetch_add(&toucher->large_bytes, piece.bytes);
    if (large && thread_ns() - begun_ns > MOVED_NS)
        toucher->large = false;
    return true;
}

static bool memory_is_short(void)
{
    return memory_available_bytes() < memory_limit_bytes() / 4;
}

/* Waits for as long as the last pieces took, so that the thread takes half of a core at most. A
 * lower priority would take less of a busy core, but the system holds a lock of the process's
 * memory while it allocates a piece, and would hold it until the thread gets its turn. */
static void pause_since(uint64_t begun_ns)
{
    const uint64_t took_ns = clock_now_ns() - begun_ns;
    const struct timespec pause = {.tv_nsec = (long)(took_ns < PAUSE_NS ? took_ns : PAUSE_NS)};
    nanosleep(&pause, NULL);
}

/* Touches pieces of all spans in turn. Returns why the thread ends early; NULL: it does not. */
static const char *touch_spans(struct page_toucher *toucher)
{
    const bool pauses = cores_usable() < MANY_CORES;
    uint64_t pieces = 0;
    while (true) {
        for (uint32_t i = 0; i < toucher->count; i++) {
            const uint64_t begun_ns = clock_now_ns();
            if (toucher->touched[i] == toucher->spans[i].bytes)
                continue;
            if (atomic_load(&toucher->stops))
                return "the daemon stops";
            if (pieces++ % CHECK_PIECES == 0 && memory_is_short())
                return "less than a quarter of the memory is available";
            if (!touch_piece(toucher, i))
                return errno == EINVAL ? "the system cannot allocate pages ahead (Linux 5.14 can)"
                                       : "the system has no memory";
            if (atomic_load(&toucher->bytes) >= toucher->wanted_bytes)
                return NULL;
            if (pauses)
                pause_since(begun_ns);
        }
    }
}

static void *page_toucher_run(void *argument)
{
    struct page_toucher *toucher = argument;
    pthread_setname_np(pthread_self(), "touch");
    const uint64_t begun_ns = clock_now_ns();
    const char *reason = touch_spans(toucher);
    atomic_store(&toucher->has_ended, true);
    if (atomic_load(&toucher->stops))
        return NULL;
    const struct page_progress progress = page_toucher_progress(toucher);
    log_event(toucher->log, CONFIG_LOG_INFO,
              "touched %.2f of %.2f GB of the memory for bodies and tensors in %.2f s, %.2f GB as "
              "large pages%s%s",
              (double)progress.bytes * 1e-9, (double)progress.wanted_bytes * 1e-9,
              (double)(clock_now_ns() - begun_ns) * 1e-9, (double)progress.large_bytes * 1e-9,
              reason == NULL ? "" : ": ", reason == NULL ? "" : reason);
    return NULL;
}

struct page_toucher *page_toucher_start(const struct page_span spans[], uint32_t count,
                                        uint64_t bytes, struct log *log)
{
    uint64_t all = 0;
    struct page_toucher *toucher = calloc(1, sizeof *toucher);
    if (toucher == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (spans[i].memory != NULL && spans[i].bytes > 0) {
            toucher->spans[toucher->count++] = spans[i];
            all += spans[i].bytes; /* mapped memory, whose sizes do not overflow */
        }
    toucher->large = true;
    toucher->log = log;
    toucher->wanted_bytes = bytes < all ? bytes : all;
    if (toucher->wanted_bytes == 0 ||
        pthread_create(&toucher->thread, NULL, page_toucher_run, toucher) != 0) {
        free(toucher);
        return NULL;
    }
    return toucher;
}

void page_toucher_stop(struct page_toucher *toucher)
{
    if (toucher == NULL)
        return;
    atomic_store(&toucher->stops, true);
    pthread_join(toucher->thread, NULL);
    free(toucher);
}

struct page_progress page_toucher_progress(const struct page_toucher *toucher)
{
    if (toucher == NULL)
        return (struct page_progress){.has_ended = true};
    return (struct page_progress){.bytes = atomic_load(&toucher->bytes),
                                  .wanted_bytes = toucher->wanted_bytes,
                                  .large_bytes = atomic_load(&toucher->large_bytes),
                                  .has_ended = atomic_load(&toucher->has_ended)};
}
