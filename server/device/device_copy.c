#include "server/device/device_copy.h"

#include "server/device/device_ops.h"

bool device_copies_early(const struct device *device)
{
    return device->ops->plan_copies != NULL;
}

bool device_plan_copies(const struct device *device, const struct work *work,
                        struct device_span body, struct copy_in *copies)
{
    return device_copies_early(device) && device->ops->plan_copies(device, work, body, copies) &&
           copy_in_has_early(copies);
}

static bool take_copy_stream(struct device *device, struct copy_in *copies)
{
    for (int32_t i = 0; i < DEVICE_COPY_STREAMS && copies->copy_stream == COPY_IN_NO_STREAM; i++)
        if (!device->copy_streams[i]) {
            device->copy_streams[i] = true;
            copies->copy_stream = i;
        }
    return copies->copy_stream != COPY_IN_NO_STREAM;
}

static void give_copy_stream(struct device *device, struct copy_in *copies)
{
    if (copies->copy_stream != COPY_IN_NO_STREAM)
        device->copy_streams[copies->copy_stream] = false;
    copies->copy_stream = COPY_IN_NO_STREAM;
}

uint64_t device_copy_in(struct device *device, struct copy_in *copies, uint64_t received)
{
    struct copy_in_piece piece;
    uint64_t bytes = 0;
    if (copies->failed || device_lost(device) || !take_copy_stream(device, copies))
        return 0;
    while (!copies->failed && copy_in_next(copies, received, &piece)) {
        copies->failed =
            device->ops->copy_in(device, (uint32_t)copies->copy_stream, &piece) != GEMMD_OK;
        bytes += piece.bytes;
    }
    if (!copies->failed)
        return bytes;
    copy_in_restart(
        copies); /* when the work runs, it copies all operands, and reports a failure of its own */
    return 0;
}

bool device_copied_in(struct device *device, struct copy_in *copies)
{
    if (copies->copy_stream != COPY_IN_NO_STREAM && !device_lost(device) &&
        !device->ops->copied_in(device, (uint32_t)copies->copy_stream))
        return false;
    give_copy_stream(device, copies);
    return true;
}

bool device_copies_are_over(struct device *device)
{
    bool over = true;
    for (uint32_t i = 0; i < DEVICE_COPY_STREAMS && over && !device_lost(device); i++)
        over = !device->copy_streams[i] || device->ops->copied_in(device, i);
    return over;
}

void device_end_copies(struct device *device, struct copy_in *copies)
{
    give_copy_stream(device, copies);
    copies->over = true;
}
