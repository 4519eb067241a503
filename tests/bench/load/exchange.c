#include "tests/bench/load/exchange.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { PIECE = 1 << 17 };

static bool send_request(const struct target *target, int fd)
{
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    size_t sent = 0;
    while ((message.msg_iovlen = (size_t)target_rest(target, sent, parts)) > 0) {
        ssize_t more = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (more < 0)
            return false;
        sent += (size_t)more;
    }
    return true;
}

/* Waits as clients that poll do (libcurl, event loops). A recv that blocks on a Unix socket is
 * woken in vain when the other side has taken the request's bytes, which holds up the other side
 * too. */
static bool take_answer(int fd, struct answer *answer, char *payload, size_t room)
{
    char bytes[PIECE];
    size_t taken = 0, part;
    enum answer_progress progress = ANSWER_MORE;
    answer_reset(answer);
    while (progress == ANSWER_MORE) {
        struct pollfd answer_waits = {.fd = fd, .events = POLLIN};
        if (poll(&answer_waits, 1, -1) < 0)
            return false;
        ssize_t more = recv(fd, bytes, sizeof bytes, 0);
        if (more <= 0)
            return false;
        progress = answer_take(answer, bytes, (size_t)more, &part);
        if (payload == NULL || progress == ANSWER_BROKEN)
            continue;
        if (part > room - taken)
            return false;
        memcpy(payload + taken, bytes + (size_t)more - part, part);
        taken += part;
    }
    return progress == ANSWER_WHOLE && answer->status == 200;
}

bool exchange(const struct target *target, int fd, struct answer *answer, void *payload,
              size_t room)
{
    return send_request(target, fd) && take_answer(fd, answer, payload, room);
}
