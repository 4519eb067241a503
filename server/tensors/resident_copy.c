#include "server/tensors/resident_copy.h"

#include "proto/dtype.h"

/* A copy of a tensor's rows, still without addresses. On both sides the rows are as far apart as
 * they are on the device. */
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

struct work_copy resident_copy_rows_out(const struct resident *resident, uint64_t first,
                                        uint64_t count, void *host)
{
    const struct tensor *tensor = resident_tensor(resident);
    struct work_copy copy = resident_copy_out(resident, host);
    if (tensor->rank == 1) {
        const uint64_t size = dtype_size(tensor->dtype);
        copy.from = (const unsigned char *)copy.from + first * size;
        copy.row_bytes = copy.from_pitch = copy.to_pitch = count * size;
        return copy;
    }
    /* The lines of memory that an element of the first dimension has. */
    const uint64_t lines = copy.rows / tensor->dims[0];
    copy.from = (const unsigned char *)copy.from + first * lines * copy.from_pitch;
    copy.rows = count * lines;
    return copy;
}

struct work_copy resident_copy_as_is(const struct resident *resident, void *to)
{
    struct work_copy copy = rows_of(resident);
    copy.from = resident_memory(resident);
    copy.to = to;
    return copy;
}

/* Writes the copy of a tensor's scales, if the tensor has scales. Returns the number of copies. */
static uint32_t add_scale(const struct resident *resident, const void *from, void *to,
                          struct work_copy *copy)
{
    const struct tensor *scale = resident_scale(resident);
    if (scale->rank == 0)
        return 0;
    *copy = (struct work_copy){.from = from,
                               .to = to,
                               .rows = 1,
                               .row_bytes = scale->bytes,
                               .from_pitch = scale->bytes,
                               .to_pitch = scale->bytes};
    return 1;
}

uint32_t resident_copies_in(const struct resident *resident, const void *tensor, const void *scale,
                            struct work_copy copies[RESIDENT_COPIES])
{
    copies[0] = resident_copy_in(resident, tensor);
    return 1 + add_scale(resident, scale, resident_scale_memory(resident), &copies[1]);
}

uint32_t resident_copies_out(const struct resident *resident, void *tensor, void *scale,
                             struct work_copy copies[RESIDENT_COPIES])
{
    copies[0] = resident_copy_out(resident, tensor);
    return 1 + (scale != NULL
                    ? add_scale(resident, resident_scale_memory(resident), scale, &copies[1])
                    : 0);
}

uint32_t resident_copies_between(const struct resident *resident, const struct resident *copy,
                                 struct work_copy copies[RESIDENT_COPIES])
{
    copies[0] = resident_copy_as_is(resident, resident_memory(copy));
    return 1 + add_scale(resident, resident_scale_memory(resident), resident_scale_memory(copy),
                         &copies[1]);
}
