/*
 * liveness.h - feeds the watchdog of the service manager for as long as every part of the daemon
 * makes progress.
 *
 * The service manager asks for keep-alive messages with WATCHDOG_USEC and WATCHDOG_PID
 * (sd_watchdog_enabled(3)). Four times in WATCHDOG_USEC microseconds, the main loop looks whether
 * each I/O thread, the dispatch thread, the job thread, the digester's thread and the log's thread
 * have run an iteration of their loops since the last look, and whether the device computes: a
 * device with work must not have stalled (--stall-time), and a device without work must have
 * computed a product with a known answer. If so, the main loop sends WATCHDOG=1. If the main loop
 * itself hangs, it sends nothing, and the service manager notices that too. When a part is stuck,
 * the log gets what each thread is doing. The lines have no call stacks; a core dump has them
 * (WatchdogSignal= of systemd.service(5)).
 *
 * All functions run on the main thread.
 */
#ifndef SERVER_LIVENESS_H
#define SERVER_LIVENESS_H

#include <stdint.h>

struct liveness;
struct services;

/* `services` is borrowed. NULL: out of memory. */
struct liveness *liveness_create(struct services *services);
/* Frees the struct, after the dispatch thread has stopped. NULL is allowed. */
void liveness_destroy(struct liveness *liveness);

/* Looks, if a look is due, and feeds the watchdog or logs the part that is stuck. Does nothing if
 * the service manager has no watchdog. To be called several times a second. */
void liveness_check(struct liveness *liveness, uint64_t now_ns);
/* Stops feeding the watchdog, because another process is the main process of the service from now
 * on. */
void liveness_stop(struct liveness *liveness);

#endif
