/* sample_text.h - a sample of the history as JSON, in one line. Pure functions. Any thread. */
#ifndef SERVER_API_DASHBOARD_SAMPLE_TEXT_H
#define SERVER_API_DASHBOARD_SAMPLE_TEXT_H

#include <stddef.h>

struct history_sample;

/* Every sample's text fits, with its terminating null byte. */
enum { SAMPLE_TEXT_MAX = 2048 };

/* Writes the text of a sample, terminated. Returns its length. Lists of zeros are left out. */
size_t sample_text(const struct history_sample *sample, char out[SAMPLE_TEXT_MAX]);

#endif
