/*
 * hint.h - what a user of gemmctl can do about an error. The daemon and the library speak of
 * headers, parameters and structures; a hint speaks of options and commands.
 */
#ifndef GEMMCTL_HINT_H
#define GEMMCTL_HINT_H

#include "client/gemmctl/command.h"

/* Returns a clause to append to the error's sentence; NULL: there is none. A static string. */
const char *hint_for(const struct context *context, const struct gemmd_error_info *error);

/* Writes the sentence of a fault that gemmctl has found in a parameter, with the name of the option
 * in place of the parameter's at the front of the sentence: "--kv-heads is '0'" for "kv_heads is
 * '0'". The name of a size that a file's shape contradicts stays, unless the command line has the
 * option. */
void hint_option_sentence(const struct context *context, const struct fault *fault, char *out,
                          size_t room);

#endif
