/*
 * fleet_load - the load of the tests of deploy/haproxy, made by libgemmd.
 *
 *     gemmd-fleet-load URL THREADS IN_FLIGHT TENSORS
 *
 * Uploads TENSORS resident tensors, then keeps THREADS * IN_FLIGHT requests in flight and compares
 * every answer with the right one, until standard input ends. Writes the counts so far to standard
 * output every 0.2 s, as one JSON object a line, and once more at the end. Exits with status 0 if
 * every request was answered rightly, else with 1.
 */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/deploy/load/client_load.h"

enum { THREADS_MAX = 64, IN_FLIGHT_MAX = 1024, TENSORS_MAX = 100000, REPORT_MS = 200 };

/* Zipf's law: the r-th tensor has a chance proportional to r^-0.8. */
static double *make_chances(uint32_t tensors)
{
    double *sums = calloc(tensors, sizeof *sums), sum = 0;
    for (uint32_t i = 0; sums != NULL && i < tensors; i++)
        sums[i] = sum += pow(i + 1, -0.8);
    for (uint32_t i = 0; sums != NULL && i < tensors; i++)
        sums[i] /= sum;
    return sums;
}

static void report(struct load_counts *counts)
{
    printf("{\"sent\": %llu, \"answered\": %llu, \"wrong\": %llu, \"lost\": %llu, "
           "\"repeats\": %llu, \"resident\": %llu, \"misses\": %llu, \"uploads\": %llu}\n",
           atomic_load(&counts->sent), atomic_load(&counts->answered), atomic_load(&counts->wrong),
           atomic_load(&counts->lost), atomic_load(&counts->repeats),
           atomic_load(&counts->resident), atomic_load(&counts->misses),
           atomic_load(&counts->uploads));
    fflush(stdout);
}

/* Returns when standard input ends. */
static void report_until_end(struct load_counts *counts)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char ignored[64];
    do {
        report(counts);
    } while (poll(&input, 1, REPORT_MS) == 0 || read(STDIN_FILENO, ignored, sizeof ignored) > 0);
}

static bool read_number(const char *text, unsigned long most, uint32_t *number)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return *text != '\0' && *end == '\0' && value >= 1 && value <= most;
}

/* Runs the threads until standard input ends. Returns the number of requests that were not answered
 * rightly. */
static unsigned long long run(const struct load *base, uint32_t threads)
{
    pthread_t ids[THREADS_MAX];
    struct load loads[THREADS_MAX];
    uint32_t started = 0;
    for (; started < threads; started++) {
        loads[started] = *base;
        loads[started].random = started + 1;
        if (pthread_create(&ids[started], NULL, client_load_run, &loads[started]) != 0) {
            fprintf(stderr, "a thread cannot be started\n");
            atomic_fetch_add(&base->counts->lost, 1);
            break;
        }
    }
    report_until_end(base->counts);
    atomic_store(base->stopping, true);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    report(base->counts);
    return atomic_load(&base->counts->sent) - atomic_load(&base->counts->answered) +
           atomic_load(&base->counts->lost);
}

int main(int argc, char **argv)
{
    static struct load_counts counts;
    static atomic_bool stopping;
    struct matrices matrices = {0};
    uint32_t threads, in_flight, tensors;
    int status = 2;
    if (argc != 5 || !read_number(argv[2], THREADS_MAX, &threads) ||
        !read_number(argv[3], IN_FLIGHT_MAX, &in_flight) ||
        !read_number(argv[4], TENSORS_MAX, &tensors)) {
        fprintf(stderr, "Usage: gemmd-fleet-load URL THREADS IN_FLIGHT TENSORS\n");
        return status;
    }
    double *chances = make_chances(tensors);
    if (chances == NULL || !matrices_make(&matrices, tensors)) {
        fprintf(stderr, "there is no memory for the matrices\n");
        free(chances);
        return status;
    }
    const struct load load = {.url = argv[1],
                              .matrices = &matrices,
                              .tensor_chances = chances,
                              .in_flight = in_flight,
                              .stopping = &stopping,
                              .counts = &counts};
    if (client_load_upload(&load))
        status = run(&load, threads) == 0 ? 0 : 1;
    matrices_free(&matrices);
    free(chances);
    return status;
}
