/*
 * completion_scripts.h - the completion scripts of gemmctl, which the build writes and embeds.
 */
#ifndef GEMMCTL_COMPLETION_SCRIPTS_H
#define GEMMCTL_COMPLETION_SCRIPTS_H

struct completion_script {
    const char *shell, *text;
};
extern const struct completion_script completion_scripts[]; /* ends with an entry of zeros */

#endif
