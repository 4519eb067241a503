#include "client/loop.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

uint64_t loop_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Returns the entry of a socket in loop->watches; NULL if there is no memory. */
static struct loop_watch *watch_of(struct loop *loop, curl_socket_t socket)
{
    uint32_t number = (uint32_t)socket;
    if (number >= loop->watch_room) {
        uint32_t room = number + 1 > 2 * loop->watch_room ? number + 64 : 2 * loop->watch_room;
        struct loop_watch *watches = realloc(loop->watches, room * sizeof *watches);
        if (watches == NULL)
            return NULL;
        memset(watches + loop->watch_room, 0, (room - loop->watch_room) * sizeof *watches);
        loop->watches = watches;
        loop->watch_room = room;
    }
    return &loop->watches[number];
}

static void unwatch(struct loop *loop, curl_socket_t socket, struct loop_watch *watch)
{
    /* If the descriptor is closed already, epoll_ctl fails without effect. */
    if (watch->events != 0)
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, socket, NULL);
    watch->events = 0;
}

static bool watch_for(struct loop *loop, curl_socket_t socket, struct loop_watch *watch,
                      uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = socket};
    int change = watch->events != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    watch->wanted = true;
    if (watch->events == events)
        return true;
    watch->events = 0;
    if (epoll_ctl(loop->epoll, change, socket, &event) != 0)
        return false;
    watch->events = events;
    return true;
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *unused)
{
    struct loop *loop = user;
    struct loop_watch *watch = watch_of(loop, socket);
    (void)easy;
    (void)unused;
    if (watch == NULL) {
        /* libcurl would end the multi handle for good if this function returned an error. */
        loop->failed = what != CURL_POLL_REMOVE;
        return 0;
    }
    if (what == CURL_POLL_REMOVE) {
        watch->wanted = false;
        if (!watch->ours)
            unwatch(loop, socket, watch);
        return 0;
    }
    uint32_t events = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= EPOLLOUT;
    if (!watch_for(loop, socket, watch, events))
        loop->failed = true;
    return 0;
}

curl_socket_t loop_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct loop *loop = user;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    struct loop_watch *watch = fd >= 0 ? watch_of(loop, fd) : NULL;
    /* A socket without an entry works too, but is watched anew for each request. */
    if (watch != NULL)
        *watch = (struct loop_watch){.ours = true};
    return fd;
}

int loop_close_socket(void *user, curl_socket_t socket)
{
    struct loop *loop = user;
    if ((uint32_t)socket < loop->watch_room)
        loop->watches[socket] = (struct loop_watch){0};
    return close(socket);
}

static int on_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct loop *loop = user;
    (void)multi;
    loop->timer_us = timeout_ms < 0 ? LOOP_NEVER : loop_now_us() + (uint64_t)timeout_ms * 1000;
    return 0;
}

bool loop_open(struct loop *loop, uint32_t connections)
{
    *loop = (struct loop){.epoll = epoll_create1(EPOLL_CLOEXEC),
                          .timer = -1,
                          .armed_us = LOOP_NEVER,
                          .timer_us = LOOP_NEVER};
    loop->multi = curl_multi_init();
    if (loop->epoll < 0 || loop->multi == NULL)
        return false;
    return curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
           curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop) == CURLM_OK &&
           curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
           curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop) == CURLM_OK &&
           curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, (long)connections) == CURLM_OK;
}

void loop_close(struct loop *loop)
{
    if (loop->multi != NULL)
        curl_multi_cleanup(loop->multi);
    if (loop->timer >= 0)
        close(loop->timer);
    if (loop->epoll >= 0)
        close(loop->epoll);
    free(loop->watches); /* NOLINT(clang-analyzer-unix.Malloc): NULL after a loop was closed */
    *loop = (struct loop){.epoll = -1, .timer = -1, .armed_us = LOOP_NEVER, .timer_us = LOOP_NEVER};
}

void loop_disown(struct loop *loop)
{
    for (uint32_t number = 0; number < loop->watch_room; number++) {
        struct loop_watch *watch = &loop->watches[number];
        /* Neither TLS nor libcurl can send on an epoll descriptor. */
        if (watch->ours)
            (void)dup3(loop->epoll, (int)number, O_CLOEXEC);
        watch->events = 0;
    }
}

bool loop_reopen(struct loop *loop, uint32_t connections)
{
    const int number = loop->epoll;
    const bool watched = loop->timer >= 0;
    loop->epoll = -1;
    loop_close(loop);
    bool opened = loop_open(loop, connections);
    if (opened && number >= 0) {
        opened = dup3(loop->epoll, number, O_CLOEXEC) == number;
        close(loop->epoll);
        loop->epoll = number;
    } else if (number >= 0) {
        close(number);
    }
    if (opened && (!watched || loop_watch(loop) >= 0))
        return true;
    loop_close(loop);
    return false;
}

/* The longest wait of one turn, which epoll_wait takes as an int. A longer wait is several turns.
 */
enum { WAIT_MS_MAX = 60000 };

/* Returns the milliseconds until `until_us`, rounded up, so that epoll_wait does not return before
 * that time. */
static int epoll_timeout_ms(uint64_t until_us)
{
    uint64_t now = loop_now_us();
    if (until_us <= now)
        return 0;
    uint64_t ms = (until_us - now + 999) / 1000;
    return ms < WAIT_MS_MAX ? (int)ms : WAIT_MS_MAX;
}

static void handle_event(struct loop *loop, curl_socket_t socket, int ready)
{
    int running;
    if (curl_multi_socket_action(loop->multi, socket, ready, &running) != CURLM_OK)
        loop->failed = true;
}

bool loop_turn(struct loop *loop, uint64_t until_us)
{
    struct epoll_event events[64];
    loop->failed = false;
    if (loop->timer_us < until_us)
        until_us = loop->timer_us;
    int count = epoll_wait(loop->epoll, events, sizeof events / sizeof events[0],
                           epoll_timeout_ms(until_us));
    for (int i = 0; i < count; i++) {
        int ready = 0;
        int fd = events[i].data.fd;
        if (fd == loop->timer)
            continue;
        struct loop_watch *watch = &loop->watches[fd];
        if (!watch->wanted) { /* the daemon closed an idle connection, which libcurl will notice */
            unwatch(loop, fd, watch);
            continue;
        }
        if ((events[i].events & EPOLLIN) != 0)
            ready |= CURL_CSELECT_IN;
        if ((events[i].events & EPOLLOUT) != 0)
            ready |= CURL_CSELECT_OUT;
        if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0)
            ready |= CURL_CSELECT_ERR;
        handle_event(loop, fd, ready);
    }
    if (loop->timer_us <= loop_now_us()) {
        loop->timer_us = LOOP_NEVER;
        handle_event(loop, CURL_SOCKET_TIMEOUT, 0);
    }
    return !loop->failed;
}

int loop_watch(struct loop *loop)
{
    if (loop->timer >= 0)
        return loop->epoll;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0)
        return -1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = timer};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, timer, &event) != 0) {
        close(timer);
        return -1;
    }
    loop->timer = timer;
    return loop->epoll;
}

void loop_arm(struct loop *loop, uint64_t due_us)
{
    struct itimerspec at = {0};
    if (loop->timer < 0 || loop->armed_us == due_us)
        return;
    loop->armed_us = due_us;
    if (due_us != LOOP_NEVER) {
        at.it_value.tv_sec = (time_t)(due_us / 1000000);
        /* A time of 0 would disarm the timer, so a turn that is due now gets one nanosecond. */
        at.it_value.tv_nsec = (long)(due_us % 1000000) * 1000 + (due_us == 0);
    }
    /* timerfd_settime also clears an expiration that has not been read. */
    timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &at, NULL);
}
