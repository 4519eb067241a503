/*
 * job_id.h - the ids of jobs: 128 random bits, since without tokens anyone who knows a job's id can
 * fetch the job's result. Any thread.
 */
#ifndef SERVER_JOBS_JOB_ID_H
#define SERVER_JOBS_JOB_ID_H

#include <stdbool.h>
#include <stdint.h>

enum { JOB_ID_BYTES = 16, JOB_ID_TEXT = 2 * JOB_ID_BYTES };

struct job_id {
    unsigned char bytes[JOB_ID_BYTES];
};

/* Makes a random id. False: the system's random number generator fails. */
bool job_id_random(struct job_id *id);
/* Writes an id as 32 hexadecimal digits and a terminating null byte. */
void job_id_write(const struct job_id *id, char text[JOB_ID_TEXT + 1]);
/* Reads an id in exactly the form that job_id_write writes: lower case, with nothing before or
 * after. False: the text is not an id. */
bool job_id_read(const char *text, struct job_id *id);
bool job_id_equal(const struct job_id *one, const struct job_id *other);
/* A hash for a table. Bits of the id are used as they are, since they are random. */
uint64_t job_id_hash(const struct job_id *id);

#endif
