/*
 * sampler.h - the thread that samples the daemon: once a second it adds a sample to the history
 * (history.h) from the metrics' counters, and says which requests are slow (notable.h). It looks at
 * the length of the queue SAMPLER_LOOKS times a second, so that a sample has the mean and the
 * maximum of the length.
 *
 * The thread takes the queue's lock for each look, and no lock that requests wait for otherwise.
 */
#ifndef SERVER_API_DASHBOARD_SAMPLER_H
#define SERVER_API_DASHBOARD_SAMPLER_H

enum { SAMPLER_LOOKS = 20 };

struct sampler;
struct services;

/* `services` are borrowed until sampler_stop, with all parts but `sampler` set. NULL: out of
 * memory, or the thread did not start. */
struct sampler *sampler_start(struct services *services);
/* Ends the thread. NULL is allowed. */
void sampler_stop(struct sampler *sampler);

#endif
