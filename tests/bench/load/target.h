/*
 * target.h - what a load is aimed at: an address, and the bytes of the one request that is sent
 * over and over. Written by one thread, read by all.
 */
#ifndef TESTS_BENCH_LOAD_TARGET_H
#define TESTS_BENCH_LOAD_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { TARGET_HEAD_MAX = 8192 };

struct target {
    const char *address; /* borrowed: 127.0.0.1:PORT or unix:PATH */
    char head[TARGET_HEAD_MAX];
    size_t head_bytes;
    bool expects; /* the head has Expect: 100-continue */
    void *body;   /* lives as long as the process */
    size_t body_bytes;
};

/* Makes a POST of a file's contents. False: the file can't be read or the path is too long. */
bool target_open(struct target *target, const char *address, const char *path_and_query,
                 const char *body_file);
/* Adds Expect: 100-continue to the head. False: there is no room. */
bool target_expect(struct target *target);
/* A connected, blocking socket, the caller's; -1 with errno. */
int target_connect(const struct target *target);
/* What is left of the request after `sent` bytes; returns the number of parts, 0 if nothing is. */
int target_rest(const struct target *target, size_t sent, struct iovec parts[2]);

uint64_t target_now_ns(void); /* monotonic */

#endif
