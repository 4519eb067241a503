#include "tests/bench/load/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void answer_reset(struct answer *answer)
{
    answer->head_bytes = 0;
    answer->has_head = false;
    answer->left = 0;
}

static bool read_head(struct answer *answer)
{
    const char *length = strcasestr(answer->head, "\r\nContent-Length:");
    if (length == NULL || sscanf(answer->head, "HTTP/1.1 %3u", &answer->status) != 1)
        return false;
    answer->left = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    answer->closes = strcasestr(answer->head, "\r\nConnection: close") != NULL;
    answer->has_head = true;
    return true;
}

enum answer_progress answer_take(struct answer *answer, const char *bytes, size_t count,
                                 size_t *payload_bytes)
{
    if (payload_bytes != NULL)
        *payload_bytes = 0;
    if (!answer->has_head) {
        size_t room = sizeof answer->head - 1 - answer->head_bytes;
        size_t copied = count < room ? count : room;
        size_t before = answer->head_bytes;
        memcpy(answer->head + before, bytes, copied);
        answer->head[before + copied] = '\0';
        answer->head_bytes += copied;
        char *end = strstr(answer->head, "\r\n\r\n");
        if (end == NULL)
            return copied < count ? ANSWER_BROKEN : ANSWER_MORE;
        size_t of_head = (size_t)(end + 4 - answer->head) - before;
        end[2] = '\0';
        if (!read_head(answer))
            return ANSWER_BROKEN;
        count -= of_head;
    }
    if (count > answer->left)
        return ANSWER_BROKEN;
    if (payload_bytes != NULL)
        *payload_bytes = count;
    answer->left -= count;
    return answer->left == 0 ? ANSWER_WHOLE : ANSWER_MORE;
}
