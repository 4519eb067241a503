/*
 * client_memory.h - what of a request lies in memory that its client shares: operands that do not
 * come in the body, results that do not go in the answer.
 *
 * The memory is in use until the work is over (client_memory_end). One thread at a time.
 */
#ifndef SERVER_API_COMPUTE_CLIENT_MEMORY_H
#define SERVER_API_COMPUTE_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/tensor.h"
#include "server/device/work.h"
#include "server/shm/shm_store.h"

enum { CLIENT_MEMORY_MAX = 7, CLIENT_MEMORY_OPERANDS = 5 };

/* Where a result is to be put. */
struct shared_result {
    bool there;
    unsigned char *at;
    uint64_t room_bytes;
};

/* All zero at first. */
struct client_memory {
    struct shm_mapping *memories[CLIENT_MEMORY_MAX]; /* references */
    uint32_t memory_count;
    bool on_device;                                        /* one of them is the device's */
    const unsigned char *operands[CLIENT_MEMORY_OPERANDS]; /* in a raw body's order; NULL: it is not
                                                            there */
    struct shared_result result, lse;                      /* lse: of an attention */
};

/* The reference is taken over, also on failure. GEMMD_ERR_MALFORMED: the memory has been cut short,
 * or there are more than CLIENT_MEMORY_MAX. */
enum gemmd_error client_memory_hold(struct client_memory *places, struct shm_mapping *memory,
                                    struct fault *fault);
/* `bytes` at `offset` in a memory that is held. `alignment`: an element's bytes, which has to be
 * kept where nothing can be copied first: results, and what the host cannot touch.
 * GEMMD_ERR_MALFORMED names `what`. */
enum gemmd_error client_memory_find(const struct shm_mapping *memory, const char *what,
                                    uint64_t offset, uint64_t bytes, uint64_t alignment,
                                    unsigned char **at, struct fault *fault);
/* Gives those operands their data that lie there; they are all of a raw body's, in its order. */
void client_memory_point(const struct client_memory *places, struct tensor *operands,
                         uint32_t count);
/* The results' sizes are known: whether those that are to be there fit, and overwrite neither an
 * operand nor each other. GEMMD_ERR_MALFORMED. */
enum gemmd_error client_memory_check_results(const struct client_memory *places,
                                             const struct tensor *operands, uint32_t count,
                                             uint64_t result_bytes, uint64_t lse_bytes,
                                             struct fault *fault);
/* The bytes of those operands, which are all of a raw body's, that lie there. */
uint64_t client_memory_bytes(const struct client_memory *places, const struct tensor *operands,
                             uint32_t count);
/* The work is over, if it was begun: fails it if a memory was cut short, and lets go of all. */
void client_memory_end(struct client_memory *places, struct work *work);

#endif
