/*
 * loop.h - libcurl's multi interface driven by one epoll descriptor and one timer.
 *
 * An event costs the same however many transfers are in flight, and the descriptor can be
 * watched by an event loop of the caller's. One thread at a time.
 */
#ifndef CLIENT_LOOP_H
#define CLIENT_LOOP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#define LOOP_NEVER UINT64_MAX

/* What `epoll` knows of a descriptor. A connection stays watched between its requests, which saves
 * each request three calls of the system's; that is possible for the sockets that the loop itself
 * opened and closes, as it then knows when a number changes hands. */
struct loop_watch {
    bool ours;       /* opened by loop_open_socket */
    bool wanted;     /* libcurl wants to hear of it */
    uint32_t events; /* watched for these; 0: not watched */
};

struct loop {
    CURLM *multi;
    int epoll;
    int timer;         /* among what `epoll` watches; -1 as long as nobody watches `epoll` */
    uint64_t armed_us; /* when `timer` goes off, LOOP_NEVER if not */
    struct loop_watch *watches; /* by descriptor */
    uint32_t watch_room;
    uint64_t timer_us; /* when libcurl wants to be called, LOOP_NEVER if not */
    bool failed;       /* in this turn */
};

/* A monotonic clock. */
uint64_t loop_now_us(void);

/* Keeps at most `connections` idle connections for reuse. False if there is no memory or no file
 * descriptor; loop_close is right in any case. */
bool loop_open(struct loop *loop, uint32_t connections);
void loop_close(struct loop *loop);
/* Waits until a socket is ready, libcurl's timer is due or `until_us` has come, whichever is
 * first, and lets libcurl do what there is to do. Never waits if `until_us` is past. False if there
 * was no memory to watch a socket: some transfer may then never be heard of again. */
bool loop_turn(struct loop *loop, uint64_t until_us);

/* CURLOPT_OPENSOCKETFUNCTION and CURLOPT_CLOSESOCKETFUNCTION of every transfer; `user` is the loop.
 */
curl_socket_t loop_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address);
int loop_close_socket(void *user, curl_socket_t socket);

/* A descriptor that is readable when a socket is ready or the time of loop_arm has come, for a loop
 * of the caller's. -1 if there is none to be had. */
int loop_watch(struct loop *loop);
/* The time of the next turn, 0 if it is due. No effect before loop_watch. */
void loop_arm(struct loop *loop, uint64_t due_us);

#endif
