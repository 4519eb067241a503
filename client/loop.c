#include "client/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

uint64_t loop_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *unused)
{
    struct loop *loop = user;
    (void)easy;
    (void)unused;
    if (what == CURL_POLL_REMOVE) {
        /* Fails harmlessly if the descriptor is closed already. */
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = socket};
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        event.events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        event.events |= EPOLLOUT;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, socket, &event) == 0)
        return 0;
    if (errno == ENOENT && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, socket, &event) == 0)
        return 0;
    /* An error returned from here would end the multi handle for good. */
    loop->failed = true;
    return 0;
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
}

/* Rounded up, so that nobody wakes before the time and finds nothing to do. */
static int epoll_timeout_ms(uint64_t until_us)
{
    uint64_t now = loop_now_us();
    if (until_us <= now)
        return 0;
    uint64_t ms = (until_us - now + 999) / 1000;
    return ms < 60000 ? (int)ms : 60000;
}

static void act(struct loop *loop, curl_socket_t socket, int ready)
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
        if (events[i].data.fd == loop->timer)
            continue;
        if ((events[i].events & EPOLLIN) != 0)
            ready |= CURL_CSELECT_IN;
        if ((events[i].events & EPOLLOUT) != 0)
            ready |= CURL_CSELECT_OUT;
        if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0)
            ready |= CURL_CSELECT_ERR;
        act(loop, events[i].data.fd, ready);
    }
    if (loop->timer_us <= loop_now_us()) {
        loop->timer_us = LOOP_NEVER;
        act(loop, CURL_SOCKET_TIMEOUT, 0);
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
        at.it_value.tv_nsec = (long)(due_us % 1000000) * 1000 + (due_us == 0);
    }
    /* Setting it also makes it unreadable again. */
    timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &at, NULL);
}
