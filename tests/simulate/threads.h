/*
 * threads.h - threads, clock and randomness of a simulation, on one thread of the system.
 *
 * The linker sends the server's calls of the clock, of threads, locks, conditions, poll, sleeps,
 * malloc and getrandom to threads.c (-Wl,--wrap), so that the code of the server runs unchanged.
 * A simulated thread runs until it sleeps, waits, or finds a lock taken. Reading the clock takes
 * some virtual time, and locking may take longer, in which other threads run. Which thread runs
 * next follows from the seed alone.
 */
#ifndef TESTS_SIMULATE_THREADS_H
#define TESTS_SIMULATE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs `run` as the first simulated thread, until that thread ends. The virtual time begins anew.
 */
void threads_run(uint64_t seed, void (*run)(void *), void *argument);
/* Starts a simulated thread, which ends when `run` returns. */
void threads_start(const char *name, void (*run)(void *), void *argument);
/* The number of simulated threads that have not ended. */
uint32_t threads_alive(void);

/* The virtual time in nanoseconds, on the clock that the server reads. Reading takes no time. */
uint64_t now_ns(void);
void sleep_ns(uint64_t ns);

/* A number below `below` (more than 0), from the sequence for what the simulation does. */
uint64_t draw(uint64_t below);
/* True in `times` of a million. */
bool draw_one_in(uint64_t times_in_a_million);

/* How often the simulated system interferes, in a million: a thread that locks is preempted, an
 * allocation of the server fails. Zero at the start. */
struct interference {
    uint32_t preempted, failed_allocations;
};
void threads_interfere(struct interference interference);

/* Zeroed memory for the simulation itself, which does not fail; the caller frees it. */
void *own_memory(size_t bytes);

/* Ends the process with a report of an invariant that does not hold: seed, virtual time, thread. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Prints a line with virtual time and thread if `threads_trace` is set, and adds the line to the
 * digest of the run. */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void threads_trace(bool prints);
/* The digest of all lines of the run. Two runs of one seed have equal digests. */
uint64_t threads_digest(void);

#endif
