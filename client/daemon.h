/*
 * daemon.h - fetches the daemon's texts: description, metrics, readiness.
 */
#ifndef CLIENT_DAEMON_H
#define CLIENT_DAEMON_H

#include <gemmd/gemmd.h>

/* Fetches the text at `path`, with at most `retries` repeats. `text` may be NULL; else `*text`
 * becomes a new string, which the caller releases with gemmd_free. */
enum gemmd_error daemon_text(struct gemmd_client *client, const char *path, uint32_t retries,
                             char **text, struct gemmd_error_info *error);

#endif
