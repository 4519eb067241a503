/*
 * handover.h - replaces this process by a new one of the same program, without closing the
 * listening sockets.
 *
 * The old process starts the program again, by the name and with the arguments that the old process
 * was started with. If the program's file was replaced, the new process therefore runs the new
 * file. The new process inherits the listening sockets (inherited_sockets.h) and a pipe. It writes
 * a newline to the pipe once it accepts connections, or the reason why it cannot start. Until the
 * newline, the old process goes on serving. A new process that ends or is not ready in time changes
 * nothing.
 *
 * The program is started with posix_spawn, which does not copy the page tables of the old process.
 *
 * All functions are called by the main thread.
 */
#ifndef SERVER_NET_HANDOVER_H
#define SERVER_NET_HANDOVER_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"

enum handover_state {
    HANDOVER_NONE,     /* no new process is starting */
    HANDOVER_STARTING, /* the new process has not said anything yet */
    HANDOVER_ENDING,   /* the new process has failed and has not ended yet */
    HANDOVER_READY,    /* the new process accepts connections */
};

/* Zeroed: HANDOVER_NONE. */
struct handover {
    enum handover_state state;
    pid_t pid;
    int news_fd;
    uint64_t deadline_ns; /* monotonic clock */
    char reason[256];     /* why the new process cannot start */
};

/* A listening socket, and its address in the option --listen; "": a service manager opened it. */
struct handover_socket {
    int fd;
    const char *address;
};

/* Starts the new process. The caller owns the sockets, which stay open. */
enum gemmd_error handover_begin(struct handover *handover, char *const argv[],
                                const struct handover_socket *sockets, uint32_t count,
                                uint64_t deadline_ns, struct fault *fault);
/* Checks the state of the new process. To be called by a timer while a new process is starting.
 * Returns GEMMD_OK while the new process starts and once it is ready. An error means that the new
 * process has ended: the state is then HANDOVER_NONE, and the fault says why. */
enum gemmd_error handover_look(struct handover *handover, uint64_t now_ns, struct fault *fault);
/* Ends a new process that is not ready yet. */
void handover_cancel(struct handover *handover);

/* Executes the program again in this process, which keeps its pid, with the listening sockets. No
 * other thread may use descriptors any more. Returns only after a failure, and the process must
 * then end with _exit: its descriptors may have been replaced. */
enum gemmd_error handover_execute(char *const argv[], const struct handover_socket *sockets,
                                  uint32_t count, struct fault *fault);

/* Called in the new process. handover_tell_ready tells the old process that the new one accepts
 * connections, handover_tell_failure why the new one ends. One of the two functions is called,
 * once. Both do nothing if there is no old process. */
void handover_tell_ready(void);
void handover_tell_failure(const char *reason);

#endif
