#include "client/mapping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/size.h"

enum { ALIGNMENT = 64 };

/* A block that is in use or lost. The blocks of a mapping are in a list in the order of their
 * offsets, and the gaps between the blocks are free. */
struct block {
    struct block *next;
    uint64_t offset, bytes;
    bool lost;
};

struct mapping {
    unsigned char *start;
    uint64_t bytes;
    int fd;
    bool is_private;
    uint32_t number;
    struct block *first;
    uint64_t lost_bytes;
    uint32_t out; /* number of blocks in use */
};

struct mapping *mapping_new(uint64_t bytes, uint32_t number)
{
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return NULL;
    mapping->bytes = bytes;
    mapping->number = number;
    mapping->fd = memfd_create("gemmd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (mapping->fd < 0)
        goto no_file;
    if (ftruncate(mapping->fd, (off_t)bytes) != 0 ||
        fcntl(mapping->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto no_memory;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->fd, 0);
    if (start == MAP_FAILED)
        goto no_memory;
    mapping->start = start;
    return mapping;

no_memory:
    close(mapping->fd);
no_file:
    free(mapping);
    return NULL;
}

void mapping_free(struct mapping *mapping)
{
    if (mapping == NULL)
        return;
    while (mapping->first != NULL) {
        struct block *next = mapping->first->next;
        free(mapping->first);
        mapping->first = next;
    }
    munmap(mapping->start, mapping->bytes);
    close(mapping->fd);
    free(mapping);
}

uint64_t mapping_bytes(const struct mapping *mapping)
{
    return mapping->bytes;
}

int mapping_fd(const struct mapping *mapping)
{
    return mapping->fd;
}

uint32_t mapping_number(const struct mapping *mapping)
{
    return mapping->number;
}

/* Finds the first gap of at least `bytes` bytes: `*offset` is the start of the gap, and `*link` is
 * the pointer to the block after the gap. */
static bool find_gap(struct mapping *mapping, uint64_t bytes, struct block ***link,
                     uint64_t *offset)
{
    uint64_t at = 0;
    struct block **next = &mapping->first;
    while (*next != NULL && (*next)->offset - at < bytes) {
        at = (*next)->offset + (*next)->bytes;
        next = &(*next)->next;
    }
    *link = next;
    *offset = at;
    return *next != NULL || mapping->bytes - at >= bytes;
}

void *mapping_take(struct mapping *mapping, uint64_t bytes)
{
    struct block **link;
    uint64_t offset;
    if (!size_align(bytes > 0 ? bytes : 1, ALIGNMENT, &bytes) || bytes > mapping->bytes ||
        !find_gap(mapping, bytes, &link, &offset))
        return NULL;
    struct block *block = malloc(sizeof *block);
    if (block == NULL)
        return NULL;
    *block = (struct block){.next = *link, .offset = offset, .bytes = bytes};
    *link = block;
    mapping->out++;
    return mapping->start + offset;
}

/* Returns the pointer to the block that starts at `at`; a pointer to NULL if no block does. */
static struct block **find_block(struct mapping *mapping, const void *at)
{
    struct block **link = &mapping->first;
    while (*link != NULL && mapping->start + (*link)->offset != at)
        link = &(*link)->next;
    return link;
}

bool mapping_give(struct mapping *mapping, void *at)
{
    struct block **link = find_block(mapping, at), *block = *link;
    if (block == NULL || block->lost)
        return false;
    *link = block->next;
    free(block);
    mapping->out--;
    return true;
}

void mapping_lose(struct mapping *mapping, void *at)
{
    struct block *block = *find_block(mapping, at);
    if (block == NULL)
        return;
    block->lost = true;
    mapping->lost_bytes += block->bytes;
    mapping->out--;
}

bool mapping_has(const struct mapping *mapping, const void *at, uint64_t bytes, uint64_t *offset)
{
    const uintptr_t start = (uintptr_t)mapping->start, from = (uintptr_t)at;
    if (from < start || from - start > mapping->bytes || bytes > mapping->bytes - (from - start))
        return false;
    *offset = from - start;
    return true;
}

void mapping_make_private(struct mapping *mapping)
{
    /* Mapping the file again would lose what the process has written to a private mapping. */
    if (!mapping->is_private)
        mapping->is_private = mmap(mapping->start, mapping->bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_FIXED, mapping->fd, 0) != MAP_FAILED;
}

bool mapping_is_worn(const struct mapping *mapping)
{
    return mapping->lost_bytes > mapping->bytes / 2;
}

bool mapping_is_in_use(const struct mapping *mapping)
{
    return mapping->out > 0;
}
