/*
 * way.h - a connection to the daemon on which the operands of an f32 product of side^3 and its
 * result travel in one of five ways: in the bodies over TCP or a Unix socket, or in memory that is
 * shared with the daemon, each connection's its own. One thread at a time.
 */
#ifndef TESTS_BENCH_LOAD_WAY_H
#define TESTS_BENCH_LOAD_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/load/answer.h"
#include "tests/bench/load/target.h"

enum way {
    WAY_TCP,
    WAY_UNIX,
    WAY_MEMFD,  /* a sealed memfd, sent over the Unix socket */
    WAY_SYSTEM, /* a POSIX shared memory object, a region of the Open Inference Protocol */
    WAY_CUDA,   /* memory of the GPU, likewise */
    WAY_COUNT
};
extern const char *const way_names[WAY_COUNT]; /* "tcp", "unix", "memfd", "system", "cuda" */

/* What all connections have alike. */
struct way_problem {
    const char *tcp, *unix_socket; /* 127.0.0.1:PORT, unix:PATH */
    uint64_t side, matrix_bytes;
    const void *operands; /* A, then B */
};

struct way_connection {
    const struct way_problem *problem;
    enum way way;
    struct target target;
    struct answer answer; /* the last one, or what went wrong */
    int fd;
    unsigned char *memory; /* A, B and C, shared with the daemon and mapped; or NULL */
    void *device_memory;
    char key[64]; /* of the shared memory object, or "" */
};

/* Connects and shares what is to be shared. `number` is another one for each connection of the
 * process. False: answer.head says why, as far as the daemon did. Closed in either case with
 * way_close. */
bool way_open(struct way_connection *connection, enum way way, const struct way_problem *problem,
              uint32_t number);
/* One product. */
bool way_ask(struct way_connection *connection);
/* One product, and its result, of matrix_bytes. */
bool way_ask_result(struct way_connection *connection, void *result);
void way_close(struct way_connection *connection);

#endif
