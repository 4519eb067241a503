/*
 * daemon.h - texts of the daemon's.
 */
#ifndef CLIENT_DAEMON_H
#define CLIENT_DAEMON_H

#include <gemmd/gemmd.h>

/* Fetches one, new in `*text` (which may be NULL), with at most `retries` repeats. */
enum gemmd_error daemon_text(struct gemmd_client *client, const char *path, uint32_t retries,
                             char **text, struct gemmd_error_info *error);

#endif
