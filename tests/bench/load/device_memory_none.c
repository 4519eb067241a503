#include "tests/bench/load/device_memory.h"

void *device_memory_open(size_t bytes, const void *from, size_t count,
                         char handle[DEVICE_MEMORY_HANDLE_TEXT])
{
    (void)bytes, (void)from, (void)count, (void)handle;
    return NULL;
}

void device_memory_close(void *memory)
{
    (void)memory;
}

bool device_memory_read(const void *memory, size_t offset, void *to, size_t count)
{
    (void)memory, (void)offset, (void)to, (void)count;
    return false;
}

double device_memory_copies_ms(size_t in, size_t out)
{
    (void)in, (void)out;
    return 0;
}
