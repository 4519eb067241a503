/*
 * client_load.h - one thread of the fleet's load: a libgemmd client with a number of requests in
 * flight, each of which is replaced by the next one as soon as it is answered.
 *
 * Three of four requests multiply rows with a resident tensor. Tensors are chosen by Zipf's law:
 * the r-th tensor with a probability proportional to r^-0.8. If the daemon does not have the tensor
 * (404), the thread uploads the tensor and repeats the request, as every client of resident tensors
 * has to. All other repeats are libgemmd's own, with the library's default options.
 */
#ifndef TESTS_DEPLOY_LOAD_CLIENT_LOAD_H
#define TESTS_DEPLOY_LOAD_CLIENT_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/deploy/load/matrices.h"

/* Added to by every thread. A request is a product that the load wants; uploads are no requests. */
struct load_counts {
    atomic_ullong sent;     /* requests that were begun */
    atomic_ullong answered; /* requests with the right answer */
    atomic_ullong wrong;    /* requests with another answer */
    atomic_ullong lost;     /* requests, or uploads for requests, that failed for good */
    atomic_ullong repeats;  /* attempts beyond the first, which libgemmd made by itself */
    atomic_ullong resident; /* requests with a resident tensor that were answered */
    atomic_ullong misses;   /* requests with a resident tensor that met a daemon without it */
    atomic_ullong uploads;  /* tensors that were uploaded after a miss */
};

struct load {
    const char *url;
    const struct matrices *matrices;
    const double *tensor_chances; /* [tensors]: the sums of the probabilities up to each tensor */
    uint32_t in_flight;           /* of this thread */
    uint64_t random;
    atomic_bool *stopping;
    struct load_counts *counts;
};

/* Uploads every tensor once. Returns false, with a message on standard error, if that fails. */
bool client_load_upload(const struct load *load);
/* The start function of a thread; `argument` is its struct load. Returns when `stopping` is set and
 * the requests in flight are answered. Failures are counted, and written to standard error. */
void *client_load_run(void *argument);

#endif
