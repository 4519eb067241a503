/*
 * pool.h - transfers that lie idle, to be used again.
 *
 * They come in two sizes, because libcurl's buffers decide the speed of large bodies (up to twice)
 * and only cost time and memory with small ones.
 */
#ifndef CLIENT_POOL_H
#define CLIENT_POOL_H

#include "client/transfer.h"

/* An idle transfer for large (`bulk`) or small bodies, or a new one; NULL if there is no memory. */
struct transfer *pool_take(struct gemmd_client *client, bool bulk);
void pool_give(struct gemmd_client *client, struct transfer *transfer);
/* Releases all that lie idle. */
void pool_free(struct gemmd_client *client);

#endif
