/*
 * client_memory.h - the operands and results of a request that lie in memory that its client
 * shares, instead of in the body and the answer.
 *
 * A struct client_memory holds references to the mappings until the work is done
 * (client_memory_end). One thread at a time may use a struct client_memory.
 */
#ifndef SERVER_API_COMPUTE_CLIENT_MEMORY_H
#define SERVER_API_COMPUTE_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/operands.h"
#include "proto/tensor.h"
#include "server/device/work.h"
#include "server/shm/shm_store.h"

/* Every operand and two results may have a mapping each. */
enum { CLIENT_MEMORY_OPERANDS = OPERAND_TABLE_MAX, CLIENT_MEMORY_MAX = CLIENT_MEMORY_OPERANDS + 2 };

/* A result that the client may want in its shared memory. */
struct client_result {
    bool wanted;         /* false: the result goes in the answer */
    unsigned char *at;   /* in a mapping */
    uint64_t room_bytes; /* from `at` on */
};

/* Zeroed at first. */
struct client_memory {
    struct shm_mapping *mappings[CLIENT_MEMORY_MAX]; /* references */
    uint32_t mapping_count;
    bool on_device; /* at least one mapping is memory of the device */
    /* Pointers into mappings, in the order of a raw body. NULL: the operand is not shared. */
    const unsigned char *operands[CLIENT_MEMORY_OPERANDS];
    struct client_result result, lse; /* lse: of an attention */
};

/* Takes over a reference to a mapping, also on failure. GEMMD_ERR_MALFORMED: the client has made
 * its memory shorter, or the request uses more than CLIENT_MEMORY_MAX mappings. */
enum gemmd_error client_memory_hold(struct client_memory *client_memory,
                                    struct shm_mapping *mapping, struct fault *fault);
/* The device that has a mapping that is held; NULL: all mappings are memory of the host. */
const struct device *client_memory_device(const struct client_memory *client_memory);
/* Sets `*at` to the location of `bytes` bytes at `offset` in a mapping that is held. The location
 * must be a multiple of `alignment`: the bytes of an element for results and for memory that the
 * host cannot access, which cannot be copied to an aligned location first, else 1.
 * GEMMD_ERR_MALFORMED, with `what` in the text, if the bytes are not in the mapping or not aligned.
 */
enum gemmd_error client_memory_find(const struct shm_mapping *mapping, const char *what,
                                    uint64_t offset, uint64_t bytes, uint64_t alignment,
                                    unsigned char **at, struct fault *fault);
/* Sets the data of the operands that lie in shared memory. `operands` are all `count` operands of a
 * raw body, in its order. */
void client_memory_point(const struct client_memory *client_memory, struct tensor *operands,
                         uint32_t count);
/* Checks that the results that are wanted in shared memory fit, and overwrite neither an operand
 * nor each other. Else GEMMD_ERR_MALFORMED. */
enum gemmd_error client_memory_check_results(const struct client_memory *client_memory,
                                             const struct tensor *operands, uint32_t count,
                                             uint64_t result_bytes, uint64_t lse_bytes,
                                             struct fault *fault);
/* The bytes of the operands that lie in shared memory. `operands` are all `count` operands of a raw
 * body, in its order. */
uint64_t client_memory_bytes(const struct client_memory *client_memory,
                             const struct tensor *operands, uint32_t count);
/* Releases the mappings, when the work is done or was never queued. Fails the work if the client
 * has made a mapping shorter. */
void client_memory_end(struct client_memory *client_memory, struct work *work);

#endif
