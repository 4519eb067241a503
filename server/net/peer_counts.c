#include "server/net/peer_counts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/network.h"

struct slot {
    uint8_t address[16];
    uint32_t count; /* 0: empty */
};

/* Open addressing with linear probing; at most half full. */
struct peer_counts {
    pthread_mutex_t lock;
    uint32_t limit, mask;
    const struct networks *exempt; /* borrowed */
    struct slot *slots;
};

struct peer_counts *peer_counts_create(uint32_t limit, uint32_t capacity,
                                       const struct networks *exempt)
{
    uint32_t size = 16;
    while (size / 2 < capacity && size < (1u << 30))
        size *= 2;
    struct peer_counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL)
        return NULL;
    counts->slots = calloc(limit == 0 ? 1 : size, sizeof *counts->slots);
    if (counts->slots == NULL || pthread_mutex_init(&counts->lock, NULL) != 0) {
        free(counts->slots);
        free(counts);
        return NULL;
    }
    counts->limit = limit;
    counts->exempt = exempt;
    counts->mask = size - 1;
    return counts;
}

void peer_counts_destroy(struct peer_counts *counts)
{
    if (counts == NULL)
        return;
    pthread_mutex_destroy(&counts->lock);
    free(counts->slots);
    free(counts);
}

static bool key_of(const struct peer_counts *counts, const struct sockaddr *address,
                   uint8_t key[16])
{
    struct in6_addr v6;
    if (counts->limit == 0 || !network_address_of(address, &v6) ||
        networks_have_address(counts->exempt, &v6))
        return false;
    memcpy(key, v6.s6_addr, sizeof v6.s6_addr);
    return true;
}

static uint32_t address_hash(const uint8_t address[16])
{
    uint32_t value = 2166136261u; /* FNV-1a */
    for (int i = 0; i < 16; i++)
        value = (value ^ address[i]) * 16777619u;
    return value;
}

/* The slot of an address, or the empty slot where the address would be put. */
static uint32_t slot_of(const struct peer_counts *counts, const uint8_t address[16])
{
    uint32_t i = address_hash(address) & counts->mask;
    while (counts->slots[i].count != 0 && memcmp(counts->slots[i].address, address, 16) != 0)
        i = (i + 1) & counts->mask;
    return i;
}

bool peer_counts_add(struct peer_counts *counts, const struct sockaddr *address)
{
    uint8_t key[16];
    if (!key_of(counts, address, key))
        return true;
    pthread_mutex_lock(&counts->lock);
    struct slot *slot = &counts->slots[slot_of(counts, key)];
    bool room = slot->count < counts->limit;
    if (room) {
        memcpy(slot->address, key, sizeof slot->address);
        slot->count++;
    }
    pthread_mutex_unlock(&counts->lock);
    return room;
}

void peer_counts_remove(struct peer_counts *counts, const struct sockaddr *address)
{
    uint8_t key[16];
    if (!key_of(counts, address, key))
        return;
    pthread_mutex_lock(&counts->lock);
    uint32_t i = slot_of(counts, key);
    if (counts->slots[i].count > 0 && --counts->slots[i].count == 0) {
        /* Moves back the addresses that were probed past this slot, so that probing finds them. */
        uint32_t hole = i, j = i;
        for (;;) {
            j = (j + 1) & counts->mask;
            if (counts->slots[j].count == 0)
                break;
            uint32_t home = address_hash(counts->slots[j].address) & counts->mask;
            if (((j - home) & counts->mask) >= ((j - hole) & counts->mask)) {
                counts->slots[hole] = counts->slots[j];
                counts->slots[j].count = 0;
                hole = j;
            }
        }
    }
    pthread_mutex_unlock(&counts->lock);
}
