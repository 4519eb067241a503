/*
 * pool.h - idle transfers, which the client uses again.
 *
 * There are two sizes of transfers. libcurl's large buffers make large bodies up to twice as fast,
 * and cost time and memory with small bodies.
 */
#ifndef CLIENT_POOL_H
#define CLIENT_POOL_H

#include "client/transfer.h"

/* Returns an idle transfer for large (`bulk`) or small bodies, or a new one; NULL if there is no
 * memory. */
struct transfer *pool_take(struct gemmd_client *client, bool bulk);
/* Takes a transfer back. */
void pool_give(struct gemmd_client *client, struct transfer *transfer);
/* Releases all idle transfers. */
void pool_free(struct gemmd_client *client);

#endif
