/*
 * one_client.c - one client that sends a request, waits for the answer, and sends the next: the
 * latency that a daemon itself adds, with as little client as there can be.
 *
 *     gemmd-bench-one-client ADDRESS TARGET BODY_FILE SECONDS
 *
 * ADDRESS is 127.0.0.1:PORT or unix:PATH, TARGET the request's path and query. Prints one
 * "name value" a line, as post.lua does. An answer other than 200 or a broken connection ends it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load/exchange.h"

enum { SAMPLES_MAX = 4 << 20 };
static const uint64_t WARM_NS = 200000000;

static int by_value(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void report(uint32_t *samples_ns, size_t count, double seconds)
{
    qsort(samples_ns, count, sizeof *samples_ns, by_value);
    printf("rate %.3f\n", (double)count / seconds);
    const size_t p50 = count / 2, p99 = count * 99 / 100, p999 = count * 999 / 1000;
    printf("p50_us %.1f\n", samples_ns[p50] / 1e3);
    printf("p99_us %.1f\n", samples_ns[p99] / 1e3);
    printf("p999_us %.1f\n", samples_ns[p999] / 1e3);
    printf("refused 0\nbroken 0\n");
}

int main(int argc, char *argv[])
{
    static struct target target;
    static struct answer answer;
    static uint32_t samples_ns[SAMPLES_MAX];
    size_t count = 0;
    char none[] = "", *rest = none;
    const double seconds = argc == 5 ? strtod(argv[4], &rest) : 0;
    if (!(seconds > 0) || *rest != '\0') {
        fprintf(stderr, "usage: %s ADDRESS TARGET BODY_FILE SECONDS\n", argv[0]);
        return 2;
    }
    int fd = target_open(&target, argv[1], argv[2], argv[3]) ? target_connect(&target) : -1;
    if (fd < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        return EXIT_FAILURE;
    }
    const uint64_t begin_ns = target_now_ns(),
                   end_ns = begin_ns + WARM_NS + (uint64_t)(seconds * 1e9);
    for (uint64_t before_ns = begin_ns; before_ns < end_ns && count < SAMPLES_MAX;) {
        if (!exchange(&target, fd, &answer, NULL, 0)) {
            fprintf(stderr, "%s: no answer of 200: %.60s\n", argv[0], answer.head);
            return EXIT_FAILURE;
        }
        uint64_t after_ns = target_now_ns();
        if (before_ns - begin_ns >= WARM_NS)
            samples_ns[count++] = (uint32_t)(after_ns - before_ns);
        before_ns = after_ns;
    }
    if (count > 0)
        report(samples_ns, count, (double)(target_now_ns() - begin_ns - WARM_NS) / 1e9);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
