#include "server/net/lingering.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/list.h"

/* At most LINGER_MAX connections linger at a time. While any do, a timer has the main thread read
 * from them every TICK_MS, BYTES_PER_TICK at most from all together and READ_BYTES from one before
 * the next one's turn. A connection is closed after TICKS_MAX ticks.
 *
 * No tick is due when a connection is added: most clients that wait for 100 Continue close the
 * connection as soon as they have the answer, and the connections of TICK_MS are closed together.
 * Discarding 3 MB takes about 600 us, in which the system also acknowledges the bytes and receives
 * the next ones. Without BYTES_PER_TICK, the refusals of an overload would take half of a core from
 * the requests that are served. */
enum {
    LINGER_MAX = 256,
    TICK_MS = 5,
    TICKS_MAX = 2000,
    READ_BYTES = 256 * 1024,
    BYTES_PER_TICK = 2 * 1024 * 1024,
    BYTES_OF_A_CALL = 2048 /* what a call counts as besides its bytes, by the time that it takes */
};

struct entry {
    struct list_item in_list;
    int fd;
    uint64_t bytes; /* discarded */
    uint32_t ticks;
    bool readable; /* in this tick, as far as is known */
};

struct lingering {
    uv_async_t wake;
    uv_timer_t timer;
    uint64_t max_bytes;
    struct list entries; /* the main thread reads from these */
    uint32_t open_handles;
    pthread_mutex_t lock;
    struct list added;        /* not taken by the main thread yet; under the lock */
    uint32_t count;           /* of both lists; under the lock */
    bool ticking;             /* the timer runs, or `wake` was sent to start it; under the lock */
    char scratch[READ_BYTES]; /* for bytes that are discarded */
};

static struct entry *entry_of(struct list_item *item)
{
    return OWNER_OF(item, struct entry, in_list);
}

static void entry_end(struct lingering *lingering, struct entry *entry)
{
    list_remove(&entry->in_list);
    close(entry->fd);
    free(entry);
    pthread_mutex_lock(&lingering->lock);
    lingering->count--;
    pthread_mutex_unlock(&lingering->lock);
}

static void take_added(struct lingering *lingering)
{
    struct list_item *item;
    pthread_mutex_lock(&lingering->lock);
    while ((item = list_take_first(&lingering->added)) != NULL)
        list_append(&lingering->entries, item);
    pthread_mutex_unlock(&lingering->lock);
}

/* Ends the connections whose time is over, and finds those from which there is something to read,
 * which may be their end. */
static void begin_tick(struct lingering *lingering)
{
    struct pollfd fds[LINGER_MAX];
    nfds_t count = 0;
    struct list_item *next;
    for (struct list_item *item = lingering->entries.first; item != NULL; item = next) {
        next = item->next;
        if (++entry_of(item)->ticks > TICKS_MAX)
            entry_end(lingering, entry_of(item));
        else
            fds[count++] = (struct pollfd){.fd = entry_of(item)->fd, .events = POLLIN};
    }
    (void)poll(fds, count, 0); /* a poll that fails leaves every `revents` 0 */
    count = 0;
    for (struct list_item *item = lingering->entries.first; item != NULL; item = item->next)
        entry_of(item)->readable = fds[count++].revents != 0;
}

/* Discards bytes of a readable connection, and puts the connection behind the others. Returns the
 * number of bytes. */
static uint64_t entry_read(struct lingering *lingering, struct entry *entry)
{
    /* MSG_TRUNC makes TCP discard the bytes without copying them. A Unix socket copies them. */
    const ssize_t got =
        recv(entry->fd, lingering->scratch, sizeof lingering->scratch, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        entry->readable = false;
        return 0;
    }
    entry->bytes += got > 0 ? (uint64_t)got : 0;
    if (got <= 0 || entry->bytes > lingering->max_bytes) {
        entry_end(lingering, entry);
        return 0;
    }
    list_remove(&entry->in_list);
    list_append(&lingering->entries, &entry->in_list);
    return (uint64_t)got;
}

static struct entry *first_readable(const struct lingering *lingering)
{
    for (struct list_item *item = lingering->entries.first; item != NULL; item = item->next)
        if (entry_of(item)->readable)
            return entry_of(item);
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    struct lingering *lingering = timer->data;
    struct entry *entry;
    take_added(lingering);
    begin_tick(lingering);
    for (uint64_t bytes = 0; bytes < BYTES_PER_TICK && (entry = first_readable(lingering)) != NULL;)
        bytes += BYTES_OF_A_CALL + entry_read(lingering, entry);
    pthread_mutex_lock(&lingering->lock);
    lingering->ticking = lingering->count > 0;
    if (lingering->ticking) /* a timer with a callback cannot fail */
        (void)uv_timer_start(timer, on_timer, TICK_MS, 0);
    pthread_mutex_unlock(&lingering->lock);
}

static void on_wake(uv_async_t *wake)
{
    struct lingering *lingering = wake->data;
    (void)uv_timer_start(&lingering->timer, on_timer, TICK_MS, 0);
}

struct lingering *lingering_create(uv_loop_t *loop, uint64_t max_bytes)
{
    struct lingering *lingering = calloc(1, sizeof *lingering);
    if (lingering == NULL)
        return NULL;
    lingering->max_bytes = max_bytes;
    lingering->wake.data = lingering->timer.data = lingering;
    lingering->open_handles = 2;
    if (pthread_mutex_init(&lingering->lock, NULL) != 0)
        goto no_lock;
    if (uv_async_init(loop, &lingering->wake, on_wake) != 0)
        goto no_wake;
    (void)uv_timer_init(loop, &lingering->timer); /* always succeeds */
    return lingering;

no_wake:
    pthread_mutex_destroy(&lingering->lock);
no_lock:
    free(lingering);
    return NULL;
}

static void handle_closed(uv_handle_t *handle)
{
    struct lingering *lingering = handle->data;
    if (--lingering->open_handles == 0) {
        pthread_mutex_destroy(&lingering->lock);
        free(lingering);
    }
}

void lingering_destroy(struct lingering *lingering)
{
    if (lingering == NULL)
        return;
    take_added(lingering);
    while (lingering->entries.first != NULL)
        entry_end(lingering, entry_of(lingering->entries.first));
    uv_close((uv_handle_t *)&lingering->timer, handle_closed);
    uv_close((uv_handle_t *)&lingering->wake, handle_closed);
}

void lingering_add(struct lingering *lingering, int fd)
{
    struct entry *entry = calloc(1, sizeof *entry);
    bool wake = false;
    pthread_mutex_lock(&lingering->lock);
    const int copy = entry != NULL && lingering->count < LINGER_MAX ? dup(fd) : -1;
    if (copy >= 0) {
        entry->fd = copy;
        list_append(&lingering->added, &entry->in_list);
        lingering->count++;
        wake = !lingering->ticking;
        lingering->ticking = true;
    }
    pthread_mutex_unlock(&lingering->lock);
    if (copy < 0)
        free(entry);
    if (wake)
        uv_async_send(&lingering->wake);
}
