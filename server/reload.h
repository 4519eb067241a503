/*
 * reload.h - takes new values of options, new tokens and new certificates while the daemon runs.
 *
 * A reload first reads and checks everything: the options, the token file, the certificates and
 * their key. Then it puts everything in force, in steps that cannot fail. If anything is wrong,
 * nothing has changed. A request keeps the options that it began with (struct thread_options), and
 * a session of TLS its certificates.
 *
 * All functions run on the main thread.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "server/config/config.h"

struct reload;
struct services;

/* `given` are the options as the start has read them, before the daemon adapted any. All pointers
 * are borrowed until reload_destroy. NULL: out of memory. */
struct reload *reload_create(const struct config *given, int argc, char *const argv[],
                             struct services *services);
/* NULL is allowed. */
void reload_destroy(struct reload *reload);

/* Reads the options, the token file and the certificates again. New values of options that are not
 * reloadable are logged. If anything is wrong, everything stays as it was, and the log says why. */
void reload_run(struct reload *reload);

#endif
