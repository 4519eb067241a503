/*
 * exchange.h - one request and its answer on a blocking socket. Any thread, one at a time on each
 * connection.
 */
#ifndef TESTS_BENCH_LOAD_EXCHANGE_H
#define TESTS_BENCH_LOAD_EXCHANGE_H

#include <stdbool.h>

#include "tests/bench/load/answer.h"
#include "tests/bench/load/target.h"

/* Sends the request and takes all of the answer, whose payload goes to `payload`, with `room` for
 * it; NULL: it is dropped. False: the connection broke, the payload has no room, or the status is
 * not 200; then answer->head says what there was. */
bool exchange(const struct target *target, int fd, struct answer *answer, void *payload,
              size_t room);

#endif
