#include "server/http/sending.h"

#include "server/base/pace.h"
#include "server/net/delivery.h"

/* A Unix socket's outstanding bytes change only when the client has received one whole piece, which
 * is at most this long, with the system's overhead. */
static const uint64_t UNIX_PIECE_BYTES = 64 * 1024;

void sending_begin(struct sending *sending, int fd, uint64_t now_ns)
{
    *sending = (struct sending){.begun = true, .changed_ns = now_ns};
    sending->counts = delivery_acknowledged(fd, &sending->acknowledged_bytes);
}

static bool is_stalled(struct sending *sending, int fd, uint64_t now_ns, uint64_t least_rate)
{
    const uint64_t outstanding = delivery_outstanding(fd);
    if (outstanding != sending->outstanding_bytes)
        sending->changed_ns = now_ns;
    sending->outstanding_bytes = outstanding;
    return pace_is_below(UNIX_PIECE_BYTES, sending->changed_ns, now_ns, least_rate);
}

bool sending_is_slow(struct sending *sending, int fd, uint64_t since_ns, uint64_t now_ns,
                     uint64_t least_rate, uint64_t bytes, uint64_t until_ns)
{
    uint64_t acknowledged;
    if (!sending->counts)
        return is_stalled(sending, fd, now_ns, least_rate);
    if (!delivery_acknowledged(fd, &acknowledged))
        return false;
    const uint64_t moved = acknowledged - sending->acknowledged_bytes;
    return pace_is_below(moved, since_ns, now_ns, least_rate) ||
           (until_ns != 0 && pace_misses(bytes, moved, since_ns, now_ns, until_ns));
}
