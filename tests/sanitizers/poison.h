/*
 * poison.h - included before every file in a build with MemorySanitizer.
 *
 * MemorySanitizer reports a read of memory that no instrumented code has written. Libraries are not
 * instrumented, so that all memory that a library allocates and writes would be reported. The tests
 * of such a build therefore run with MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0, and this
 * header marks as uninitialised the memory that the project's own calls of malloc return. The mark
 * ends when the project frees or moves the memory, because a library may be given the same memory
 * next.
 */
#ifndef TESTS_SANITIZERS_POISON_H
#define TESTS_SANITIZERS_POISON_H

#include <sanitizer/allocator_interface.h>
#include <sanitizer/msan_interface.h>
#include <stdlib.h>

static inline void *poisoned_malloc(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory != NULL)
        __msan_poison(memory, bytes);
    return memory;
}

static inline void unpoisoned_free(void *memory)
{
    if (memory != NULL)
        __msan_unpoison(memory, __sanitizer_get_allocated_size(memory));
    free(memory);
}

static inline void *unpoisoning_realloc(void *memory, size_t bytes)
{
    const size_t before = memory != NULL ? __sanitizer_get_allocated_size(memory) : 0;
    void *moved = realloc(memory, bytes);
    if (moved != NULL && moved != memory && before > 0)
        __msan_unpoison(memory, before);
    return moved;
}

#define malloc(bytes) poisoned_malloc(bytes)
#define realloc(memory, bytes) unpoisoning_realloc(memory, bytes)
#define free unpoisoned_free /* also where free is passed as a pointer */

#endif
