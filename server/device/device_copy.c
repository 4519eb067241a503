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

static bool take_lane(struct device *device, struct copy_in *copies)
{
    for (int32_t lane = 0; lane < DEVICE_LANES && copies->lane == COPY_IN_NO_LANE; lane++)
        if (!device->lanes[lane]) {
            device->lanes[lane] = true;
            copies->lane = lane;
        }
    return copies->lane != COPY_IN_NO_LANE;
}

static void give_lane(struct device *device, struct copy_in *copies)
{
    if (copies->lane != COPY_IN_NO_LANE)
        device->lanes[copies->lane] = false;
    copies->lane = COPY_IN_NO_LANE;
}

uint64_t device_copy_in(struct device *device, struct copy_in *copies, uint64_t landed)
{
    struct copy_in_piece piece;
    uint64_t bytes = 0;
    if (copies->failed || device_lost(device) || !take_lane(device, copies))
        return 0;
    while (!copies->failed && copy_in_next(copies, landed, &piece)) {
        copies->failed = device->ops->copy_in(device, (uint32_t)copies->lane, &piece) != GEMMD_OK;
        bytes += piece.bytes;
    }
    if (!copies->failed)
        return bytes;
    copy_in_restart(copies); /* the work copies all of it, and says what is wrong if it fails too */
    return 0;
}

bool device_copied_in(struct device *device, struct copy_in *copies)
{
    if (copies->lane != COPY_IN_NO_LANE && !device_lost(device) &&
        !device->ops->copied_in(device, (uint32_t)copies->lane))
        return false;
    give_lane(device, copies);
    return true;
}

bool device_copies_are_over(struct device *device)
{
    bool over = true;
    for (uint32_t lane = 0; lane < DEVICE_LANES && over && !device_lost(device); lane++)
        over = !device->lanes[lane] || device->ops->copied_in(device, lane);
    return over;
}

void device_end_copies(struct device *device, struct copy_in *copies)
{
    give_lane(device, copies);
    copies->over = true;
}
