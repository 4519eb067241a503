#include "server/net/lingering.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/list.h"

/* At most LINGER_MAX connections linger at a time. A timer checks them every LINGER_CHECK_MS, and a
 * connection is closed after LINGER_MAX_CHECKS checks. READ_BYTES are read at once at most.
 *
 * Most clients that wait for 100 Continue close the connection as soon as they have the answer. A
 * connection from which no bytes are waiting is therefore left alone for PAUSE_MS, together with
 * all that are added meanwhile, up to BATCH of them: the main thread wakes once for them, and
 * closes those whose client has closed without watching their sockets. */
enum {
    LINGER_MAX = 256,
    LINGER_CHECK_MS = 500,
    LINGER_MAX_CHECKS = 20,
    READ_BYTES = 256 * 1024,
    PAUSE_MS = 5,
    BATCH = 64
};

struct entry {
    uv_poll_t poll; /* the first member: callbacks cast the handle to its entry */
    struct lingering *lingering;
    struct list_item in_entries;
    int fd;
    uint64_t bytes;
    uint32_t checks;
    bool closing;
};

/* A connection that the main thread has not taken yet. */
struct waiting {
    int fd;
    bool sends; /* the client has sent bytes that nobody has read */
};

struct lingering {
    uv_async_t wake;
    uv_timer_t timer, pause;
    uv_loop_t *loop;
    uint64_t max_bytes;
    struct list entries; /* used by the main thread */
    uint32_t open_handles;
    bool closing;
    pthread_mutex_t lock;
    uint32_t count;                     /* of `waiting` and `entries` together; under the lock */
    struct waiting waiting[LINGER_MAX]; /* under the lock */
    uint32_t waiting_count;             /* under the lock */
    bool urgent;              /* the main thread takes `waiting` without a pause; under the lock */
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
    list_remove(&entry->in_entries);
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

/* Discards bytes that have arrived. Returns whether the connection still lingers. */
static bool lingering_read(struct lingering *lingering, int fd, uint64_t *bytes)
{
    /* MSG_TRUNC makes TCP discard the bytes without copying them. A Unix socket copies them. */
    ssize_t got = recv(fd, lingering->scratch, sizeof lingering->scratch, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0)
        *bytes += (uint64_t)got;
    return got > 0 ? *bytes <= lingering->max_bytes
                   : got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct entry *entry = (struct entry *)poll;
    (void)events;
    if (status < 0 || !lingering_read(entry->lingering, entry->fd, &entry->bytes))
        entry_end(entry);
}

static void on_timer(uv_timer_t *timer)
{
    struct lingering *lingering = timer->data;
    for (struct list_item *item = lingering->entries.first; item != NULL; item = item->next) {
        struct entry *entry = OWNER_OF(item, struct entry, in_entries);
        if (++entry->checks > LINGER_MAX_CHECKS)
            entry_end(entry);
    }
}

/* Watches a socket from which `bytes` were discarded. Returns false, and leaves the socket to the
 * caller, if the socket cannot be watched. */
static bool lingering_watch(struct lingering *lingering, int fd, uint64_t bytes)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL || uv_poll_init(lingering->loop, &entry->poll, fd) != 0) {
        free(entry);
        return false;
    }
    entry->lingering = lingering;
    entry->fd = fd;
    entry->bytes = bytes;
    list_append(&lingering->entries, &entry->in_entries);
    lingering->open_handles++;
    if (uv_poll_start(&entry->poll, UV_READABLE, on_readable) != 0)
        entry_end(entry);
    return true;
}

/* Closes the connections that their clients have closed, and watches the others. A connection whose
 * client sends is not read before it is watched, because the client sends on while the socket is
 * added. */
static void lingering_take(struct lingering *lingering)
{
    struct waiting taken[LINGER_MAX];
    pthread_mutex_lock(&lingering->lock);
    uint32_t count = lingering->waiting_count, closed = 0;
    for (uint32_t i = 0; i < count; i++)
        taken[i] = lingering->waiting[i];
    lingering->waiting_count = 0;
    lingering->urgent = false;
    pthread_mutex_unlock(&lingering->lock);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        const bool open = !lingering->closing &&
                          (taken[i].sends || lingering_read(lingering, taken[i].fd, &bytes));
        if (!open || !lingering_watch(lingering, taken[i].fd, bytes)) {
            close(taken[i].fd);
            closed++;
        }
    }
    pthread_mutex_lock(&lingering->lock);
    lingering->count -= closed;
    pthread_mutex_unlock(&lingering->lock);
}

static void on_pause(uv_timer_t *pause)
{
    lingering_take(pause->data);
}

static void on_wake(uv_async_t *wake)
{
    struct lingering *lingering = wake->data;
    pthread_mutex_lock(&lingering->lock);
    const bool urgent = lingering->urgent;
    pthread_mutex_unlock(&lingering->lock);
    if (urgent)
        lingering_take(lingering);
    else
        (void)uv_timer_start(&lingering->pause, on_pause, PAUSE_MS, 0);
}

struct lingering *lingering_create(uv_loop_t *loop, uint64_t max_bytes)
{
    struct lingering *lingering = calloc(1, sizeof *lingering);
    if (lingering == NULL)
        return NULL;
    lingering->loop = loop;
    lingering->max_bytes = max_bytes;
    lingering->wake.data = lingering;
    lingering->timer.data = lingering->pause.data = lingering;
    lingering->open_handles = 3;
    if (pthread_mutex_init(&lingering->lock, NULL) != 0)
        goto no_lock;
    if (uv_async_init(loop, &lingering->wake, on_wake) != 0)
        goto no_wake;
    /* A timer with a callback cannot fail. */
    (void)uv_timer_init(loop, &lingering->timer);
    (void)uv_timer_init(loop, &lingering->pause);
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
    lingering_take(lingering); /* closes the descriptors in `waiting` */
    for (struct list_item *item = lingering->entries.first; item != NULL; item = item->next)
        entry_end(OWNER_OF(item, struct entry, in_entries));
    uv_close((uv_handle_t *)&lingering->timer, handle_closed);
    uv_close((uv_handle_t *)&lingering->pause, handle_closed);
    uv_close((uv_handle_t *)&lingering->wake, handle_closed);
}

void lingering_add(struct lingering *lingering, int fd)
{
    int unread = 0;
    const bool sends = ioctl(fd, FIONREAD, &unread) != 0 || unread > 0;
    bool wake = false;
    pthread_mutex_lock(&lingering->lock);
    const int copy = lingering->count < LINGER_MAX ? dup(fd) : -1;
    if (copy >= 0) {
        lingering->count++;
        lingering->waiting[lingering->waiting_count++] = (struct waiting){copy, sends};
        const bool urgent = sends || lingering->waiting_count >= BATCH;
        /* The first of `waiting` begins the pause, and the first urgent one ends it. */
        wake = lingering->waiting_count == 1 || (urgent && !lingering->urgent);
        lingering->urgent = lingering->urgent || urgent;
    }
    pthread_mutex_unlock(&lingering->lock);
    if (wake)
        uv_async_send(&lingering->wake);
}
