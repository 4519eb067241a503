/*
 * settings.h - the daemon's address and the files that go with it: from options, environment
 * variables, and contexts.
 *
 * A context is a named section of the file $XDG_CONFIG_HOME/gemmd/config, or
 * ~/.config/gemmd/config:
 *
 *     [production]
 *     url = https://gemm.example:8443
 *     token-file = ~/.gemmd-token
 *
 * Keys are url, token-file, ca-file, cert-file and key-file. Lines that begin with # and empty
 * lines are left out. A path that begins with ~/ is in the home directory, and another relative
 * path is in the directory of the file.
 */
#ifndef GEMMCTL_SETTINGS_H
#define GEMMCTL_SETTINGS_H

#include "client/gemmctl/options.h"

enum settings_key {
    SETTINGS_URL,
    SETTINGS_TOKEN_FILE,
    SETTINGS_CA_FILE,
    SETTINGS_CERT_FILE,
    SETTINGS_KEY_FILE,
    SETTINGS_KEYS
};

struct settings {
    /* NULL: the library's default, which is the environment's value if there is one. "": none, also
     * if the environment has a value. Borrowed from the arguments, or from `owned`. */
    const char *values[SETTINGS_KEYS];
    char *owned[SETTINGS_KEYS];
};

/* Reads the settings. Options come first. With --context NAME the context's values come next, and
 * environment variables count for nothing. Otherwise environment variables come next, and then, if
 * neither --url nor GEMMD_URL names the daemon, the values of the context that GEMMD_CONTEXT names,
 * or of the context "default" if the file has one: a context's token never goes to another address.
 * False, with a sentence in `problem`. The caller calls settings_free in any case. */
bool settings_read(struct settings *settings, const struct arguments *arguments,
                   char problem[PROBLEM_MAX]);
void settings_free(struct settings *settings);
/* The address that requests go to. Valid as long as the settings and the environment. */
const char *settings_address(const struct settings *settings);

/* Calls `each` with the name of every context, in the order of the file. Nothing happens if there
 * is no file. */
void settings_list(void (*each)(const char *name, void *user), void *user);

#endif
