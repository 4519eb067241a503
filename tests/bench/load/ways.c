/*
 * ways.c - what it costs to bring the operands of a product to the daemon and its result back, way
 * by way (way.h): each of CONNECTIONS sends a request, waits for the answer, and sends the next.
 *
 *     gemmd-bench-ways 127.0.0.1:PORT unix:PATH SIDE CONNECTIONS SECONDS WAY ...
 *
 * The ways take turns, three times SECONDS each. Prints for each, in requests a second,
 * microseconds and milliseconds, the medians of the three
 *
 *     WAY RATE P50 KERNEL_MS
 *
 * where the last is Server-Timing's, the least of a few requests that were alone; and with a GPU,
 * first, "copies MS", the time of a product's copies alone (device_memory.h). Before all that each
 * way's result is compared with the first one's. Exit status 1 if a byte differs, a connection
 * breaks or an answer is not 200.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load/device_memory.h"
#include "tests/bench/load/histogram.h"
#include "tests/bench/load/way.h"

enum { CONNECTIONS_MAX = 256, ROUNDS = 3, LONE_REQUESTS = 5 };
static const uint64_t WARM_NS = 300000000;

struct sender {
    struct way_connection connection;
    struct histogram histogram;
    pthread_t thread;
    uint64_t begin_ns, end_ns, last_ns; /* of what counts */
    bool broken;
};

struct figures {
    double rate, p50_us;
};

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    uint64_t before_ns = target_now_ns();
    while (before_ns < sender->end_ns && !sender->broken) {
        sender->broken = !way_ask(&sender->connection);
        const uint64_t after_ns = target_now_ns();
        if (before_ns >= sender->begin_ns)
            histogram_add(&sender->histogram, after_ns - before_ns);
        before_ns = sender->last_ns = after_ns;
    }
    return NULL;
}

static double kernel_ms_of(const struct answer *answer)
{
    const char *timing = strcasestr(answer->head, "\r\nServer-Timing:");
    const char *kernel = timing != NULL ? strstr(timing, "kernel;dur=") : NULL;
    return kernel != NULL ? strtod(kernel + strlen("kernel;dur="), NULL) : 0;
}

static bool measure(enum way way, const struct way_problem *problem, struct sender *senders,
                    uint32_t count, double seconds, struct figures *figures)
{
    static struct histogram all;
    uint64_t last_ns = 0;
    bool good = true;
    memset(&all, 0, sizeof all);
    for (uint32_t i = 0; i < count; i++) {
        memset(&senders[i].histogram, 0, sizeof senders[i].histogram);
        senders[i].broken = false;
        good = way_open(&senders[i].connection, way, problem, i) && good;
    }
    const uint64_t begin_ns = target_now_ns() + WARM_NS;
    for (uint32_t i = 0; i < count; i++) {
        senders[i].begin_ns = begin_ns;
        senders[i].end_ns = begin_ns + (good ? (uint64_t)(seconds * 1e9) : 0);
        if (pthread_create(&senders[i].thread, NULL, send_all, &senders[i]) != 0)
            abort(); /* nothing to measure with */
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(senders[i].thread, NULL);
        histogram_merge(&all, &senders[i].histogram);
        last_ns = senders[i].last_ns > last_ns ? senders[i].last_ns : last_ns;
        good = good && !senders[i].broken;
        if (!good)
            fprintf(stderr, "%s: %.200s\n", way_names[way], senders[i].connection.answer.head);
    }
    *figures = (struct figures){(double)all.count / ((double)(last_ns - begin_ns) / 1e9),
                                histogram_percentile_us(&all, 0.5)};
    for (uint32_t i = 0; i < count; i++)
        way_close(&senders[i].connection);
    return good;
}

/* Whether the result is the same, byte for byte, as `expected`, which the first way fills in; and
 * what its kernel takes when nothing else runs. */
static bool check(enum way way, const struct way_problem *problem, struct way_connection *one,
                  void *expected, void *result, bool is_first, double *kernel_ms)
{
    void *to = is_first ? expected : result;
    bool right = way_open(one, way, problem, 0) && way_ask_result(one, to) &&
                 (is_first || memcmp(expected, result, problem->matrix_bytes) == 0);
    *kernel_ms = kernel_ms_of(&one->answer);
    for (int i = 1; right && i < LONE_REQUESTS; i++) {
        right = way_ask(one);
        const double ms = kernel_ms_of(&one->answer);
        *kernel_ms = ms < *kernel_ms ? ms : *kernel_ms;
    }
    if (!right)
        fprintf(stderr, "%s: no result, or other bytes: %.200s\n", way_names[way],
                one->answer.head);
    way_close(one);
    return right;
}

static float *make_operands(uint64_t elements)
{
    float *operands = malloc(elements * sizeof *operands);
    uint32_t seed = 1;
    for (uint64_t i = 0; operands != NULL && i < elements; i++) {
        seed = seed * 1664525u + 1013904223u;
        operands[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return operands;
}

static double median(double a, double b, double c)
{
    return a > b ? (b > c ? b : (a > c ? c : a)) : (a > c ? a : (b > c ? c : b));
}

static int run(const struct way_problem *problem, uint32_t count, double seconds,
               const enum way *ways, int way_count)
{
    static struct figures figures[WAY_COUNT][ROUNDS];
    double kernel_ms[WAY_COUNT] = {0};
    struct sender *senders = calloc(count, sizeof *senders);
    void *expected = malloc(problem->matrix_bytes), *result = malloc(problem->matrix_bytes);
    bool good = senders != NULL && expected != NULL && result != NULL;
    for (int i = 0; good && i < way_count; i++)
        good = check(ways[i], problem, &senders[0].connection, expected, result, i == 0,
                     &kernel_ms[i]);
    for (int round = 0; good && round < ROUNDS; round++)
        for (int i = 0; good && i < way_count; i++)
            good = measure(ways[i], problem, senders, count, seconds, &figures[i][round]);
    const double copies =
        good ? device_memory_copies_ms(2 * problem->matrix_bytes, problem->matrix_bytes) : 0;
    if (copies > 0)
        printf("copies %.3f\n", copies);
    for (int i = 0; good && i < way_count; i++) {
        const struct figures *f = figures[i];
        printf("%s %.2f %.1f %.3f\n", way_names[ways[i]], median(f[0].rate, f[1].rate, f[2].rate),
               median(f[0].p50_us, f[1].p50_us, f[2].p50_us), kernel_ms[i]);
    }
    free(result);
    free(expected);
    free(senders);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char *argv[])
{
    enum way ways[WAY_COUNT];
    int way_count = 0;
    for (int i = 6; i < argc && way_count < WAY_COUNT; i++)
        for (int way = 0; way < WAY_COUNT; way++)
            if (strcmp(argv[i], way_names[way]) == 0)
                ways[way_count++] = (enum way)way;
    const uint64_t side = argc > 6 ? strtoull(argv[3], NULL, 10) : 0;
    const unsigned long count = argc > 6 ? strtoul(argv[4], NULL, 10) : 0;
    if (argc < 7 || way_count != argc - 6 || side == 0 || side > 1 << 15 || count == 0 ||
        count > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: %s 127.0.0.1:PORT unix:PATH SIDE CONNECTIONS SECONDS WAY ...\n",
                argv[0]);
        return 2;
    }
    float *operands = make_operands(2 * side * side);
    const struct way_problem problem = {argv[1], argv[2], side, side * side * sizeof(float),
                                        operands};
    const int status = operands == NULL
                           ? EXIT_FAILURE
                           : run(&problem, (uint32_t)count, strtod(argv[5], NULL), ways, way_count);
    free(operands);
    return status;
}
