#include "client/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/size.h"

enum { ALIGNMENT = 64 };

/* In the order of their offsets; what lies between is free. */
struct block {
    struct block *next;
    uint64_t offset, bytes;
    bool lost;
};

struct memory {
    unsigned char *start;
    uint64_t bytes;
    int fd;
    uint32_t number;
    struct block *first;
    uint64_t lost_bytes;
    uint32_t out; /* blocks that are not lost */
};

struct memory *memory_new(uint64_t bytes, uint32_t number)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return NULL;
    memory->bytes = bytes;
    memory->number = number;
    memory->fd = memfd_create("gemmd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory->fd < 0)
        goto no_file;
    if (ftruncate(memory->fd, (off_t)bytes) != 0 ||
        fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto no_memory;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (start == MAP_FAILED)
        goto no_memory;
    memory->start = start;
    return memory;

no_memory:
    close(memory->fd);
no_file:
    free(memory);
    return NULL;
}

void memory_free(struct memory *memory)
{
    if (memory == NULL)
        return;
    while (memory->first != NULL) {
        struct block *next = memory->first->next;
        free(memory->first);
        memory->first = next;
    }
    munmap(memory->start, memory->bytes);
    close(memory->fd);
    free(memory);
}

uint64_t memory_bytes(const struct memory *memory)
{
    return memory->bytes;
}

int memory_fd(const struct memory *memory)
{
    return memory->fd;
}

uint32_t memory_number(const struct memory *memory)
{
    return memory->number;
}

/* Where the first gap that is large enough begins: `*link` is what the block before it leads to. */
static bool find_gap(struct memory *memory, uint64_t bytes, struct block ***link, uint64_t *offset)
{
    uint64_t at = 0;
    struct block **next = &memory->first;
    while (*next != NULL && (*next)->offset - at < bytes) {
        at = (*next)->offset + (*next)->bytes;
        next = &(*next)->next;
    }
    *link = next;
    *offset = at;
    return *next != NULL || memory->bytes - at >= bytes;
}

void *memory_take(struct memory *memory, uint64_t bytes)
{
    struct block **link;
    uint64_t offset;
    if (!size_align(bytes > 0 ? bytes : 1, ALIGNMENT, &bytes) || bytes > memory->bytes ||
        !find_gap(memory, bytes, &link, &offset))
        return NULL;
    struct block *block = malloc(sizeof *block);
    if (block == NULL)
        return NULL;
    *block = (struct block){.next = *link, .offset = offset, .bytes = bytes};
    *link = block;
    memory->out++;
    return memory->start + offset;
}

/* What leads to the block at an address; to NULL if there is none. */
static struct block **find(struct memory *memory, const void *at)
{
    struct block **link = &memory->first;
    while (*link != NULL && memory->start + (*link)->offset != at)
        link = &(*link)->next;
    return link;
}

bool memory_give(struct memory *memory, void *at)
{
    struct block **link = find(memory, at), *block = *link;
    if (block == NULL || block->lost)
        return false;
    *link = block->next;
    free(block);
    memory->out--;
    return true;
}

void memory_lose(struct memory *memory, void *at)
{
    struct block *block = *find(memory, at);
    if (block == NULL)
        return;
    block->lost = true;
    memory->lost_bytes += block->bytes;
    memory->out--;
}

bool memory_has(const struct memory *memory, const void *at, uint64_t bytes, uint64_t *offset)
{
    const uintptr_t start = (uintptr_t)memory->start, from = (uintptr_t)at;
    if (from < start || from - start > memory->bytes || bytes > memory->bytes - (from - start))
        return false;
    *offset = from - start;
    return true;
}

bool memory_is_worn(const struct memory *memory)
{
    return memory->lost_bytes > memory->bytes / 2;
}

bool memory_is_in_use(const struct memory *memory)
{
    return memory->out > 0;
}
