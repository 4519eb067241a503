/*
 * completion_scripts.h - the files of client/completions, which the build embeds.
 */
#ifndef GEMMCTL_COMPLETION_SCRIPTS_H
#define GEMMCTL_COMPLETION_SCRIPTS_H

struct completion_script {
    const char *shell, *text;
};
extern const struct completion_script completion_scripts[]; /* ends with an entry of zeros */

#endif
