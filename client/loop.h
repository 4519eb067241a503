/*
 * loop.h - libcurl's multi interface, driven by one epoll descriptor and one timer.
 *
 * The cost of an event does not depend on the number of transfers in flight, and the caller's event
 * loop can watch the epoll descriptor. One thread at a time.
 */
#ifndef CLIENT_LOOP_H
#define CLIENT_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#define LOOP_NEVER UINT64_MAX

/* How `epoll` watches a descriptor. A connection stays watched between its requests, which saves
 * each request three system calls. Only a socket that the loop itself opens and closes stays
 * watched, since the loop then knows when the descriptor's number is used again for another file.
 */
struct loop_watch {
    bool ours;       /* the loop opened the socket, in loop_open_socket */
    bool wanted;     /* libcurl wants events of the descriptor */
    uint32_t events; /* the epoll events that are watched; 0: the descriptor is not watched */
};

struct loop {
    CURLM *multi;
    int epoll;
    int timer;                  /* a timerfd that `epoll` watches; -1 until loop_watch is called */
    uint64_t armed_us;          /* when `timer` expires; LOOP_NEVER: it is not armed */
    struct loop_watch *watches; /* indexed by descriptor */
    uint32_t watch_room;        /* length of `watches` */
    uint64_t timer_us;          /* when libcurl wants to be called; LOOP_NEVER: it does not */
    bool failed;                /* there was no memory to watch a socket in the current turn */
};

/* The time of a monotonic clock, in microseconds. */
uint64_t loop_now_us(void);

/* Opens a loop that keeps at most `connections` idle connections for reuse. False if there is no
 * memory or no file descriptor. The caller calls loop_close in any case. */
bool loop_open(struct loop *loop, uint32_t connections);
void loop_close(struct loop *loop);
/* In the child of a fork: puts an unconnected descriptor in the place of every connection, so that
 * ending the transfers of the parent process sends nothing on the parent's connections and changes
 * nothing that the parent watches. */
void loop_disown(struct loop *loop);
/* Opens a loop that was disowned again, without connections. The descriptor of loop_watch keeps its
 * number. False if there is no memory or no file descriptor: the loop is closed. */
bool loop_reopen(struct loop *loop, uint32_t connections);
/* Waits until a socket is ready, libcurl's timer is due or the time is `until_us`, whichever is
 * first, and lets libcurl handle the events. Does not wait if `until_us` is past. False if there
 * was no memory to watch a socket; some transfer may then never report an event again. */
bool loop_turn(struct loop *loop, uint64_t until_us);

/* CURLOPT_OPENSOCKETFUNCTION and CURLOPT_CLOSESOCKETFUNCTION of every transfer; `user` is the loop.
 */
curl_socket_t loop_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address);
int loop_close_socket(void *user, curl_socket_t socket);

/* Returns a descriptor for the caller's event loop, which is readable when a socket is ready or
 * when the time given to loop_arm has come. -1: the system has no free descriptor. */
int loop_watch(struct loop *loop);
/* Sets the time of the next turn; 0: a turn is due now. No effect before loop_watch. */
void loop_arm(struct loop *loop, uint64_t due_us);

#endif
