#include "server/net/lingering.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* At most LINGER_MAX connections linger at a time. A timer checks them every LINGER_CHECK_MS, and a
 * connection is closed after LINGER_MAX_CHECKS checks. READ_BYTES are read at once at most. */
enum { LINGER_MAX = 256, LINGER_CHECK_MS = 500, LINGER_MAX_CHECKS = 20, READ_BYTES = 256 * 1024 };

struct entry {
    uv_poll_t poll; /* the first member: callbacks cast the handle to its entry */
    struct lingering *lingering;
    struct entry *next;
    int fd;
    uint64_t bytes;
    uint32_t checks;
    bool closing;
};

struct lingering {
    uv_async_t wake;
    uv_timer_t timer;
    uv_loop_t *loop;
    uint64_t max_bytes;
    struct entry *entries; /* used by the main thread */
    uint32_t open_handles;
    bool closing;
    pthread_mutex_t lock;
    uint32_t count;           /* of `waiting` and `entries` together; under the lock */
    int waiting[LINGER_MAX];  /* descriptors that the main thread has not taken; under the lock */
    uint32_t waiting_count;   /* under the lock */
    char scratch[READ_BYTES]; /* for bytes that are discarded */
};

static void lingering_release(struct lingering *lingering)
{
    if (--lingering->open_handles == 0) {
        pthread_mutex_destroy(&lingering->lock);
        free(lingering);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    lingering_release(handle->data);
}

static void entry_closed(uv_handle_t *handle)
{
    struct entry *entry = (struct entry *)handle;
    struct lingering *lingering = entry->lingering;
    close(entry->fd);
    struct entry **link = &lingering->entries;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    pthread_mutex_lock(&lingering->lock);
    lingering->count--;
    pthread_mutex_unlock(&lingering->lock);
    free(entry);
    lingering_release(lingering);
}

static void entry_end(struct entry *entry)
{
    if (entry->closing)
        return;
    entry->closing = true;
    uv_poll_stop(&entry->poll);
    uv_close((uv_handle_t *)&entry->poll, entry_closed);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct entry *entry = (struct entry *)poll;
    (void)events;
    /* MSG_TRUNC makes TCP discard the bytes without copying them. A Unix socket copies them. */
    ssize_t got = status < 0 ? 0
                             : recv(entry->fd, entry->lingering->scratch,
                                    sizeof entry->lingering->scratch, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0)
        entry->bytes += (uint64_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        entry_end(entry);
    if (entry->bytes > entry->lingering->max_bytes)
        entry_end(entry);
}

static void on_timer(uv_timer_t *timer)
{
    struct lingering *lingering = timer->data;
    for (struct entry *entry = lingering->entries; entry != NULL; entry = entry->next)
        if (++entry->checks > LINGER_MAX_CHECKS)
            entry_end(entry);
}

static void on_wake(uv_async_t *wake)
{
    struct lingering *lingering = wake->data;
    int fds[LINGER_MAX];
    pthread_mutex_lock(&lingering->lock);
    uint32_t count = lingering->waiting_count;
    for (uint32_t i = 0; i < count; i++)
        fds[i] = lingering->waiting[i];
    lingering->waiting_count = 0;
    pthread_mutex_unlock(&lingering->lock);

    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = lingering->closing ? NULL : calloc(1, sizeof *entry);
        if (entry == NULL || uv_poll_init(lingering->loop, &entry->poll, fds[i]) != 0) {
            free(entry);
            close(fds[i]);
            pthread_mutex_lock(&lingering->lock);
            lingering->count--;
            pthread_mutex_unlock(&lingering->lock);
            continue;
        }
        entry->lingering = lingering;
        entry->fd = fds[i];
        entry->next = lingering->entries;
        lingering->entries = entry;
        lingering->open_handles++;
        if (uv_poll_start(&entry->poll, UV_READABLE, on_readable) != 0)
            entry_end(entry);
    }
}

struct lingering *lingering_create(uv_loop_t *loop, uint64_t max_bytes)
{
    struct lingering *lingering = calloc(1, sizeof *lingering);
    if (lingering == NULL)
        return NULL;
    lingering->loop = loop;
    lingering->max_bytes = max_bytes;
    lingering->wake.data = lingering;
    lingering->timer.data = lingering;
    lingering->open_handles = 2;
    if (pthread_mutex_init(&lingering->lock, NULL) != 0)
        goto no_lock;
    if (uv_async_init(loop, &lingering->wake, on_wake) != 0)
        goto no_wake;
    /* A timer with a callback cannot fail. */
    (void)uv_timer_init(loop, &lingering->timer);
    (void)uv_timer_start(&lingering->timer, on_timer, LINGER_CHECK_MS, LINGER_CHECK_MS);
    return lingering;

no_wake:
    pthread_mutex_destroy(&lingering->lock);
no_lock:
    free(lingering);
    return NULL;
}

void lingering_destroy(struct lingering *lingering)
{
    if (lingering == NULL)
        return;
    lingering->closing = true;
    on_wake(&lingering->wake); /* closes the descriptors in `waiting` */
    for (struct entry *entry = lingering->entries; entry != NULL; entry = entry->next)
        entry_end(entry);
    uv_close((uv_handle_t *)&lingering->timer, handle_closed);
    uv_close((uv_handle_t *)&lingering->wake, handle_closed);
}

void lingering_add(struct lingering *lingering, int fd)
{
    pthread_mutex_lock(&lingering->lock);
    if (lingering->count < LINGER_MAX) {
        int copy = dup(fd);
        if (copy >= 0) {
            lingering->waiting[lingering->waiting_count++] = copy;
            lingering->count++;
        }
    }
    pthread_mutex_unlock(&lingering->lock);
    uv_async_send(&lingering->wake);
}
