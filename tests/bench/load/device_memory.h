/*
 * device_memory.h - memory of a GPU that can be shared with the daemon (CUDA IPC), and what copying
 * to it takes. A build without CUDA has its twin, device_memory_none.c. One thread at a time.
 */
#ifndef TESTS_BENCH_LOAD_DEVICE_MEMORY_H
#define TESTS_BENCH_LOAD_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum { DEVICE_MEMORY_HANDLE_TEXT = 89 }; /* 64 bytes in base64, terminated */

/* Memory of device 0 with `count` bytes of `from` at its start, and its handle. NULL: there is
 * none.
 */
void *device_memory_open(size_t bytes, const void *from, size_t count,
                         char handle[DEVICE_MEMORY_HANDLE_TEXT]);
void device_memory_close(void *memory); /* NULL is allowed */
/* `count` bytes from `offset` on, to the host. */
bool device_memory_read(const void *memory, size_t offset, void *to, size_t count);
/* Milliseconds that each product's copies take if there are always more of them: `in` bytes of
 * pinned memory to device 0 while `out` bytes, not more, of the product before come back, with
 * nothing else going on. 0: there is none. */
double device_memory_copies_ms(size_t in, size_t out);

#endif
