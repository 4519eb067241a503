/*
 * page_toucher.h - a thread that touches memory: it has the system allocate pages before they are
 * first written.
 *
 * The system allocates and clears a page of fresh memory when a thread first writes to the page.
 * Receiving a tensor of 1 GiB into fresh memory takes half a second of processor time more than
 * into memory that was used before. The toucher takes this time from a thread that nobody waits
 * for. It changes no byte, so that other threads may use the memory meanwhile.
 *
 * Pages are allocated as large pages (2 MiB) where the system has such pages at hand. Where the
 * system has to move other pages first, a large page costs ten times as much as its small pages,
 * and the toucher takes no more large pages.
 */
#ifndef SERVER_DEVICE_MEMORY_PAGE_TOUCHER_H
#define SERVER_DEVICE_MEMORY_PAGE_TOUCHER_H

#include <stdbool.h>
#include <stdint.h>

struct log;
struct page_toucher;

/* Memory to be touched from its first byte on. `memory` begins at a page. */
struct page_span {
    unsigned char *memory;
    uint64_t bytes;
};

enum { PAGE_SPANS_MAX = 24 };

/* Starts a thread that touches the first bytes of each of `count` spans (at most PAGE_SPANS_MAX):
 * `bytes` of them in all, or all spans if they are shorter, in equal parts as far as the spans'
 * lengths allow. The thread ends earlier if less than a quarter of the memory that the process may
 * use is available (memory_limit.h), or if the system cannot allocate pages ahead (Linux before
 * 5.14). The thread logs how far it came. The spans must stay mapped until page_toucher_stop.
 * NULL: there is nothing to touch, or no memory or thread to do so; the memory is then allocated
 * when it is first written. */
struct page_toucher *page_toucher_start(const struct page_span spans[], uint32_t count,
                                        uint64_t bytes, struct log *log);
/* Ends the thread within some milliseconds, and frees the toucher. NULL is allowed. */
void page_toucher_stop(struct page_toucher *toucher);

struct page_progress {
    uint64_t bytes;        /* touched so far */
    uint64_t wanted_bytes; /* to be touched in all */
    uint64_t large_bytes;  /* of `bytes`: for which large pages were asked */
    bool has_ended;
};
/* All zero for NULL, except that this has ended. Any thread. */
struct page_progress page_toucher_progress(const struct page_toucher *toucher);

#endif
