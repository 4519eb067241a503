/*
 * pool.h - idle transfers, which the client uses again.
 *
 * There are two sizes of transfers. libcurl's large buffers make large bodies up to twice as fast,
 * and cost time and memory with small bodies. A client keeps up to POOL_SMALL_MAX transfers of
 * about 140 KiB and POOL_BULK_MAX of 2.5 MiB, 29 MiB in all. A burst of more requests makes
 * transfers that are released when their requests end; their connections stay.
 */
#ifndef CLIENT_POOL_H
#define CLIENT_POOL_H

#include "client/transfer.h"

enum { POOL_SMALL_MAX = 64, POOL_BULK_MAX = 8 };

/* Returns an idle transfer for large (`bulk`) or small bodies, or a new one; NULL if there is no
 * memory. */
struct transfer *pool_take(struct gemmd_client *client, bool bulk);
/* Takes a transfer back. */
void pool_give(struct gemmd_client *client, struct transfer *transfer);
/* Releases all idle transfers. */
void pool_free(struct gemmd_client *client);

#endif
