/*
 * poison.h - included before every file in a build with MemorySanitizer.
 *
 * MemorySanitizer reports a read of memory that no instrumented code has written. Libraries are not
 * instrumented, so that all memory that a library allocates and writes would be reported. The tests
 * of such a build therefore run with MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0, and this
 * header marks as uninitialised the memory that the project's own calls of malloc return.
 */
#ifndef TESTS_SANITIZERS_POISON_H
#define TESTS_SANITIZERS_POISON_H

#include <sanitizer/msan_interface.h>
#include <stdlib.h>

static inline void *poisoned_malloc(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory != NULL)
        __msan_poison(memory, bytes);
    return memory;
}

#define malloc(bytes) poisoned_malloc(bytes)

#endif
