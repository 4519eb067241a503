/*
 * The messages form a stack, which the inbox's thread takes as a whole and reverses. A thread that
 * posts writes `newest` and then reads `asleep`; the thread that falls asleep writes `asleep` and
 * then reads `newest`. Both do so with sequential consistency, so that at least one of the two
 * threads sees what the other has written.
 */
#include "server/base/inbox.h"

#include <assert.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool inbox_open(struct inbox *inbox)
{
    atomic_init(&inbox->newest, NULL);
    atomic_init(&inbox->asleep, false);
    inbox->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return inbox->wake_fd >= 0;
}

void inbox_close(struct inbox *inbox)
{
    close(inbox->wake_fd);
}

void inbox_post(struct inbox *inbox, struct inbox_message *message)
{
    struct inbox_message *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);
    do
        message->next = newest;
    while (!atomic_compare_exchange_weak(&inbox->newest, &newest, message));
    if (atomic_load(&inbox->asleep) && atomic_exchange(&inbox->asleep, false)) {
        const uint64_t one = 1;
        (void)!write(inbox->wake_fd, &one,
                     sizeof one); /* fails only if wake_fd is readable already */
    }
}

void inbox_act(struct inbox *inbox)
{
    if (atomic_load_explicit(&inbox->newest, memory_order_relaxed) == NULL)
        return;
    struct inbox_message *newest = atomic_exchange(&inbox->newest, NULL), *oldest = NULL;
    while (newest != NULL) {
        struct inbox_message *before = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = before;
    }
    while (oldest != NULL) {
        struct inbox_message *next = oldest->next; /* `act` may free the message */
        oldest->act(oldest);
        oldest = next;
    }
}

void inbox_wait(struct inbox *inbox, const int *fds, int count, int timeout_ms)
{
    struct pollfd polled[INBOX_FDS_MAX + 1] = {{.fd = inbox->wake_fd, .events = POLLIN}};
    uint64_t wakes;
    assert(count <= INBOX_FDS_MAX);
    for (int i = 0; i < count; i++)
        polled[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    atomic_store(&inbox->asleep, true);
    if (atomic_load(&inbox->newest) == NULL && poll(polled, (nfds_t)count + 1, timeout_ms) > 0 &&
        polled[0].revents != 0)
        (void)!read(inbox->wake_fd, &wakes, sizeof wakes);
    atomic_store(&inbox->asleep, false);
}
