#include "server/tensors/resident_copy.h"

#include "proto/dtype.h"

/* A copy without addresses, with the pitch that rows have on the device on both sides. */
static struct work_copy rows_of(const struct resident *resident)
{
    const struct tensor *tensor = resident_tensor(resident);
    const uint64_t pitch = resident_leading(resident) * dtype_size(tensor->dtype);
    return (struct work_copy){
        .rows = resident_rows(resident),
        .row_bytes = tensor->dims[tensor->rank - 1] * dtype_size(tensor->dtype),
        .from_pitch = pitch,
        .to_pitch = pitch,
    };
}

struct work_copy resident_copy_in(const struct resident *resident, const void *host)
{
    struct work_copy copy = rows_of(resident);
    copy.from = host;
    copy.from_pitch = copy.row_bytes;
    copy.to = resident_memory(resident);
    return copy;
}

struct work_copy resident_copy_out(const struct resident *resident, void *host)
{
    struct work_copy copy = resident_copy_as_is(resident, host);
    copy.to_pitch = copy.row_bytes;
    return copy;
}

struct work_copy resident_copy_as_is(const struct resident *resident, void *to)
{
    struct work_copy copy = rows_of(resident);
    copy.from = resident_memory(resident);
    copy.to = to;
    return copy;
}
