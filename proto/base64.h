/* base64.h - decodes base64 with padding (RFC 4648). Pure function, any thread. */
#ifndef PROTO_BASE64_H
#define PROTO_BASE64_H

#include <stdbool.h>
#include <stdint.h>

/* Decodes the `length` characters of `text` into `out`, which is `bytes` bytes long. Returns false,
 * and leaves the content of `out` unspecified, if the characters are not the base64 of exactly
 * `bytes` bytes. Line ends are skipped, as in RFC 2045, because libb64 ends a line after 72
 * characters and Triton's own clients encode handles of shared memory with libb64. */
bool base64_read(const char *text, uint64_t length, void *out, uint64_t bytes);

#endif
