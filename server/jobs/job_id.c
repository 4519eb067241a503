#include "server/jobs/job_id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const char digits[] = "0123456789abcdef";

bool job_id_random(struct job_id *id)
{
    ssize_t got;
    do
        got = getrandom(id->bytes, JOB_ID_BYTES, 0); /* 16 bytes are never returned in part */
    while (got < 0 && errno == EINTR);
    return got == JOB_ID_BYTES;
}

void job_id_write(const struct job_id *id, char text[JOB_ID_TEXT + 1])
{
    for (int i = 0; i < JOB_ID_BYTES; i++) {
        *text++ = digits[id->bytes[i] >> 4];
        *text++ = digits[id->bytes[i] & 15];
    }
    *text = '\0';
}

static int digit_value(char character)
{
    const char *found = character == '\0' ? NULL : strchr(digits, character);
    return found == NULL ? -1 : (int)(found - digits);
}

bool job_id_read(const char *text, struct job_id *id)
{
    if (strlen(text) != JOB_ID_TEXT)
        return false;
    for (int i = 0; i < JOB_ID_BYTES; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id->bytes[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

bool job_id_equal(const struct job_id *one, const struct job_id *other)
{
    return memcmp(one->bytes, other->bytes, JOB_ID_BYTES) == 0;
}

uint64_t job_id_hash(const struct job_id *id)
{
    uint64_t hash;
    memcpy(&hash, id->bytes, sizeof hash);
    return hash;
}
