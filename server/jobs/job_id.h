/*
 * job_id.h - the names of jobs: 128 random bits, because whoever knows one can fetch the result
 * where there are no tokens. Any thread.
 */
#ifndef SERVER_JOBS_JOB_ID_H
#define SERVER_JOBS_JOB_ID_H

#include <stdbool.h>
#include <stdint.h>

enum { JOB_ID_BYTES = 16, JOB_ID_TEXT = 2 * JOB_ID_BYTES };

struct job_id {
    unsigned char bytes[JOB_ID_BYTES];
};

/* From the system's generator; false if it does not answer. */
bool job_id_random(struct job_id *id);
/* As 32 hexadecimal digits, terminated. */
void job_id_write(const struct job_id *id, char text[JOB_ID_TEXT + 1]);
/* Only what job_id_write writes: lower case, nothing before or after. */
bool job_id_read(const char *text, struct job_id *id);
bool job_id_equal(const struct job_id *one, const struct job_id *other);
/* Evenly spread, for a table: the bits are random as they are. */
uint64_t job_id_hash(const struct job_id *id);

#endif
