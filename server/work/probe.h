/*
 * probe.h - a product with a known answer that shows whether the device still computes.
 *
 * Anyone may ask; the dispatch thread runs it, one at a time, past the queue. Those who ask while
 * one is on its way share its answer, and so does everybody for a second after a right one.
 */
#ifndef SERVER_WORK_PROBE_H
#define SERVER_WORK_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"

struct probe;

/* Takes the probe's memory, host and device. NULL if there is none. */
struct probe *probe_create(struct device *device);
void probe_destroy(struct probe *probe); /* NULL is allowed */

enum probe_answer { PROBE_RIGHT, PROBE_WRONG, PROBE_LATE };

/* Any thread but the dispatch thread: the last answer if it was right and is less than a second
 * old, or else the next one if it comes within timeout_ms. `wake` (with its argument) makes the
 * dispatch thread look at probe_due. `reason` (may be NULL) says why the answer is not right. */
enum probe_answer probe_ask(struct probe *probe, uint32_t timeout_ms, void (*wake)(void *argument),
                            void *argument, char *reason, uint32_t capacity);

/* Dispatch thread: whether someone asked and no probe is on its way. */
bool probe_due(const struct probe *probe);
/* Dispatch thread: the work to submit now. */
struct work *probe_begin(struct probe *probe);
bool probe_running(const struct probe *probe);
/* Dispatch thread: takes back a work that the device ended; false if it is not the probe's. */
bool probe_end(struct probe *probe, const struct work *work);

#endif
