/*
 * answer.h - follows one answer as it arrives: its status, and where it ends. Answers have a
 * Content-Length, as gemmd's do, and a head of less than ANSWER_HEAD_MAX bytes.
 */
#ifndef TESTS_BENCH_LOAD_ANSWER_H
#define TESTS_BENCH_LOAD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_HEAD_MAX = 8192 };

struct answer {
    char head[ANSWER_HEAD_MAX];
    size_t head_bytes; /* so far */
    bool has_head;
    unsigned status;
    bool closes;             /* the server ends the connection after it */
    unsigned long long left; /* bytes of the payload still to come, once has_head */
};

enum answer_progress { ANSWER_MORE, ANSWER_WHOLE, ANSWER_BROKEN };

/* Ready for the next answer. */
void answer_reset(struct answer *answer);
/* Takes bytes as they arrived. Nothing may follow the answer's end. `*payload_bytes` (NULL: not
 * wanted) is how many of them, at their end, belong to the payload. */
enum answer_progress answer_take(struct answer *answer, const char *bytes, size_t count,
                                 size_t *payload_bytes);

#endif
